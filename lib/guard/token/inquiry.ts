import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import type { Introspector } from '../introspection/introspector.ts'
import { isSameIssuer } from './claims.ts'
import { plainWord } from '../../base/printable.ts'
import { Refusal } from '../../refusal.ts'
import {
  checkByRules,
  misfitAudience,
  TOKEN_BINDINGS,
  verifyKind,
  type TokenClaims,
  type TokenRules
} from './jwt-checks.ts'

/** Which tokens of an issuer are introspected: opaque ones, JWTs after their own checks, or all. */
export type IntrospectedTokens = 'opaque' | 'jwt' | 'all'

/** What the issuer's answer about a token has settled. */
export interface Inquired {
  /** The claims of the token: those of the answer if it is opaque, otherwise its own. */
  readonly claims: TokenClaims
  /** Whether the answer may still be used without asking again. */
  readonly isCurrent: () => boolean
}

export type InquiryState = ReturnType<Inquiry['state']>

export interface InquiryOptions {
  readonly introspector: Introspector
  /** Whether an answer about an opaque token may leave out `aud`. */
  readonly audienceOptional: boolean
  /** Seconds for which an answer about an active token is kept. */
  readonly cacheSeconds: number
  /** Milliseconds of a clock that is never set back. */
  readonly nowMs: () => number
  /** Unix seconds. */
  readonly now: () => number
}

/** Made-up tokens must fill neither the memory nor the provider with requests. */
const MAX_REFUSALS = 10_000
const REFUSAL_MS = 5000

export type Inquiry = ReturnType<typeof createInquiry>

/**
 * Introspects tokens at their issuer (RFC 7662), and remembers its answers for a short time. Rejections are of the type
 * Refusal.
 */
export function createInquiry (options: InquiryOptions) {
  const { introspector, cacheSeconds, nowMs, now } = options
  const refusals = new LRUCache<string, Pick<Refusal, 'reason' | 'detail'> & { readonly untilMs: number }>({
    max: MAX_REFUSALS
  })
  let hits = 0
  let misses = 0

  /** @param settle the claims of the token by an answer. @throws Refusal */
  async function ask (
    text: string,
    isStranger: boolean,
    { audiences, resource }: TokenRules,
    settle: (answer: JsonObject) => TokenClaims
  ): Promise<Inquired> {
    // What one audience refuses, another may accept.
    const key = hash('sha256', JSON.stringify([audiences, resource, text]), 'base64url')
    const kept = refusals.get(key)
    if (kept && nowMs() < kept.untilMs) {
      hits++
      throw new Refusal(kept.reason, kept)
    }
    misses++
    const { claims: answer, expiresAt: answerExpiry } = await introspector.ask(text, isStranger)
    const untilMs = nowMs() + cacheSeconds * 1000
    try {
      if (!answer) throw new Refusal('token_inactive')
      const claims = settle(answer)
      const expiresAt = Math.min(answerExpiry, expiryIn(answer), expiryIn(claims))
      return { claims, isCurrent: () => nowMs() < untilMs && now() < expiresAt }
    } catch (error) {
      const { reason, detail } = error as Refusal
      refusals.set(key, { reason, detail, untilMs: nowMs() + REFUSAL_MS })
      throw error
    }
  }

  return {
    cacheSeconds,
    /**
     * The claims of an opaque token: those of the answer. The rules for tokens apply to each that is present.
     * @param isStranger false for a token that was active before
     * @param now Unix seconds
     */
    claimsOf: (text: string, isStranger: boolean, rules: TokenRules, now: number): Promise<Inquired> =>
      ask(text, isStranger, rules, answer => opaqueClaims(answer, rules, now, options)),
    /**
     * Whether a JWT that has passed its own checks is still active. An answer that contradicts its claims is a refusal.
     * Such a token is no stranger: its signature is valid.
     */
    confirm: (text: string, rules: TokenRules, claims: TokenClaims): Promise<Inquired> =>
      ask(text, false, rules, answer => {
        verifyAgreement(claims, answer, rules)
        return claims
      }),
    /** For metrics. The cache is that of refusals; tokens that are active are remembered where verified tokens are. */
    state: () => ({ ...introspector.state(), cache: { entries: refusals.size, hits, misses } }),
    close: introspector.close
  }
}

/**
 * When the token expires by these claims, in Unix seconds. The clock tolerance does not count: an expired token is
 * introspected again.
 */
function expiryIn ({ exp = Infinity }: JsonObject): number {
  return typeof exp === 'number' ? exp : -Infinity
}

/** @throws Refusal token_* */
function opaqueClaims (
  answer: JsonObject,
  rules: TokenRules,
  now: number,
  { audienceOptional }: InquiryOptions
): TokenClaims {
  // Without an audience, nothing else distinguishes a refresh token from an access token.
  verifyAnsweredKind(answer, answer.cnf, audienceOptional)
  // RFC 7662 section 2.2: `sub` may be missing, for example for a client that acts for itself.
  const claims = { iss: rules.issuer, ...answer, sub: answer.sub ?? answer.client_id }
  // The rules are those for JWTs, where these two are required.
  const { audienceClaim, audiences: [audience] } = rules
  const { [audienceClaim]: forWhom = audienceOptional ? audience : undefined, exp = Number.MAX_SAFE_INTEGER } = answer
  checkByRules({ header: undefined, claims: { ...claims, [audienceClaim]: forWhom, exp }, now }, rules)
  return claims as unknown as TokenClaims
}

/** @throws Refusal token_kind, token_binding_unusable, token_contradicted */
function verifyAgreement (claims: TokenClaims, answer: JsonObject, rules: TokenRules) {
  const { iss, sub, cnf } = answer
  verifyAnsweredKind(answer, cnf ?? claims.cnf, false)
  const claim = (iss !== undefined && !isSameIssuer(iss, rules.issuer) && 'iss') ||
    (sub !== undefined && sub !== claims.sub && 'sub') ||
    misfitAudience(answer, rules) ||
    (cnf !== undefined && !isSameBinding(cnf, claims.cnf) && 'cnf')
  if (claim) throw new Refusal('token_contradicted', { detail: { claim } })
}

/**
 * Refuses a token that is no access token by the issuer's answer about it (RFC 7662 section 2.2). A `token_type` is
 * `Bearer` or `DPoP`, in any case; providers write `N_A` for what is no access token. One of `DPoP` needs the key that
 * the token is bound to.
 * @param cnf of the answer, or of the token itself
 * @param isTypeNeeded whether a missing `token_type` is a refusal
 * @throws Refusal token_kind, token_binding_unusable
 */
function verifyAnsweredKind (answer: JsonObject, cnf: unknown, isTypeNeeded: boolean) {
  verifyKind(answer)
  const { token_type: type } = answer
  if (type === undefined && !isTypeNeeded) return
  const scheme = typeof type === 'string' ? type.toLowerCase() : undefined
  if (scheme !== 'bearer' && scheme !== 'dpop') {
    const found = type === undefined ? 'nothing' : plainWord(scheme) ?? 'no plain word'
    throw new Refusal('token_kind', { detail: { claim: 'token_type', expected: 'Bearer or DPoP', found } })
  }
  if (scheme === 'dpop' && (cnf as JsonObject | null | undefined)?.jkt === undefined) {
    throw new Refusal('token_binding_unusable')
  }
}

function isSameBinding (answered: unknown, own: TokenClaims['cnf']): boolean {
  return isJsonObject(answered) && isJsonObject(own) && TOKEN_BINDINGS.every(member => answered[member] === own[member])
}
