import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { createTransmitter } from '../../../lib/revocation/transmitter.ts'
import type { TransmitterOptions } from '../../../lib/revocation/transmitter.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

t.test('A transmitter that cannot be reached is retried less and less often, at least once a minute', async t => {
  const waits: number[] = []
  let later: (() => void) | undefined
  const transmitter = createTransmitter({
    issuer: 'https://a.example',
    delivery: 'poll',
    manage: false,
    authenticate: undefined,
    // Of the keys nothing is ever heard.
    transport: { open: () => ({ send: () => new Promise(() => {}), close () {} }), close () {} },
    lead: () => Promise.reject(new Error('unreachable')),
    onEvent: () => {},
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
  } as unknown as TransmitterOptions)
  transmitter.start()
  await setImmediate()
  for (let n = 0; n < 7; n++) {
    later!()
    await setImmediate()
  }
  t.strictSame(waits, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000])
})
