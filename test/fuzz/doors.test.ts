import t from 'tap'
import { openDoors } from './doors.ts'

const SEED = Number(process.env['FC_SEED'] ?? 9449)
const REQUESTS = Number(process.env['FC_RUNS'] ?? 600)

t.test('The plugin and createGuard give the same answers, to the byte but for what Node writes, and refusals in due form.', async t => {
  const { run, close } = await openDoors(SEED)
  t.teardown(close)
  const faults: unknown[] = []
  const seen = new Map<number | undefined, number>()
  for (let number = 0; number < REQUESTS; number++) {
    for (const { status, fault } of await run(number)) {
      if (fault) faults.push({ number, fault })
      seen.set(status, (seen.get(status) ?? 0) + 1)
    }
  }
  t.strictSame(faults, [])
  for (const status of [200, 401, 403]) t.ok(seen.get(status)! > REQUESTS / 20, `${status}: ${seen.get(status)}`)
})
