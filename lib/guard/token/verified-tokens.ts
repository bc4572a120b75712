import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import type { JsonObject } from '../../base/json.ts'
import type { DpopMode } from '../credentials.ts'
import { refusalOfIssuer } from '../../refusal.ts'
import type { TokenClaims } from './jwt-checks.ts'

/** What a token is bound to (RFC 7800): nothing, a key of the client, its certificate, or both. */
export interface Binding {
  /** RFC 7638 thumbprint of the key (RFC 9449 section 6.1). */
  readonly jkt: string | undefined
  /** Thumbprint of the certificate: base64url SHA-256 of its DER form (RFC 8705 section 3.1). */
  readonly x5tS256: string | undefined
}

/** A verified access token, with all that its requests need to know. */
export interface VerifiedToken {
  /** The whole token. */
  readonly text: string
  /** Frozen at every level, because requests share it. */
  readonly claims: TokenClaims
  readonly scopes: readonly string[]
  readonly binding: Binding
  /** base64url SHA-256 of the token, the value that `ath` holds. */
  readonly tokenHash: string
  /** The issuer as the settings name it. */
  readonly issuer: string
  /** Which schemes its issuer lets it be sent with. */
  readonly dpopMode: DpopMode
  /** Unix seconds. */
  readonly expiresAt: number
  /** Characters of its claims as JSON, if they come from an answer of its issuer. */
  readonly answerLength?: number | undefined
  /**
   * Whether the trust in the token still holds: for example, its signing key is still published. Its times are checked
   * elsewhere.
   */
  readonly isTrusted: () => boolean
}

/** What becomes a verified token. */
interface VerifiedTokenParts extends Pick<VerifiedToken, 'text' | 'claims' | 'isTrusted' | 'answerLength'> {
  readonly issuer: Pick<VerifiedToken, 'issuer' | 'dpopMode'> & { readonly scopeClaims: readonly ScopeClaim[] }
  /** Unix seconds. The default is `exp`. */
  readonly expiresAt?: number
}

/** Makes a verified token. The claims are frozen in place, not copied. */
export function createVerifiedToken (
  {
    text,
    claims,
    issuer: { issuer, dpopMode, scopeClaims },
    isTrusted,
    expiresAt = claims.exp,
    answerLength
  }: VerifiedTokenParts
): VerifiedToken {
  return Object.freeze({
    text,
    claims: deepFreeze(claims),
    scopes: readScopes(claims, scopeClaims),
    binding: Object.freeze({ jkt: claims.cnf?.jkt, x5tS256: claims.cnf?.['x5t#S256'] }),
    tokenHash: hash('sha256', text, 'base64url'),
    issuer,
    dpopMode,
    expiresAt,
    answerLength,
    isTrusted
  })
}

const refusedTokens = new WeakMap<Error, VerifiedToken>()

/** The refusal of a request whose token was verified. It names the issuer, and `refusedTokenOf` knows the token. */
export function refusalOfToken (error: Error, token: VerifiedToken): Error {
  const refusal = refusalOfIssuer(error, token.issuer)
  refusedTokens.set(refusal, token)
  return refusal
}

/** The verified token of the request that was refused so, or undefined if none was verified. */
export function refusedTokenOf (error: Error): VerifiedToken | undefined {
  return refusedTokens.get(error)
}

const MAX_TOKENS = 50_000
const MAX_BYTES = 128 * 1024 * 1024
// The size of the text, and of the claims parsed from most of it, or from an answer. The claims take about three times
// as much as their text.
const BYTES_PER_CHARACTER = 4
const BYTES_PER_ENTRY = 600
const TAIL_CHARACTERS = 32

export type VerifiedTokens = ReturnType<typeof createVerifiedTokens>

/** A bounded memory of verified tokens. It holds no refused token. */
export function createVerifiedTokens (maxTokens = MAX_TOKENS) {
  // With `max` it would take the memory of all entries at once.
  const tokens = new LRUCache<string, VerifiedToken>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ text, answerLength = 0 }) =>
      (text.length + answerLength) * BYTES_PER_CHARACTER + BYTES_PER_ENTRY
  })
  let hits = 0
  let misses = 0

  return {
    /** The token that has exactly this text. */
    get (text: string): VerifiedToken | undefined {
      const found = tokens.get(tailOf(text))
      if (found?.text === text) {
        hits++
        return found
      }
      misses++
      return undefined
    },
    keep (token: VerifiedToken) {
      tokens.set(tailOf(token.text), token)
      if (tokens.size > maxTokens) tokens.pop()
    },
    forget ({ text }: VerifiedToken) {
      tokens.delete(tailOf(text))
    },
    /** The number of entries, and the numbers of look-ups that found one and that did not. */
    state: () => ({ entries: tokens.size, hits, misses })
  }
}

// A hash of the whole token would take a microsecond. The key of an entry is 192 bits of the signature, which the
// provider made. The whole text decides.
function tailOf (text: string): string {
  return text.slice(-TAIL_CHARACTERS)
}

function deepFreeze<T> (value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const member of Object.values(value)) deepFreeze(member)
  }
  return value
}

export type ScopeClaim = 'scope' | 'scp' | 'permissions'

/**
 * The scopes that a token grants: the whole words of the configured claims, in the token's order, without repeats. Each
 * claim is an array of strings, or a string with spaces between the scopes (RFC 6749 section 3.3). A claim of another
 * type grants nothing.
 */
export function readScopes (claims: JsonObject, names: readonly ScopeClaim[]): readonly string[] {
  const scopes = new Set<string>()
  for (const name of names) {
    const value = claims[name]
    const words: unknown = typeof value === 'string' ? value.split(' ') : value
    if (Array.isArray(words) && words.every(word => typeof word === 'string')) {
      for (const word of words) scopes.add(word)
    }
  }
  scopes.delete('')
  return Object.freeze([...scopes])
}
