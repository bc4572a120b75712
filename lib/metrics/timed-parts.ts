import type { Guard, GuardOptions } from '../guard.ts'
import type { ReplayStore } from '../replay/replay-store.ts'
import type { Histogram } from './histogram.ts'

/** Milliseconds from any start, never set back. */
export type ClockMs = () => number

type VerifySignature<Carrier> = GuardOptions<Carrier>['verifySignature']

const kVerifiedAtMs = Symbol('holdfast.verifiedAtMs')

interface Timed {
  /** When the signature of the request's token was verified, for a token that was not known. */
  [kVerifiedAtMs]?: number
}

/** The same verifier, with the time that each signature takes. */
export function timeSignatures<Carrier> (verify: VerifySignature<Carrier>, times: Histogram, nowMs: ClockMs): VerifySignature<Carrier> {
  return (carrier, token, pem, done) => {
    const startedAtMs = nowMs()
    verify(carrier, token, pem, isValid => {
      const verifiedAtMs = nowMs()
      times.observe((verifiedAtMs - startedAtMs) / 1000);
      (carrier as Timed)[kVerifiedAtMs] = verifiedAtMs
      done(isValid)
    })
  }
}

/** The same guard, with the time that each accepted proof takes, without that of its token. */
export function timeProofs<Carrier> (guard: Guard<Carrier>, times: Histogram, nowMs: ClockMs): Guard<Carrier> {
  return (carrier, message, done) => {
    const startedAtMs = nowMs()
    guard(carrier, message, (error, identity) => {
      if (identity?.scheme === 'DPoP') times.observe((nowMs() - ((carrier as Timed)[kVerifiedAtMs] ?? startedAtMs)) / 1000)
      done(error, identity)
    })
  }
}

/** The same store, with the time that each claim takes. */
export function timeClaims (store: ReplayStore, times: Histogram, nowMs: ClockMs): ReplayStore {
  return {
    claim (id, expiresAt, done) {
      const startedAtMs = nowMs()
      store.claim(id, expiresAt, (refusal, first) => {
        times.observe((nowMs() - startedAtMs) / 1000)
        done(refusal, first)
      })
    },
    state: () => store.state(),
    close: () => store.close()
  }
}
