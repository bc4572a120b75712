import { withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { Refusal } from '../refusal.ts'
import type { RevocationEntry } from './entry.ts'
import { partOf } from './store/record.ts'
import { UndecidedError, type RevocationStore } from './store/store.ts'
import {
  claimOfKey,
  claimTarget,
  issuerOfKey,
  keyOf,
  MAX_CLAIM_VALUES,
  revocationFactsOf,
  type ClaimNamesOf,
  type RevocableToken,
  type RevocationFacts
} from './target.ts'
import type { Revocation, View } from './view.ts'

interface RevocationsOptions {
  readonly view: View
  /** The store whose records `view` gets. */
  readonly store: RevocationStore
  readonly namesOf: ClaimNamesOf
  /** Seconds for which a token may be valid: a cutoff is kept for as long, and twice the tolerance. */
  readonly retentionSeconds: number
  /** Seconds for which the store may be silent. */
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
  /** The number of claims that records named then. */
  readonly claims: number
  /** The version of the view by which the token was last found good. */
  version: number
}

/** What has been revoked, and whether a token is. */
export function createRevocations (
  { view, store, namesOf, retentionSeconds, staleSeconds, outage, isIssuer, clockToleranceSeconds, now }:
  RevocationsOptions
) {
  const tokens = new WeakMap<object, Known>()
  const isStrict = outage === 'refuse'
  const staleMs = staleSeconds * 1000
  /** Whether tokens can be judged: all of the store has been read, and it has answered lately. */
  const isCurrent = () => store.ageMs() <= staleMs

  /** Only sessions and other claims are looked for at any issuer. */
  function canMatch ({ key, effect }: RevocationEntry): boolean {
    const issuer = effect === 'state' ? undefined : issuerOfKey(key)
    return issuer === undefined || (issuer === '*' ? claimOfKey(key) !== undefined : isIssuer(issuer))
  }

  /** What is known of a token. Each claim that a record names for the first time adds to it. */
  function learn (token: RevocableToken): Known {
    const claims = view.claimsOf(withoutTrailingSlash(token.issuer))
    const before = tokens.get(token)
    if (before?.claims === claims.size) return before
    const { session, other } = namesOf(token.issuer)
    const facts = revocationFactsOf(token, { session, other: [...other, ...claims] })
    const known = { facts, claims: claims.size, version: -1 }
    tokens.set(token, known)
    return known
  }

  function judge (token: RevocableToken): Refusal | undefined {
    const known = learn(token)
    const { uncertain: claim } = known.facts
    if (claim !== undefined) {
      return new Refusal('token_claim_invalid', {
        detail: { claim, expected: `at most ${MAX_CLAIM_VALUES} values, and no integer beyond 2^53`, found: 'more' }
      })
    }
    const tooLong = lifetimeRefusal(
      token.claims.exp,
      known.facts.issuedAt,
      retentionSeconds,
      now() + clockToleranceSeconds
    )
    if (tooLong) return tooLong
    const revocation = view.revocationOf(known.facts)
    if (revocation) return new Refusal('token_revoked', { detail: { ...revocation } })
    known.version = view.version()
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
      return tokens.get(token)?.version === view.version() ? undefined : judge(token)
    },
    /** What has revoked a token, for people. */
    revocationOf: (token: RevocableToken): Revocation | undefined =>
      view.revocationOf(learn(token).facts),
    /**
     * Resolves when the store has the entries and this process applies them. What no token can match is not stored.
     * @returns whether any of them can match a token, or there were none
     * @throws UndecidedError, also if there is no room for one more key of their sender: none is ever dropped for a new
     * one
     */
    async append (entries: readonly RevocationEntry[]): Promise<boolean> {
      const matched = entries.filter(canMatch)
      if (matched.length === 0) return entries.length === 0
      const release = view.reserve(matched)
      if (!release) throw new UndecidedError('there is no room for another cutoff of this sender')
      try {
        await store.append(matched)
      } finally {
        release()
      }
      return true
    },
    /** What revocations name in the tokens of an issuer. */
    namesOf,
    /** The claims by which a session has ended. Others may have named them. */
    endedBy: (issuer: string, session: string): readonly string[] =>
      [...view.claimsOf(withoutTrailingSlash(issuer))].filter(claim =>
        partOf(view.recordOf(keyOf(claimTarget(claim, issuer, session))), 'e')
      ),
    /** Unix seconds. */
    now,
    /** What readiness and metrics may know. It holds no secret. */
    state: () => ({
      isCurrent: isCurrent(),
      /** Whether this process has read all of the store. */
      isLoaded: store.ageMs() !== Infinity,
      /** Seconds since the last answer of the store. Infinity until all of it was read. */
      ageSeconds: store.ageMs() / 1000,
      /** Why the store cannot be reached, as a stable word. */
      fault: store.fault(),
      entries: view.size()
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
