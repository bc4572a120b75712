import { hash } from 'node:crypto'
import { withoutTrailingSlash } from '../provider/provider-url.ts'

/**
 * What an entry of the log does to its key. `cutoff`: tokens issued up to `at` are refused. `login`: the same, and tokens of logins up
 * to `at` (`auth_time`). `end`: all tokens are refused, whenever they were issued. `block` and `enable`: all tokens are refused from the
 * one until the other; the later moment holds. `undo`: what stood for the key so far stands no more.
 * `state`: news of the stream of a sender, which revoke nothing.
 */
export type RevocationEffect = 'cutoff' | 'login' | 'end' | 'block' | 'enable' | 'undo' | 'state'

/** One entry of the log of revocations. It is JSON, so that a store can keep it. */
export interface RevocationEntry {
  /** Whom it is about: see `keyOf`. */
  readonly key: string
  readonly effect: RevocationEffect
  /** The moment of the event, in Unix seconds, may be fractional. Never later than `recordedAt`. */
  readonly at: number
  /** When it reached the log, in Unix seconds. */
  readonly recordedAt: number
  /** The event, for people: the end of its type, such as `session-revoked`, or `logout`, or `operator`. Of a stream: `verification`, or its status. */
  readonly event: string
  /** The issuer of the event, or the `sub` of the operator. */
  readonly source: string
}

/** The parts of a token that a revocation can name. An issuer of `*` means all of them. */
export type RevocationTarget =
  | readonly ['sub' | 'sid' | 'jti' | 'client', string, string]
  | readonly ['claim', string, string, string]
  | readonly ['issuer', string]
  | readonly ['jkt', string]

const MAX_KEY_CHARACTERS = 200

/** The key of a target: short, whatever the length of its parts. The trailing slash of an issuer makes no difference. */
export function keyOf (target: RevocationTarget): string {
  const [kind, ...rest] = target
  const parts = kind === 'jkt' ? rest : [withoutTrailingSlash(rest[0]!), ...rest.slice(1)]
  const key = JSON.stringify([kind, ...parts])
  return key.length <= MAX_KEY_CHARACTERS ? key : `${kind} ${hash('sha256', key, 'base64url')}`
}
