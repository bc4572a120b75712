/**
 * What an entry does to its key. `cutoff`: tokens issued up to `at` are refused. `login`: the same, and tokens of
 * logins up to `at` (`auth_time`). `end`: all tokens are refused, whenever they were issued. `block` and `enable`: all
 * tokens are refused from the one until the other; the later moment holds. `undo`: ends what stands for the key.
 * `state`: news of the stream of a sender, which revoke nothing.
 */
export type RevocationEffect = 'cutoff' | 'login' | 'end' | 'block' | 'enable' | 'undo' | 'state'

/** What a sender reports about one key. */
export interface RevocationEntry {
  /** What it is about: see `keyOf`. */
  readonly key: string
  readonly effect: RevocationEffect
  /** The moment of the event as its sender says, in Unix seconds, may be fractional. */
  readonly at: number
  /**
   * The event, for people: the end of its type, such as `session-revoked`, or `logout`, or `operator`. Of a stream:
   * `verification`, or its status.
   */
  readonly event: string
  /** The issuer of the event, or the `sub` of the operator. */
  readonly source: string
  /** Whose part of the room it takes: the issuer of the event, or of the operator's token, without a trailing slash. */
  readonly sender: string
  /**
   * What the sender is to the tokens it names. `issuer`: it has issued them, so one clock made both their times.
   * `operator`: it acts for their issuer, with our clock. `other`: anyone else, such as a transmitter that speaks about
   * tokens of another issuer.
   */
  readonly standing: 'issuer' | 'operator' | 'other'
}
