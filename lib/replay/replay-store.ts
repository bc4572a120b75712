import type { Refusal } from '../refusal.ts'

/**
 * Seconds for which a record outlives its proof: a copy judged in time may reach the store late, when the process is busy.
 * A record that comes later still is refused, since its record may be gone.
 */
export const LATE_RECORD_SECONDS = 5

/** The answer to a record: `first` is true when the id was recorded now, false when it was there already. */
export type RecordDone = (refusal: Refusal | null, first?: boolean) => void

/** What readiness and metrics may know of a store. Holds no secret: `reason` is one of a fixed set of words. */
export interface ReplayState {
  readonly kind: 'memory' | 'redis' | 'off'
  /** Whether a record made now would be decided. */
  readonly ready: boolean
  /** Why not, as a stable word; or what else is to be known of a store that is ready. */
  readonly reason?: string
  /** Live records, where the store can tell. */
  readonly entries?: number
  /** The most live records that the store holds. */
  readonly max?: number
  /** What the records take in memory, where the store can tell. */
  readonly bytes?: number
  /** Records asked for, of any outcome, since the store was made. */
  readonly claims: number
  /** Records of an id that was there already. */
  readonly seen: number
  /** Records that could not be decided. */
  readonly refused: number
}

/** Remembers which proofs have been used (RFC 9449 section 11.1). */
export interface ReplayStore {
  /**
   * Records an id and tells whether it was the first to do so, in one atomic step.
   *
   * @param id the SHA-256 of the key's thumbprint and the `jti`: 32 characters, each of which stands for a byte (latin1, Node's `binary`).
   * @param jkt the thumbprint of that key, as base64url text: the store in memory holds each key to its share.
   * @param expiresAt Unix seconds, may be fractional. The record is kept through that moment and at least that long.
   * @param done `(null, true)` first, `(null, false)` seen before, `(refusal)` undecided: `replay_unavailable`,
   *   `replay_full` or `replay_share_exceeded`. Called exactly once; by the memory store before `record` returns.
   */
  record (id: string, jkt: string, expiresAt: number, done: RecordDone): void
  state (): ReplayState
  /** Frees what the store holds. Records asked for later are refused. */
  close (): Promise<void> | void
}
