import type { Refusal } from '../../refusal.ts'

/**
 * Seconds for which a record outlives its proof. If the process is busy, a copy that was judged in time may reach the
 * store late. A copy that arrives even later is refused, since the first record may be gone.
 */
export const LATE_RECORD_SECONDS = 5

/** The answer to a record: `first` is true if the id was recorded now, and false if it had been recorded before. */
export type RecordDone = (refusal: Refusal | null, first?: boolean) => void

/** The state of a store, for readiness and metrics. It holds no secret: `reason` is one of a fixed set of words. */
export interface ReplayState {
  readonly kind: 'memory' | 'redis' | 'off'
  /** Whether a record made now would be decided. */
  readonly ready: boolean
  /** Why the store is not ready, as a stable word. For a store that is ready, a word of warning. */
  readonly reason?: string
  /** Live records, if the store can count them. */
  readonly entries?: number
  /** Maximum number of live records. */
  readonly max?: number
  /** Bytes of memory that the records take, if the store can measure them. */
  readonly bytes?: number
  /** The number of calls of `record` since the store was made. */
  readonly records: number
  /** The number of records whose id had been recorded before. */
  readonly seen: number
  /** The number of records that could not be decided. */
  readonly refused: number
}

/** Remembers which proofs have been used (RFC 9449 section 11.1). */
export interface ReplayStore {
  /**
   * Records an id, and says whether this was the first time, in one atomic step.
   *
   * @param id the SHA-256 of the key's thumbprint and the `jti`: 32 characters, each of which stands for a byte
   * (latin1, Node's `binary`)
   * @param jkt the thumbprint of that key, as base64url text. The memory store uses it to limit each key to its share.
   * @param expiresAt Unix seconds, may be fractional. The record is kept at least until that moment has passed.
   * @param done `(null, true)` first, `(null, false)` seen before, `(refusal)` undecided: `replay_unavailable`,
   * `replay_full` or `replay_share_exceeded`. Called exactly once. The memory store calls it before `record` returns.
   */
  record (id: string, jkt: string, expiresAt: number, done: RecordDone): void
  state (): ReplayState
  /** Frees the resources of the store. Later records are refused. */
  close (): Promise<void> | void
}
