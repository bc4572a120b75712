import type { ProofVerifier } from '../../guard/dpop/proof.ts'
import type { SignerFinder } from '../../guard/jose/signed-jwt.ts'
import type { ReplayStore } from '../../guard/replay/replay-store.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import type { Histogram } from './tallies.ts'

/** Measures the time that the signature of each token takes, under all keys that may have signed it. */
export function timeSignatures (
  findSigner: SignerFinder,
  times: Histogram,
  steadyMs: Surroundings['steadyMs']
): SignerFinder {
  return (token, keys, alg) => {
    const startedAtMs = steadyMs()
    const key = findSigner(token, keys, alg)
    times.observe(steadyMs() - startedAtMs)
    return key
  }
}

/** Wraps a verifier and measures the time of each proof that passes. */
export function timeProofs (
  verify: ProofVerifier,
  times: Histogram,
  steadyMs: Surroundings['steadyMs']
): ProofVerifier {
  return (proof, policy, done) => {
    const startedAtMs = steadyMs()
    verify(proof, policy, error => {
      if (!error) times.observe(steadyMs() - startedAtMs)
      done(error)
    })
  }
}

/** Wraps a store and measures the time that each record takes. */
export function timeRecords (store: ReplayStore, times: Histogram, steadyMs: Surroundings['steadyMs']): ReplayStore {
  return {
    ...store,
    record (id, jkt, expiresAt, done) {
      const startedAtMs = steadyMs()
      store.record(id, jkt, expiresAt, (refusal, first) => {
        times.observe(steadyMs() - startedAtMs)
        done(refusal, first)
      })
    }
  }
}
