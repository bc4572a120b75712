import type { PassedOver } from './key-set.ts'
import type { ProviderFailureWord } from './provider-failure.ts'

/**
 * empty: no set has been fetched yet. fresh: the last fetch brought a set. stale: the last fetch failed, and the keys of
 * the last set serve on. expired: it is 24 h since the last set, and no key is trusted.
 */
export const KEY_SOURCE_STATUSES = Object.freeze(['empty', 'fresh', 'stale', 'expired'] as const)

export type KeySourceStatus = (typeof KEY_SOURCE_STATUSES)[number]

/** For health and metrics. */
export interface KeySourceState {
  readonly status: KeySourceStatus
  /** Keys that tokens are verified with now. */
  readonly keys: number
  /** Entries of the last set that are not used, by reason. */
  readonly passedOver: PassedOver
  /** When the last set was had, in ms as the source's clock counts. */
  readonly fetchedAt: number | undefined
  /** Fetches begun and fetches failed since the start. */
  readonly fetches: number
  readonly failures: number
  /** Why the last fetch failed; undefined when it did not. */
  readonly lastFailure: ProviderFailureWord | undefined
}

/** For logs: told once for each change, never for a request. */
export type KeySourceEvent =
  /** The first set, a set that differs from the one before, or the end of an outage. */
  | { readonly name: 'keys_fetched', readonly keys: number, readonly added: number, readonly removed: number, readonly passedOver: PassedOver }
  /** The first failure after a success or the start; not each of its repetitions. */
  | { readonly name: 'keys_fetch_failed', readonly failure: ProviderFailureWord, readonly detail: string | number | undefined, readonly keys: number }
  /** 24 h without a set: no key is trusted any more. */
  | { readonly name: 'keys_expired', readonly failure: ProviderFailureWord, readonly keys: number }
