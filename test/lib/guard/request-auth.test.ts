import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { createTokenSignals } from '../../../lib/guard/request-auth.ts'
import { Refusal } from '../../../lib/refusal.ts'
import type { VerifiedToken } from '../../../lib/guard/token/verified-tokens.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const TOKEN = {
  scopes: [],
  binding: { jkt: undefined },
  issuer: 'https://a.example',
  expiresAt: 100
} as unknown as VerifiedToken

function start (revocationOf?: (token: VerifiedToken) => Refusal | undefined) {
  const clock = { now: 90, run: undefined as (() => void) | undefined }
  const signals = createTokenSignals({
    revocationOf,
    clockToleranceSeconds: 5,
    now: () => clock.now,
    every: (_ms, run) => {
      clock.run = run
      return () => {
        clock.run = undefined
      }
    }
  })
  const signal = () => signals.signalFor(TOKEN, false)
  return { clock, signals, signal }
}

t.test('A signal whose request was collected still aborts, at exp and the tolerance', async t => {
  const { clock, signal } = start()
  const held = signal()
  await new Promise(setImmediate)
  collect()
  clock.now = 104.9
  clock.run!()
  t.equal(held.aborted, false)
  clock.now = 105
  clock.run!()
  t.strictSame([held.aborted, (held.reason as { code: string }).code], [true, 'token_expired'])
  t.equal(clock.run, undefined, 'nothing is left to look at')
})

t.test('A signal that is first read after the end of its token has aborted, and is not watched', async t => {
  const { clock, signal } = start()
  clock.now = 104.9
  t.equal(signal().aborted, false)
  await new Promise(setImmediate)
  collect()
  clock.run!()
  clock.now = 105
  const late = signal()
  t.strictSame([late.aborted, (late.reason as { code: string }).code], [true, 'token_expired'])
  t.equal(clock.run, undefined)
})

t.test('A signal that is not held costs nothing', async t => {
  const { clock, signal } = start()
  signal()
  await new Promise(setImmediate)
  collect()
  clock.run!()
  t.equal(clock.run, undefined)
})

t.test('A signal aborts when the token is revoked, and not while revocations are unknown', async t => {
  let reason: 'revocation_unknown' | 'token_revoked' = 'revocation_unknown'
  const { clock, signal } = start(() => new Refusal(reason))
  const held = signal()
  clock.run!()
  t.equal(held.aborted, false)
  reason = 'token_revoked'
  clock.run!()
  t.strictSame([(held.reason as { code: string }).code, (held.reason as Error).message], [
    'token_revoked',
    'The access token has been revoked.'
  ])
})

t.test('After the close no signal aborts', async t => {
  const { clock, signals, signal } = start()
  signals.close()
  const held = signal()
  signals.close()
  t.strictSame([held.aborted, clock.run], [false, undefined])
})
