import t from 'tap'
import { findWrongCalls } from './revocation-model.ts'
import type { SessionOperation } from './revocation-model.ts'

/** One operation as `outcome start-end`. */
function operations (...texts: string[]): SessionOperation[] {
  return texts.map(text => {
    const [outcome, start, end] = text.split(/[ -]/)
    const common = { session: 's', start: Number(start), end: Number(end) }
    if (outcome === 'acknowledged' || outcome === 'lost') {
      return { kind: 'ending', outcome: outcome === 'lost' ? 'unknown' : outcome, ...common }
    }
    return { kind: 'call', instance: 'a', outcome: outcome as 'passed', ...common }
  })
}

t.test(
  'A history is right if nothing passes later than a second after the acknowledgement, and nothing is refused ' +
    'without cause.',
  t => {
    const rows: ReadonlyArray<{ title: string, history: string[], isRight: boolean }> = [
      { title: 'passed, nothing ended', history: ['passed 1-2'], isRight: true },
      { title: 'passed within the second', history: ['acknowledged 1-2', 'passed 3-4'], isRight: true },
      { title: 'passed later', history: ['acknowledged 1-2', 'passed 3.1-4'], isRight: false },
      { title: 'unknown later', history: ['acknowledged 1-2', 'unknown 3.1-4'], isRight: true },
      { title: 'revoked', history: ['acknowledged 1-2', 'revoked 1-2'], isRight: true },
      { title: 'passed after an ending without an answer', history: ['lost 1-2', 'passed 9-10'], isRight: true },
      { title: 'revoked after an ending without an answer', history: ['lost 1-2', 'revoked 9-10'], isRight: true },
      { title: 'revoked before anything ended', history: ['revoked 1-2', 'acknowledged 3-4'], isRight: false },
      { title: 'revoked for nothing', history: ['revoked 1-2'], isRight: false }
    ]
    for (const { title, history, isRight } of rows) {
      t.equal(findWrongCalls(operations(...history)).length === 0, isRight, title)
    }
    const other = operations('acknowledged 1-2').map(operation => ({ ...operation, session: 'other' }))
    t.equal(findWrongCalls([...other, ...operations('passed 9-10')]).length, 0, 'another session')
    t.end()
  }
)
