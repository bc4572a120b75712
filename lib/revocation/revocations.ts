import { Refusal } from '../refusal.ts'
import type { Cutoffs, Revocation } from './cutoffs.ts'
import { UndecidedError } from './log.ts'
import type { RevocationEntry, RevocationLog } from './log.ts'
import { MAX_CLAIM_VALUES, revocationFactsOf } from './target.ts'
import type { ClaimNamesOf, RevocableToken, RevocationFacts } from './target.ts'

export interface RevocationsOptions {
  readonly cutoffs: Cutoffs
  /** The log whose entries `cutoffs` gets. */
  readonly log: RevocationLog
  readonly namesOf: ClaimNamesOf
  /** Seconds for which a token may be valid: a cutoff is kept for as long. */
  readonly retentionSeconds: number
  /** Seconds for which the log may be silent. */
  readonly staleSeconds: number
  /** While this process does not know all: `refuse` every token, or judge tokens by what is known. */
  readonly outage: 'refuse' | 'serve'
  /** Whether this service has an issuer of this name, without a trailing slash. */
  readonly isIssuer: (issuer: string) => boolean
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: () => number
}

const RETRY_AFTER_SECONDS = 1

export type Revocations = ReturnType<typeof createRevocations>

/** What is known of a token: it is worked out once. */
interface Known {
  readonly facts: RevocationFacts
  /** The version of the cutoffs by which the token was last found good. */
  version: number
}

/** What has been revoked, and whether a token is. */
export function createRevocations (
  { cutoffs, log, namesOf, retentionSeconds, staleSeconds, outage, isIssuer, clockToleranceSeconds, now }:
  RevocationsOptions
) {
  const tokens = new WeakMap<object, Known>()
  const isStrict = outage === 'refuse'
  const staleMs = staleSeconds * 1000
  /** Whether tokens can be judged: all of the log has been read, and it has answered lately. */
  const isCurrent = (): boolean => log.ageMs() <= staleMs

  function learn (token: RevocableToken): Known {
    const known = { facts: revocationFactsOf(token, namesOf(token.issuer)), version: -1 }
    tokens.set(token, known)
    return known
  }

  function judge (token: RevocableToken, known: Known): Refusal | undefined {
    const { overfull } = known.facts
    if (overfull !== undefined) {
      return new Refusal('token_claim_invalid', {
        detail: { expected: `at most ${MAX_CLAIM_VALUES} values of ${overfull}` }
      })
    }
    const tooLong = lifetimeRefusal(
      token.claims.exp,
      known.facts.issuedAt,
      retentionSeconds,
      now() + clockToleranceSeconds
    )
    if (tooLong) return tooLong
    const revocation = cutoffs.revocationOf(known.facts)
    if (revocation) return new Refusal('token_revoked', { detail: { ...revocation } })
    known.version = cutoffs.version()
    return undefined
  }

  return {
    /**
     * Why a token is refused: Refusal revocation_unknown, token_claim_invalid, token_too_long, token_revoked. Undefined
     * if it is not. It runs for each request: a token is judged again only after an event, and until then nothing is
     * allocated.
     */
    refusalOf (token: RevocableToken): Refusal | undefined {
      if (isStrict && !isCurrent()) return new Refusal('revocation_unknown', { retryAfterSeconds: RETRY_AFTER_SECONDS })
      const known = tokens.get(token) ?? learn(token)
      return known.version === cutoffs.version() ? undefined : judge(token, known)
    },
    /** What has revoked a token, for people. */
    revocationOf: (token: RevocableToken): Revocation | undefined =>
      cutoffs.revocationOf((tokens.get(token) ?? learn(token)).facts),
    /**
     * Resolves when the log has the entries and this process applies them. What no token can match is not stored, nor
     * what changes nothing, if the log is known to have it.
     * @throws UndecidedError, also if there is no room for one more cutoff of their sender: none is ever dropped
     * for a new one
     */
    async append (entries: readonly RevocationEntry[]): Promise<void> {
      const matched = entries.filter(({ issuer }) => issuer === undefined || issuer === '*' || isIssuer(issuer))
      const isChange = (entry: RevocationEntry): boolean =>
        cutoffs.isChange(entry) || (entry.effect === 'undo' && log.hasLost())
      // The log may have lost what this process knows, or another may have undone it.
      const isSure = !matched.every(isChange) && await log.isInStep()
      const changes = isSure ? matched.filter(isChange) : matched
      if (changes.length === 0) return
      const release = cutoffs.reserve(changes)
      if (!release) throw new UndecidedError('there is no room for another cutoff of this sender')
      try {
        await log.append(changes)
      } finally {
        release()
      }
    },
    /** What revocations name in the tokens of an issuer. */
    namesOf,
    /** Unix seconds. */
    now,
    /** What readiness and metrics may know. It holds no secret. */
    state: () => ({
      isCurrent: isCurrent(),
      /** Whether this process has read all of the log. */
      isLoaded: log.ageMs() !== Infinity,
      /** Seconds since the last answer of the log. Infinity until all of it was read. */
      ageSeconds: log.ageMs() / 1000,
      /** Why the log cannot be reached, as a stable word. */
      fault: log.fault(),
      entries: cutoffs.size()
    })
  }
}

/**
 * Refuses a token that lives for longer than its cutoff would be kept, or for no known time.
 * @param exp without it a token may live for ever
 * @param issuedAt without it nothing says how long the token lives
 * @param latest the last `iat` that a right clock can have given: one after it counts as this. Unix seconds
 */
export function lifetimeRefusal (
  exp: number,
  issuedAt: number | undefined,
  retentionSeconds: number,
  latest: number
): Refusal | undefined {
  const isShort = issuedAt !== undefined && exp - Math.min(issuedAt, latest) <= retentionSeconds
  return isShort
    ? undefined
    : new Refusal('token_too_long', {
      detail: { expected: `an iat, and at most ${retentionSeconds} seconds from it to exp`, found: exp }
    })
}
