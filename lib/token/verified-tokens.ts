import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import type { JsonObject } from '../jose/jws.ts'
import type { VerifiedToken } from './token-verifier.ts'

/** The text, the claims and the trust of a token that was verified. */
export interface VerifiedTokenParts extends Pick<VerifiedToken, 'text' | 'claims' | 'issuer' | 'dpopMode' | 'isTrusted'> {
  readonly scopeClaims: readonly ScopeClaim[]
  /** Unix seconds. The default is `exp`. */
  readonly expiresAt?: number
}

/** Makes a verified token from what its checks found. The claims are frozen in place, not copied. */
export function createVerifiedToken ({ text, claims, issuer, dpopMode, isTrusted, scopeClaims, expiresAt = claims.exp }: VerifiedTokenParts): VerifiedToken {
  return Object.freeze({
    text,
    claims: deepFreeze(claims),
    scopes: readScopes(claims, scopeClaims),
    binding: Object.freeze({ jkt: claims.cnf?.jkt, x5tS256: claims.cnf?.['x5t#S256'] }),
    tokenHash: hash('sha256', text, 'base64url'),
    issuer,
    dpopMode,
    expiresAt,
    isTrusted
  })
}

/** A bounded memory of verified tokens. It holds no refused token. */
export interface VerifiedTokens {
  /** The token that has exactly this text. */
  get (text: string): VerifiedToken | undefined
  keep (token: VerifiedToken): void
  forget (token: VerifiedToken): void
  /** The number of entries, and the number of lookups that found one. */
  state (): { readonly entries: number, readonly hits: number, readonly misses: number }
}

const MAX_TOKENS = 50_000
const MAX_BYTES = 128 * 1024 * 1024
// The size of the text, and of the claims parsed from most of it. The claims take about three times as much as the text.
const BYTES_PER_CHARACTER = 4
const BYTES_PER_ENTRY = 600
const TAIL_CHARACTERS = 32

export function createVerifiedTokens (maxTokens = MAX_TOKENS): VerifiedTokens {
  // It takes its memory when it is made, which takes milliseconds: at the first token, not at the start.
  let tokens: LRUCache<string, VerifiedToken> | undefined
  const madeTokens = () => (tokens ??= new LRUCache<string, VerifiedToken>({
    max: maxTokens,
    maxSize: MAX_BYTES,
    sizeCalculation: ({ text }) => text.length * BYTES_PER_CHARACTER + BYTES_PER_ENTRY
  }))
  let hits = 0
  let misses = 0

  return {
    get (text) {
      const found = tokens?.get(tailOf(text))
      if (found?.text === text) {
        hits++
        return found
      }
      misses++
      return undefined
    },
    keep (token) {
      madeTokens().set(tailOf(token.text), token)
    },
    forget ({ text }) {
      madeTokens().delete(tailOf(text))
    },
    state: () => ({ entries: tokens?.size ?? 0, hits, misses })
  }
}

// A hash of the whole token would take a microsecond. The key of an entry is 192 bits of the signature, which the provider made. The whole
// text decides.
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
 * The scopes that a token grants: the whole words of the configured claims. Each claim is an array of strings, or a string with
 * spaces between the scopes (RFC 6749 section 3.3). Scopes keep the token's order, without repeats. A claim of another type grants
 * nothing.
 */
export function readScopes (claims: JsonObject, names: readonly ScopeClaim[]): readonly string[] {
  const scopes = new Set<string>()
  for (const name of names) {
    const value = claims[name]
    if (typeof value === 'string') addAll(scopes, value.split(' '))
    else if (Array.isArray(value) && value.every(entry => typeof entry === 'string')) addAll(scopes, value)
  }
  scopes.delete('')
  return Object.freeze([...scopes])
}

function addAll (scopes: Set<string>, words: readonly string[]): void {
  for (const word of words) scopes.add(word)
}
