import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { createStreamKeeper } from '../../../lib/revocation/stream-keeper.ts'
import type { StreamKeeperOptions } from '../../../lib/revocation/stream-keeper.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

t.test('A transmitter that cannot be reached is retried less and less often, at least once a minute', async t => {
  const waits: number[] = []
  let later: (() => void) | undefined
  const keeper = createStreamKeeper({
    sender: { name: 'a' },
    delivery: 'poll',
    manage: false,
    configuration: () => undefined,
    learnConfiguration: () => Promise.reject(new Error('unreachable')),
    take: () => Promise.reject(new Error('nothing comes')),
    lead: async () => true,
    onStatus: () => {},
    // The longest wait that chance allows.
    surroundings: {
      ...processSurroundings,
      random: () => 0,
      after: (ms: number, run: () => void) => {
        waits.push(ms)
        later = run
        return () => {}
      }
    }
  } as unknown as StreamKeeperOptions)
  keeper.start()
  for (let n = 0; n < 8; n++) {
    later!()
    await setImmediate()
  }
  t.strictSame(waits, [0, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000])
})
