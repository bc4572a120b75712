import {
  algDetail,
  HEADER_CHECKS,
  isMediaType,
  readJwt,
  timeFault,
  type HeaderCheck,
  type JwtContent
} from '../jose/signed-jwt.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { Refusal, type RefusalReason } from '../../refusal.ts'
import { printable } from '../../base/printable.ts'
import type { AccessTokenClaims } from './access-token-claims.ts'
import { isSameIssuer, NON_EMPTY_TEXT, NUMBER, TEXT, TEXTS, verifyDepth, verifyForm } from './claims.ts'

/** The claims as the checks see them: those with a meaning here, and any other by its name. */
export type TokenClaims = AccessTokenClaims & JsonObject

/** The claims that may have to hold the audience. */
export const AUDIENCE_CLAIMS = ['aud', 'client_id', 'azp'] as const

type AudienceClaim = (typeof AUDIENCE_CLAIMS)[number]

/** What is asked of a JWT beyond what holds for all. */
export const TOKEN_PROFILES = ['any', 'rfc9068'] as const

type TokenProfile = (typeof TOKEN_PROFILES)[number]

/** What holds for the tokens of an issuer. */
export interface TokenRules {
  /** As the settings name it. In a token a last slash makes no difference. */
  readonly issuer: string
  /** A token is for this API if it is for one of them. The first is the name of this API. */
  readonly audiences: readonly string[]
  /** The claim that must hold the audience. Beside another claim `aud` may be missing, and must fit if it is there. */
  readonly audienceClaim: AudienceClaim
  /** The identifier that the metadata of the service names (RFC 9728). A token may be meant for it too (RFC 8707). */
  readonly resource?: string
  /** `rfc9068`: a JWT is held to the whole of RFC 9068. */
  readonly profile: TokenProfile
  /** Accepted values of `alg`, literally. */
  readonly algs: readonly JwsAlg[]
  /** Seconds by which clocks may differ. */
  readonly clockToleranceSeconds: number
  /**
   * The bindings that can be checked. A token with the other one of `TOKEN_BINDINGS`, or with a `cnf` that has neither,
   * is refused. Beside a binding, members of `cnf` without a meaning here are ignored.
   */
  readonly bindings: readonly TokenBinding[]
  /** The bindings of which a token must have one, or undefined if it may have none. */
  readonly neededBindings?: readonly TokenBinding[]
}

/** The members of `cnf` that have a meaning here: RFC 9449 section 6.1 and RFC 8705 section 3.1. */
export const TOKEN_BINDINGS = ['jkt', 'x5t#S256'] as const

type TokenBinding = (typeof TOKEN_BINDINGS)[number]

/** A token that was read. */
export interface PresentedToken {
  /** Undefined for an opaque token. Its claims are those of its issuer's answer. */
  readonly header: JsonObject | undefined
  readonly claims: JsonObject
  /** Unix seconds. */
  readonly now: number
}

interface TokenCheck {
  readonly name: string
  /** @throws Refusal token_* */
  readonly run: (token: PresentedToken, rules: TokenRules) => void
}

/**
 * All checks of an access token that need no key, in order: RFC 7519 section 4.1, RFC 9068 section 4, RFC 8725. The
 * issuer comes first, because the rules for all that follows are its own.
 */
export const TOKEN_CHECKS = [
  { name: 'iss', run: checkIssuer },
  headerCheck('alg', 'token_algorithm'),
  headerCheck('typ', 'token_type'),
  headerCheck('crit', 'token_critical'),
  headerCheck('kid', 'token_malformed'),
  { name: 'kind', run: ({ claims }) => verifyKind(claims) },
  { name: 'claims', run: checkClaims },
  { name: 'profile', run: checkProfile },
  { name: 'cnf', run: checkConfirmation },
  { name: 'aud', run: checkAudience },
  { name: 'time', run: checkTimes }
] as const satisfies readonly TokenCheck[]

/**
 * Runs the checks that follow once the issuer has been chosen, so that a token that cannot pass causes no outgoing
 * call.
 * @throws Refusal token_*
 */
export function checkByRules (token: PresentedToken, rules: TokenRules): TokenClaims {
  for (const check of TOKEN_CHECKS) check.run(token, rules)
  return token.claims as TokenClaims
}

/**
 * Why a token is not valid at this time: token_expired or token_not_yet_valid (RFC 7519 sections 4.1.4 and 4.1.5).
 * @param now Unix seconds
 */
export function timeRefusal (claims: AccessTokenClaims, now: number, toleranceSeconds: number): Refusal | undefined {
  const fault = timeFault(claims, now, toleranceSeconds)
  return fault && new Refusal(fault.claim === 'exp' ? 'token_expired' : 'token_not_yet_valid', fault)
}

/** Decodes a token. @throws Refusal token_malformed */
export function readToken (text: string): JwtContent {
  const content = readJwt(text)
  if (!content) throw new Refusal('token_malformed')
  return content
}

/** RFC 9068 section 2.1. A plain JWT is accepted too, because many providers issue no other. */
function isTokenType (typ: unknown): boolean {
  return typ === undefined || isMediaType(typ, 'at+jwt') || (typeof typ === 'string' && typ.toLowerCase() === 'jwt')
}

/** A rule for the header, if the token has one. */
function headerCheck<Name extends HeaderCheck> (name: Name, reason: RefusalReason) {
  const isMet = HEADER_CHECKS[name]
  return {
    name,
    run ({ header }, { algs }) {
      if (header && !isMet(header, algs, isTokenType)) {
        throw new Refusal(reason, { detail: name === 'alg' ? algDetail(header, algs) : undefined })
      }
    }
  } as const satisfies TokenCheck
}

const OTHER_KINDS = new Set(['refresh', 'offline', 'id', 'refreshtoken', 'offlinetoken', 'idtoken'])

/**
 * Refuses the claims of a token that is no access token: a security event or a logout token, by `events` (RFC 8417
 * section 2.2, OpenID Connect Back-Channel Logout 1.0 section 2.4), or a refresh, offline or ID token, as providers
 * write it into `token_use`, `typ` and `token_type`: `id`, `Refresh`, `refresh_token`,
 * `urn:ietf:params:oauth:token-type:id_token`.
 * @throws Refusal token_kind
 */
export function verifyKind (claims: JsonObject): void {
  const { token_use: use, typ, token_type: type } = claims
  if (Object.hasOwn(claims, 'events') || [use, typ, type].flat().some(isOtherKind)) throw new Refusal('token_kind')
}

function isOtherKind (name: unknown): boolean {
  return typeof name === 'string' && name.toLowerCase().split(/[^a-z]+/).some(word => OTHER_KINDS.has(word))
}

/** The required claims and their types, and those of `nbf` and `iat` (RFC 7519 section 4.1). */
function checkClaims ({ claims }: PresentedToken, { audienceClaim }: TokenRules) {
  verifyForm(claims, 'iss', TEXT)
  verifyForm(claims, 'sub', NON_EMPTY_TEXT)
  if (claims.aud !== undefined) verifyForm(claims, 'aud', TEXTS)
  verifyForm(claims, audienceClaim, TEXTS)
  verifyForm(claims, 'exp', NUMBER)
  for (const claim of ['nbf', 'iat']) if (claims[claim] !== undefined) verifyForm(claims, claim, NUMBER)
  verifyDepth(claims)
}

/** What RFC 9068 asks for beyond the rest (sections 2.1, 2.2 and 4): an ID token never passes. */
function checkProfile ({ header, claims, now }: PresentedToken, rules: TokenRules) {
  if (!header || rules.profile !== 'rfc9068') return
  if (!isMediaType(header.typ, 'at+jwt')) throw new Refusal('token_type')
  if (claims.iss !== rules.issuer) throw issuerRefusal(claims.iss as string, [rules.issuer])
  verifyForm(claims, 'client_id', NON_EMPTY_TEXT)
  verifyForm(claims, 'jti', NON_EMPTY_TEXT)
  verifyForm(claims, 'iat', NUMBER)
  const latest = now + rules.clockToleranceSeconds
  if (claims.iat as number > latest) {
    throw new Refusal('token_not_yet_valid', {
      detail: { claim: 'iat', expected: `at most ${Math.floor(latest)}`, found: claims.iat as number }
    })
  }
}

function checkConfirmation ({ claims }: PresentedToken, { bindings, neededBindings }: TokenRules) {
  const { cnf } = claims
  if (cnf === undefined) {
    if (neededBindings) throw new Refusal('token_not_sender_constrained')
    return
  }
  // RFC 7800 section 3.1: a confirmation that cannot be checked must not be ignored.
  const found = isJsonObject(cnf) ? TOKEN_BINDINGS.filter(member => Object.hasOwn(cnf, member)) : []
  const isUsable = found.length > 0 &&
    found.every(member => bindings.includes(member) && NON_EMPTY_TEXT.isMet((cnf as JsonObject)[member]))
  if (!isUsable || (neededBindings && !found.some(member => neededBindings.includes(member)))) {
    throw new Refusal('token_binding_unusable')
  }
}

function checkIssuer ({ claims }: PresentedToken, { issuer }: TokenRules) {
  const iss = readIssuer(claims)
  if (!isSameIssuer(iss, issuer)) throw issuerRefusal(iss, [issuer])
}

/** The `iss` of a token, which is not verified yet. @throws Refusal token_claim_invalid */
export function readIssuer (claims: JsonObject): string {
  verifyForm(claims, 'iss', TEXT)
  return claims.iss as string
}

/** @param issuers the accepted ones, as the settings name them */
export function issuerRefusal (iss: string, issuers: readonly string[]): Refusal {
  return new Refusal('token_issuer', { detail: { expected: printable([...issuers]), found: printable(iss) } })
}

function checkAudience ({ claims }: PresentedToken, rules: TokenRules) {
  const claim = misfitAudience(claims, rules)
  // The claims were checked to hold a string or strings.
  if (claim !== undefined) {
    throw new Refusal('token_audience', {
      detail: { claim, expected: rules.audiences.join(' '), found: printable(claims[claim] as string | string[]) }
    })
  }
}

/** The claim by which claims are not for this API: `aud`, or the one in its place. One that is missing is none. */
export function misfitAudience (
  claims: JsonObject,
  { audiences, audienceClaim, resource }: TokenRules
): AudienceClaim | undefined {
  if (!isForOneOf(claims.aud, audiences) && !isForOneOf(claims.aud, [resource])) return 'aud'
  // The resource is an audience, and no client.
  return audienceClaim === 'aud' || isForOneOf(claims[audienceClaim], audiences) ? undefined : audienceClaim
}

function isForOneOf (named: unknown, accepted: readonly unknown[]): boolean {
  return named === undefined || [named].flat().some(name => accepted.includes(name))
}

function checkTimes ({ claims, now }: PresentedToken, { clockToleranceSeconds }: TokenRules) {
  const refusal = timeRefusal(claims as TokenClaims, now, clockToleranceSeconds)
  if (refusal) throw refusal
}
