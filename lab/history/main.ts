/** `npm run test:history`: see ../README.md. Ends with status 1 if anything was not as it must be. */
import { join } from 'node:path'
import { expectKnown, readOptions } from '../../bench/options.js'
import { nginxProgram } from '../../test/helpers/nginx.ts'
import { skipRedisClock } from '../../test/helpers/redis.ts'
import { runHistory } from '../../test/history/run.ts'
import type { Keeping } from '../../test/history/store.ts'
import { runSite } from './site/run.ts'

const KEEPING: readonly Keeping[] = ['nothing', 'everysec', 'always', 'replica']
const values = readOptions({
  of: { type: 'string', default: 'records' },
  seconds: { type: 'string', default: '60' },
  seed: { type: 'string', default: '31' },
  store: { type: 'string', default: 'nothing' },
  clock: { type: 'boolean', default: false },
  forget: { type: 'boolean', default: false },
  burst: { type: 'string', default: '9' },
  dist: { type: 'string', default: join(import.meta.dirname, '..', '..', 'dist') }
})
expectKnown('of', [values.of], ['records', 'site'])
expectKnown('store', [values.store], KEEPING)
if (skipRedisClock) throw new Error(skipRedisClock)

const ends: Array<() => unknown> = []
let isEnding = false
async function endAll () {
  if (isEnding) return
  isEnding = true
  for (const end of ends.reverse()) await end()
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    endAll().finally(() => process.exit(1))
  })
}

const owner = {
  teardown (end: () => unknown) {
    ends.push(end)
  }
}
const common = { directory: values.dist, seed: Number(values.seed), seconds: Number(values.seconds) }
try {
  if (values.of === 'site' && nginxProgram === undefined) throw new Error('nginx is not installed')
  const { violations, faults, ...rest } = values.of === 'site'
    ? await runSite(owner, common)
    : await runHistory(owner, {
      ...common,
      keeping: values.store as Keeping,
      hasOwnClock: values.clock,
      isForgetting: values.forget,
      burst: Number(values.burst)
    })
  console.log(JSON.stringify({ ...values, ...rest, faults: Object.fromEntries(faults) }, null, 2))
  for (const violation of violations) console.log(violation)
  console.log(violations.length === 0 ? 'all was as it must be' : `${violations.length} violations`)
  process.exitCode = violations.length === 0 ? 0 : 1
} finally {
  await endAll()
}
