import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { SigningKey } from '../keys/key-source.ts'
import type { AccessTokenClaims } from './access-token.ts'
import { readScopes } from './scopes.ts'
import type { ScopeClaim } from './scopes.ts'

/** An access token whose signature was verified, and all that requests with it need to know. */
export interface VerifiedToken {
  /** Frozen through and through: requests share it. */
  readonly claims: AccessTokenClaims
  readonly scopes: readonly string[]
  /** The thumbprint that the token is bound to (RFC 9449 section 6.1), or undefined. */
  readonly jkt: string | undefined
  /** base64url SHA-256 of the token, as `ath` holds it. */
  readonly tokenHash: string
  readonly key: SigningKey
}

/** Takes over what a verified token says. The claims are frozen in place. */
export function createVerifiedToken (token: string, claims: AccessTokenClaims, key: SigningKey, scopeClaims: readonly ScopeClaim[]): VerifiedToken {
  return Object.freeze({
    claims: deepFreeze(claims),
    scopes: readScopes(claims, scopeClaims),
    jkt: claims.cnf?.jkt,
    tokenHash: hash('sha256', token, 'base64url'),
    key
  })
}

/** A bounded memory of verified tokens, keyed by the whole token. It holds none that was refused. */
export class VerifiedTokens extends LRUCache<string, VerifiedToken> {
  /** How often a token was there when asked for, and how often not. */
  hits = 0
  misses = 0

  override get (token: string): VerifiedToken | undefined {
    const found = super.get(token)
    if (found) this.hits++
    else this.misses++
    return found
  }
}

const MAX_TOKENS = 50_000
const MAX_BYTES = 128 * 1024 * 1024
// The text, and the claims parsed from most of it, which take about three times as much.
const BYTES_PER_CHARACTER = 4
const BYTES_PER_ENTRY = 600

export function createVerifiedTokens (): VerifiedTokens {
  return new VerifiedTokens({
    max: MAX_TOKENS,
    maxSize: MAX_BYTES,
    sizeCalculation: (_, token) => token.length * BYTES_PER_CHARACTER + BYTES_PER_ENTRY
  })
}

function deepFreeze<T> (value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const member of Object.values(value)) deepFreeze(member)
  }
  return value
}
