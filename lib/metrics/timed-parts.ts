import type { ProofVerifier } from '../dpop/proof.ts'
import type { ReplayStore } from '../replay/replay-store.ts'
import type { SignatureVerifier } from '../token/jwt-signature.ts'
import type { Histogram } from './histogram.ts'

/** Milliseconds from any start, never set back. */
export type ClockMs = () => number

/** The same verifier, with the time that each signature takes. */
export function timeSignatures (verify: SignatureVerifier, times: Histogram, nowMs: ClockMs): SignatureVerifier {
  return (token, pem) => {
    const startedAtMs = nowMs()
    const isValid = verify(token, pem)
    times.observe((nowMs() - startedAtMs) / 1000)
    return isValid
  }
}

/** The same verifier, with the time that each proof takes that passes. */
export function timeProofs (verify: ProofVerifier, times: Histogram, nowMs: ClockMs): ProofVerifier {
  return (proof, policy, done) => {
    const startedAtMs = nowMs()
    verify(proof, policy, error => {
      if (!error) times.observe((nowMs() - startedAtMs) / 1000)
      done(error)
    })
  }
}

/** The same store, with the time that each claim takes. */
export function timeRecords (store: ReplayStore, times: Histogram, nowMs: ClockMs): ReplayStore {
  return {
    record (id, jkt, expiresAt, done) {
      const startedAtMs = nowMs()
      store.record(id, jkt, expiresAt, (refusal, first) => {
        times.observe((nowMs() - startedAtMs) / 1000)
        done(refusal, first)
      })
    },
    state: () => store.state(),
    close: () => store.close()
  }
}
