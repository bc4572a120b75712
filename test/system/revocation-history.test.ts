import t from 'tap'
import { buildService } from '../helpers/instance.ts'
import { skipRedis, skipRedisClock } from '../helpers/redis.ts'
import { runHistory } from '../history/run.ts'

const SEED = Number(process.env.HISTORY_SEED ?? 31)
const SECONDS = 8

t.setTimeout(240_000)

t.test(
  'Whatever happens to instances, clocks and store, what was acknowledged is refused by every instance of every ' +
    'service until its end, and by none for longer.',
  { skip: skipRedis || skipRedisClock },
  async t => {
    const { violations, kills, faults, counts } = await runHistory(t, {
      directory: buildService(t),
      seed: SEED,
      seconds: SECONDS,
      keeping: 'everysec',
      hasOwnClock: true,
      isForgetting: false,
      burst: 5
    })
    t.comment(`seed ${SEED}: ${kills} kills; ${JSON.stringify({ ...counts, ...Object.fromEntries(faults) })}`)
    t.strictSame(violations, [])
    // How many there are is up to the machine.
    for (const count of ['passed', 'revoked', 'ended acknowledged']) t.ok(counts[count]! > 0, count)
    t.ok(kills > 1)
  }
)
