import { findClaim } from '../guard/requirement/judge.ts'
import type { AccessTokenClaims } from '../guard/token/access-token-claims.ts'
import { clientOf } from '../guard/token/claims.ts'

/**
 * The name of a header as many programs read it. Those behind CGI, WSGI and PHP see no difference between `_` and `-`,
 * and some see none between any two signs.
 */
export function plainName (name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '-')
}

/** The caller, as the guard has identified it. */
export interface Caller {
  readonly claims: AccessTokenClaims
  readonly scopes: readonly string[]
  /** As the settings name it. */
  readonly issuer: string
}

/** A claim that the upstream gets, and its header, in lower case. */
export interface ForwardedClaim {
  readonly header: string
  readonly claim: string
}

/** What the headers of claims begin with. */
export const CLAIM_PREFIX = 'x-auth-claim-'
type ValueOf = (caller: Caller) => unknown
const FIXED: ReadonlyMap<string, ValueOf> = new Map<string, ValueOf>([
  ['x-auth-subject', ({ claims }) => claims.sub],
  ['x-auth-issuer', ({ issuer }) => issuer],
  ['x-auth-scope', ({ scopes }) => scopes.join(' ')],
  ['x-auth-client', ({ claims }) => clientOf(claims)]
])
/** Says why the request would be refused. Empty if it was admitted. Told only while requests are observed. */
export const OBSERVED_HEADER = 'x-auth-observed'
/** Holds the signed statement. */
export const STATEMENT_HEADER = 'x-auth-statement'

/** Whether an upstream could read a header of this name as one of ours. */
export function isIdentityName (name: string): boolean {
  const read = plainName(name)
  return FIXED.has(read) || read === STATEMENT_HEADER || read === OBSERVED_HEADER || read.startsWith(CLAIM_PREFIX)
}

/** The claims that `gate.claims` names: a list of them, or a map to them from the end of a header's name. */
export function forwardedClaims (
  given: readonly string[] | Readonly<Record<string, string>>
): readonly ForwardedClaim[] {
  const claims = Array.isArray(given) ? given.map(claim => [claim, claim]) : Object.entries(given)
  return claims.map(([end, claim]) => ({ header: CLAIM_PREFIX + plainName(end), claim }))
}

/** Names in lower case. */
export type IdentityHeaders = Readonly<Record<string, string>>

/**
 * Makes the function that names the caller in headers. It always writes all headers, since one that is missing could
 * come from the client. Without a caller, or without a value, they are empty. They are written once for the claims of a
 * token.
 */
export function createIdentityHeaders (
  claims: readonly ForwardedClaim[]
): (caller: Caller | undefined) => IdentityHeaders {
  const values: ReadonlyArray<readonly [name: string, valueOf: ValueOf]> = [
    ...FIXED,
    ...claims.map(({ header, claim }) => [header, (caller: Caller) => findClaim({ ...caller.claims }, claim)] as const)
  ]
  const anonymous = Object.freeze(Object.fromEntries(values.map(([name]) => [name, ''])))
  const known = new WeakMap<AccessTokenClaims, IdentityHeaders>()

  return caller => {
    if (!caller) return anonymous
    const written = known.get(caller.claims)
    if (written) return written
    const headers = Object.fromEntries(values.map(([name, valueOf]) => [name, encodeValue(valueOf(caller))]))
    known.set(caller.claims, headers)
    return headers
  }
}

const ENCODED = /[^\u0021-\u0024\u0026-\u007e]+/g

/**
 * A claim as the value of a header: text, numbers and booleans as they are, anything else as JSON. Whatever is not
 * visible ASCII, and `%`, is percent-encoded as UTF-8, so that `decodeURIComponent` gives the claim back. Half a
 * surrogate pair becomes U+FFFD.
 */
function encodeValue (value: unknown): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  if (text.search(ENCODED) === -1) return text
  return text.toWellFormed().replace(
    ENCODED,
    part => Buffer.from(part).toString('hex').toUpperCase().replace(/../g, '%$&')
  )
}
