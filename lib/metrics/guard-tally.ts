import { REFUSALS } from '../refusal.ts'
import type { RefusalReason } from '../refusal.ts'
import { createHistogram } from './histogram.ts'
import type { Histogram } from './histogram.ts'

/** What the guard has done since the start. */
export interface GuardTally {
  /** By reason; every reason is there from the start. */
  readonly refusals: Readonly<Record<RefusalReason, number>>
  /** Signatures of access tokens that were not known yet. */
  readonly tokens: Histogram
  /** Proofs that pass, from the first check to the last one before the record of the `jti`. */
  readonly proofs: Histogram
  /** Claims at a shared replay store. One in memory takes about a microsecond and is not measured. */
  readonly claims: Histogram
  refused (reason: RefusalReason): void
}

const VERIFICATION_BOUNDS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5]
const CLAIM_BOUNDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5]

export function createGuardTally (): GuardTally {
  const refusals = Object.fromEntries(Object.keys(REFUSALS).map(reason => [reason, 0])) as Record<RefusalReason, number>
  return {
    refusals,
    tokens: createHistogram(VERIFICATION_BOUNDS),
    proofs: createHistogram(VERIFICATION_BOUNDS),
    claims: createHistogram(CLAIM_BOUNDS),
    refused (reason) {
      refusals[reason]++
    }
  }
}
