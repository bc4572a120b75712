import { Refusal } from '../refusal.ts'
import type { Cutoffs, Revocation, RevocationFacts } from './cutoffs.ts'
import type { RevocationEntry } from './entry.ts'
import type { RevocationLog, RevocationLogState } from './log.ts'
import { revocationKeysOf } from './token-targets.ts'
import type { ClaimNames, RevocableToken } from './token-targets.ts'

export interface RevocationsOptions {
  readonly cutoffs: Cutoffs
  readonly log: RevocationLog
  readonly names: ClaimNames
  /** Seconds for which a token may be valid: for so long a cutoff is remembered. */
  readonly retentionSeconds: number
  /** Seconds for which the log may be silent. */
  readonly staleSeconds: number
  /** What holds while this process does not know all: no token passes, or tokens are judged by what is known. */
  readonly outage: 'refuse' | 'serve'
  /** Unix seconds. */
  readonly now: () => number
}

const RETRY_AFTER_SECONDS = 1

/** Thrown if there is no room for one more cutoff. None is ever dropped for a new one. */
export class NoRoomError extends Error {
  override readonly name = 'NoRoomError'
}

export interface RevocationsState extends RevocationLogState {
  /** Whether tokens can be judged: all of the log has been read, and it was heard of lately. */
  readonly isCurrent: boolean
  readonly entries: number
  readonly max: number
}

/** What has been taken back, and the question whether a token has. */
export interface Revocations {
  /** Why a token is refused. Undefined if it is not. Cheap: a token is judged anew only after an event. */
  refusalOf (token: RevocableToken): Refusal | undefined
  /** What has revoked a token, for people. */
  revocationOf (token: RevocableToken): Revocation | undefined
  /**
   * Resolves when the entries stand in the log and are in force here.
   * @throws NoRoomError, RevocationLogError
   */
  append (entries: readonly RevocationEntry[]): Promise<void>
  state (): RevocationsState
  /** Unix seconds. */
  readonly now: () => number
}

/** What is known of a token: it is worked out once. */
interface Known {
  readonly facts: RevocationFacts
  /** Of the cutoffs, when the token was last judged and had not been revoked. */
  version: number
}

export function createRevocations ({ cutoffs, log, names, retentionSeconds, staleSeconds, outage, now }: RevocationsOptions): Revocations {
  const tokens = new WeakMap<object, Known>()

  function knownOf (token: RevocableToken): Known {
    let known = tokens.get(token)
    if (!known) {
      const { iat: issuedAt, auth_time: loginAt } = token.claims as { readonly iat?: unknown, readonly auth_time?: unknown }
      known = { facts: { keys: revocationKeysOf(token, names), issuedAt: asTime(issuedAt), loginAt: asTime(loginAt) }, version: -1 }
      tokens.set(token, known)
    }
    return known
  }

  function isCurrent (): boolean {
    const { isLoaded, ageSeconds } = log.state()
    return isLoaded && ageSeconds <= staleSeconds
  }

  return {
    refusalOf (token) {
      if (outage === 'refuse' && !isCurrent()) return new Refusal('revocation_unknown', { retryAfterSeconds: RETRY_AFTER_SECONDS })
      const known = knownOf(token)
      if (known.version === cutoffs.version()) return undefined
      const tooLong = lifetimeRefusal(token.claims.exp, known.facts.issuedAt ?? now(), retentionSeconds)
      if (tooLong) return tooLong
      const revocation = cutoffs.revocationOf(known.facts)
      if (revocation) return new Refusal('token_revoked', { detail: { ...revocation } })
      known.version = cutoffs.version()
      return undefined
    },
    revocationOf: token => cutoffs.revocationOf(knownOf(token).facts),
    async append (entries) {
      if (!cutoffs.hasRoom(entries.filter(({ effect }) => effect !== 'undo' && effect !== 'state').map(({ key }) => key))) throw new NoRoomError('there is no room for another cutoff')
      if (entries.length > 0) await log.append(entries)
    },
    now,
    state: () => ({ ...log.state(), isCurrent: isCurrent(), entries: cutoffs.size(), max: cutoffs.max })
  }
}

/**
 * Refuses a token that lives for longer than its cutoff would be remembered.
 * @param exp without it a token may live for ever
 * @param from its `iat`, else now. Unix seconds
 */
export function lifetimeRefusal (exp: number, from: number, retentionSeconds: number): Refusal | undefined {
  return exp - from <= retentionSeconds ? undefined : new Refusal('token_too_long', { detail: { expected: `at most ${retentionSeconds} seconds`, found: exp } })
}

function asTime (value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
