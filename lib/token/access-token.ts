import { decodeJsonObject, isMediaType, splitCompactJws } from '../jws.ts'
import type { JsonObject } from '../jws.ts'
import { Refusal } from '../refusal.ts'

/** The verified claims of an access token (RFC 9068 section 2.2). Extend it by declaration merging for claims of your own. */
export interface AccessTokenClaims {
  readonly iss: string
  readonly sub: string
  readonly aud: string | readonly string[]
  /** Unix seconds. */
  readonly exp: number
  readonly nbf?: number
  readonly iat?: number
  readonly scope?: unknown
  readonly permissions?: unknown
  readonly email?: unknown
  /** RFC 7800: the key that the token is bound to. */
  readonly cnf?: { readonly jkt: string }
  readonly [claim: string]: unknown
}

/** A token whose header and claims pass, and whose signature has not been looked at. */
export interface UnverifiedToken {
  readonly kid: string | undefined
  readonly claims: AccessTokenClaims
}

export interface TokenPolicy {
  /** Issuer URL. A trailing slash makes no difference. */
  readonly issuer: string
  readonly audience: string
  /** Seconds by which clocks may differ. */
  readonly clockToleranceSeconds: number
}

/** Splits, decodes and checks everything of an access token that needs no key, so that a token that cannot pass causes no outgoing call. */
export interface AccessTokenParser {
  /** @param now Unix seconds. @throws Refusal token_* */
  (token: string, now: number): UnverifiedToken
}

/** Builds the parser for one policy: RFC 7519 section 4.1, RFC 9068 section 4, RFC 8725. */
export function createAccessTokenParser (policy: TokenPolicy): AccessTokenParser {
  const issuers = [withoutTrailingSlash(policy.issuer), `${withoutTrailingSlash(policy.issuer)}/`]

  return (token, now) => {
    const segments = splitCompactJws(token)
    const header = segments && decodeJsonObject(segments.header)
    const claims = header && decodeJsonObject(segments.payload)
    if (!claims) throw new Refusal('token_malformed')
    const kid = verifyHeader(header)
    verifyTypes(claims)
    if (!issuers.includes(claims.iss)) throw new Refusal('token_issuer')
    if (claims.aud !== policy.audience && !(Array.isArray(claims.aud) && claims.aud.includes(policy.audience))) throw new Refusal('token_audience')
    verifyTokenTimes(claims, now, policy.clockToleranceSeconds)
    return { kid, claims }
  }
}

/** @param now Unix seconds. @throws Refusal token_expired, token_not_yet_valid (RFC 7519 sections 4.1.4 and 4.1.5). */
export function verifyTokenTimes (claims: AccessTokenClaims, now: number, toleranceSeconds: number): void {
  if (now >= claims.exp + toleranceSeconds) throw new Refusal('token_expired')
  if (claims.nbf !== undefined && now < claims.nbf - toleranceSeconds) throw new Refusal('token_not_yet_valid')
}

function withoutTrailingSlash (issuer: string): string {
  return issuer.endsWith('/') ? issuer.slice(0, -1) : issuer
}

function verifyHeader (header: JsonObject): string | undefined {
  if (header.alg !== 'RS256') throw new Refusal('token_algorithm')
  // RFC 9068 section 2.1; a plain JWT is let through because many providers issue no other.
  const typ = header.typ
  if (typ !== undefined && !isMediaType(typ, 'at+jwt') && !(typeof typ === 'string' && typ.toLowerCase() === 'jwt')) throw new Refusal('token_type')
  // RFC 7515 section 4.1.11: no extension is understood here, so any crit is one too many.
  if (header.crit !== undefined) throw new Refusal('token_critical')
  // RFC 7797: an unencoded payload is only ever announced together with crit.
  if (header.b64 !== undefined) throw new Refusal('token_critical')
  if (header.kid !== undefined && typeof header.kid !== 'string') throw new Refusal('token_malformed')
  return header.kid
}

const isNumber = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value)
const isStrings = (value: unknown): boolean => Array.isArray(value) && value.every(entry => typeof entry === 'string')

function verifyTypes (claims: JsonObject): asserts claims is AccessTokenClaims {
  const { iss, sub, aud, exp, nbf, iat, cnf } = claims
  const wellTyped = typeof iss === 'string' && typeof sub === 'string' && sub !== '' &&
    (typeof aud === 'string' || isStrings(aud)) && isNumber(exp) &&
    (nbf === undefined || isNumber(nbf)) && (iat === undefined || isNumber(iat))
  if (!wellTyped) throw new Refusal('token_claim_invalid')
  // RFC 7800 section 3.1: a confirmation that cannot be checked must not be ignored.
  if (cnf !== undefined && !isThumbprintBinding(cnf)) throw new Refusal('token_binding_unusable')
}

function isThumbprintBinding (cnf: unknown): boolean {
  if (typeof cnf !== 'object' || cnf === null) return false
  const { jkt } = cnf as { jkt?: unknown }
  return typeof jkt === 'string' && jkt !== ''
}
