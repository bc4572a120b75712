/**
 * What an entry of the log does to its key. `cutoff`: tokens issued up to `at` are refused. `login`: the same, and
 * tokens of logins up to `at` (`auth_time`). `end`: all tokens are refused, whenever they were issued. `block` and
 * `enable`: all tokens are refused from the one until the other; the later moment holds. `undo`: the earlier entries of
 * the key are removed. `state`: news of the stream of a sender, which revoke nothing.
 */
export const EFFECTS = ['cutoff', 'login', 'end', 'block', 'enable', 'undo', 'state'] as const
export type RevocationEffect = typeof EFFECTS[number]

/**
 * What the sender of an entry is to the tokens it names. `issuer`: it has issued them, so one clock made both their
 * times. `operator`: it acts for their issuer, with our clock. `other`: anyone else, such as a transmitter that speaks
 * about tokens of another issuer.
 */
export const STANDINGS = ['issuer', 'operator', 'other'] as const

/** One entry of the log of revocations. It is JSON, so that a store can keep it. */
export interface RevocationEntry {
  /** What it is about: see `keyOf`. */
  readonly key: string
  readonly effect: RevocationEffect
  /** The moment of the event as its sender says, in Unix seconds, may be fractional. */
  readonly at: number
  /**
   * Of an entry that stands for several: the moment of the logins that a `cutoff` ends too, or at which a `block` was
   * lifted before.
   */
  readonly also?: number
  /** When it reached the log, in Unix seconds. */
  readonly recordedAt: number
  /**
   * The event, for people: the end of its type, such as `session-revoked`, or `logout`, or `operator`. Of a stream:
   * `verification`, or its status.
   */
  readonly event: string
  /** The issuer of the event, or the `sub` of the operator. */
  readonly source: string
  /** Whose part of the room it takes: the issuer of the event, or of the operator's token, without a trailing slash. */
  readonly sender: string
  readonly standing: typeof STANDINGS[number]
  /** The issuer of the tokens it names, without a trailing slash. `*`: all. Undefined for a key. It is not stored. */
  readonly issuer?: string | undefined
}

/**
 * Called for each entry in the order of the log. One that was written again comes again.
 * @param ageSeconds since it was first written. It may be less than that, and is never more
 * @param place counts the entries as this process reads them
 */
export type OnRevocationEntry = (entry: RevocationEntry, ageSeconds: number, place: number) => void

/**
 * Thrown while nothing can be said for or against a revocation, or while it cannot be stored: the log does not answer,
 * or has no room. It may have been stored. It is to be sent again: entries merge.
 */
export class UndecidedError extends Error {
  override readonly name = 'UndecidedError'
}

/**
 * The log of revocations, which all instances share: what one of them appends, each of them reads, in one order. A
 * sender gets its acknowledgement only after the log has the entry.
 */
export interface RevocationLog {
  /**
   * Resolves when the log has the entries and this process applies them.
   * @throws UndecidedError
   */
  append (entries: readonly RevocationEntry[]): Promise<void>
  /**
   * Whether this process has read all that the log holds now, and the log has lost nothing of it: then each of them
   * knows what the other does. False if that cannot be said.
   */
  isInStep (): Promise<boolean>
  /**
   * Whether it has ever lost anything that this process has read, such as that something was undone: others may then
   * read what this process no longer knows.
   */
  hasLost (): boolean
  /**
   * Whether this process is the only one that may do a task now, such as polling. It holds for 10 seconds, and is
   * renewed before that.
   */
  lead (task: string): Promise<boolean>
  /**
   * Milliseconds since its last answer. 0 for the memory of the process. Infinity until this process has read all of
   * it. It is called for each request, so it allocates nothing.
   */
  ageMs (): number
  /** Why it cannot be reached, as a stable word. */
  fault (): string | undefined
  close (): void
}

/** The log of a service of one instance: its own memory, gone when it ends. */
export function createMemoryLog (onEntry: OnRevocationEntry): RevocationLog {
  let place = 0
  return {
    async append (entries) {
      for (const entry of entries) onEntry(entry, 0, ++place)
    },
    isInStep: async () => true,
    hasLost: () => false,
    lead: async () => true,
    ageMs: () => 0,
    fault: () => undefined,
    close () {}
  }
}
