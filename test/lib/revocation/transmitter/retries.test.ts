import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { ProviderFailure } from '../../../../lib/guard/provider/provider-failure.ts'
import { createTransmitter, type TransmitterOptions } from '../../../../lib/revocation/transmitter/transmitter.ts'
import { processSurroundings } from '../../../../server/surroundings.ts'

t.test('A transmitter that cannot be reached is retried less and less often, at least once a minute', async t => {
  const waits: number[] = []
  let later: (() => void) | undefined
  const transmitter = createTransmitter({
    issuer: 'https://a.example',
    delivery: 'poll',
    verify: true,
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

t.test('A round that fetches the configuration itself is cut when the stream is closed', async t => {
  const planned: Array<() => void> = []
  let opened = 0
  const transmitter = createTransmitter({
    issuer: 'https://a.example',
    delivery: 'poll',
    verify: true,
    authenticate: undefined,
    // The keys get a failure, and the round that comes then gets nothing.
    transport: {
      open () {
        const isFirst = ++opened === 1
        let cut = () => {}
        return {
          send: () =>
            new Promise((_, reject) => {
              cut = () => reject(new ProviderFailure('unreachable'))
              if (isFirst) cut()
            }),
          close: () => cut()
        }
      },
      close () {}
    },
    calls: { close () {} },
    lead: async () => true,
    onEvent: () => {},
    surroundings: {
      ...processSurroundings,
      after: (_: number, run: () => void) => {
        planned.push(run)
        return () => {}
      }
    }
  } as unknown as TransmitterOptions)
  transmitter.start()
  await setImmediate()
  t.equal(opened, 1, 'the first round takes what the keys fetch')
  // It fails before the keys do, and is planned first.
  planned[0]!()
  await setImmediate()
  t.equal(opened, 2)
  t.equal(await Promise.race([transmitter.close(), setTimeout(1000, 'waits')]), undefined)
})
