import t from 'tap'
import type { ScopeImplications } from '../../lib/guard/requirement/implied-scopes.ts'
import { openMeter } from './coverage.ts'

t.test('Twice as many links of implied scopes take twice the work.', async t => {
  const meter = await openMeter('/lib/guard/requirement/implied-scopes.ts')
  t.teardown(meter.close)
  const { createScopeGranters, findScopeCircle } = await import('../../lib/guard/requirement/implied-scopes.ts')
  const shapes: Record<string, (n: number) => readonly string[]> = {
    chain: n => [`s${n + 1}`],
    fan: n => ['all', `t${n}`]
  }
  for (const [title, impliedBy] of Object.entries(shapes)) {
    const work = async (links: number): Promise<number> => {
      const implications: ScopeImplications = Object.fromEntries(
        Array.from({ length: links }, (_, n) => [`s${n}`, impliedBy(n)])
      )
      const { operations } = await meter.run(() => {
        findScopeCircle(implications)
        const grantersOf = createScopeGranters(implications)
        grantersOf(`s${links}`)
        grantersOf('all')
      })
      return operations
    }
    const [less, more] = [await work(5000), await work(10_000)]
    t.ok(less >= 5000, `${title}: the work is counted: ${less}`)
    t.ok(more <= less * 2.1, `${title}: ${less} for 5000 links, ${more} for 10000`)
  }
})
