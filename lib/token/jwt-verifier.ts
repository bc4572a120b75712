import { isOffered } from '../credentials.ts'
import type { AuthScheme } from '../credentials.ts'
import { signerOf } from '../jose/signed-jwt.ts'
import type { SignerFinder, SigningKey } from '../jose/signed-jwt.ts'
import { Refusal, refusalOfIssuer } from '../refusal.ts'
import { isJwt } from './inquiry.ts'
import type { IssuerTable, TokenIssuer } from './issuer-table.ts'
import { checkByRules, issuerRefusal, readIssuer, readPresentedToken, timeRefusal } from './jwt-checks.ts'
import type { PresentedToken, TokenClaims, TokenRules } from './jwt-checks.ts'
import { createVerifiedToken } from './verified-tokens.ts'
import type { TokenDone, TokenVerifier, VerifiedToken, VerifiedTokens } from './verified-tokens.ts'

export interface JwtVerifierOptions {
  /** Undefined if no provider is usable. Then every token is refused, and no call is made. */
  readonly issuers: IssuerTable | undefined
  /** Replaces the audience of every issuer. */
  readonly audience?: string
  readonly findSigner: SignerFinder
  readonly verified: VerifiedTokens
  /** Why a token that is valid by itself is refused all the same. Undefined if nothing can be revoked. */
  readonly revocationOf?: ((token: VerifiedToken) => Refusal | undefined) | undefined
  readonly clockToleranceSeconds: number
}

/**
 * Verifies access tokens. For a JWT (RFC 9068) it chooses the issuer, runs all checks that need no key, verifies the
 * signature under a key of this issuer, and introspects the token if that is set. Any other token is introspected at
 * the one issuer with opaque tokens (RFC 7662), if there is one.
 */
export function createJwtVerifier (options: JwtVerifierOptions): TokenVerifier {
  const { issuers, audience, verified } = options
  /** One object for each key, shared by all tokens that the key has signed. */
  const trusts = new WeakMap<SigningKey, () => boolean>()
  const rulesForAudience = new WeakMap<TokenIssuer, TokenRules>()

  function rulesOf (issuer: TokenIssuer): TokenRules {
    if (audience === undefined) return issuer.rules
    const rules = rulesForAudience.get(issuer) ?? { ...issuer.rules, audience, resource: undefined }
    rulesForAudience.set(issuer, rules)
    return rules
  }

  /** @param isStranger false for a token that was verified before */
  function verifyAnew (presented: PresentedToken, scheme: AuthScheme, isStranger: boolean, done: TokenDone): void {
    let issuer: ReturnType<IssuerTable['find']>
    try {
      issuer = findIssuer(issuers!, presented)
    } catch (error) {
      return done(error as Error)
    }
    if (!(issuer instanceof Promise)) return verifyByIssuer(issuer, presented, scheme, isStranger, done)
    issuer.then(
      issuer => verifyByIssuer(issuer, presented, scheme, isStranger, done),
      error => done(refusalOfIssuer(error, undefined))
    )
  }

  function verifyByIssuer (
    issuer: TokenIssuer | undefined,
    presented: PresentedToken,
    scheme: AuthScheme,
    isStranger: boolean,
    finish: TokenDone
  ): void {
    if (!issuer) {
      return finish(issuerRefusal(presented.claims!.iss as string, issuers!.all().map(({ issuer }) => issuer)))
    }
    // Refusals name the issuer as soon as it is known.
    const done: TokenDone = (error, token) => finish(error && refusalOfIssuer(error, issuer.issuer), token)
    if (!isOffered(scheme, issuer.dpopMode)) return done(new Refusal('scheme_not_offered'))
    if (!presented.claims) return verifyOpaque(issuer, presented, isStranger, done)
    let claims: TokenClaims
    try {
      claims = checkByRules(presented, rulesOf(issuer))
    } catch (error) {
      return done(error as Error)
    }
    verifySignature(issuer, presented, claims, done)
  }

  function verifySignature (
    issuer: TokenIssuer,
    { text, header }: PresentedToken,
    claims: TokenClaims,
    done: TokenDone
  ): void {
    const signer = signerOf(text, header!, issuer.keys, options.findSigner)
    if (!(signer instanceof Promise)) return trust(signer)
    signer.then(signer => {
      if (typeof signer !== 'string') return trust(signer)
      done(new Refusal(signer === 'key_unknown' ? 'token_key_unknown' : 'token_signature'))
    }, done)

    function trust (key: SigningKey): void {
      const isTrusted = trusts.get(key) ?? (() => issuer.keys.isTrusted(key))
      trusts.set(key, isTrusted)
      admit(createVerifiedToken({ text, claims, issuer, isTrusted }), issuer, done)
    }
  }

  /** A token that has passed all checks of its own. Its issuer may decide whether it is still active. */
  function admit (token: VerifiedToken, issuer: TokenIssuer, done: TokenDone): void {
    const { introspection } = issuer
    if (!introspection || introspection.covers === 'opaque') return keep(token, done)
    introspection.inquiry.confirm(token.text, rulesOf(issuer), token.claims).then(({ isCurrent }) => {
      keep(Object.freeze({ ...token, isTrusted: () => isCurrent() && token.isTrusted() }), done)
    }, done)
  }

  function verifyOpaque (
    issuer: TokenIssuer,
    { text, now }: PresentedToken,
    isStranger: boolean,
    done: TokenDone
  ): void {
    const { inquiry } = issuer.introspection!
    inquiry.claimsOf(text, isStranger, rulesOf(issuer), now).then(({ claims, isCurrent: isTrusted }) => {
      // The issuer may leave out `exp`. Then only its answer counts, which expires.
      const expiresAt = claims.exp ?? Math.floor(now) + inquiry.cacheSeconds
      keep(createVerifiedToken({ text, claims, issuer, isTrusted, expiresAt }), done)
    }, done)
  }

  function keep (token: VerifiedToken, done: TokenDone): void {
    verified.keep(token)
    pass(token, done)
  }

  /** The last step for every token: JWTs, opaque ones, and those that were verified before. */
  function pass (token: VerifiedToken, done: TokenDone): void {
    const refusal = options.revocationOf?.(token)
    if (refusal) return done(refusalOfIssuer(refusal, token.issuer))
    issuers!.recordUse?.(token.claims.iss)
    done(null, token)
  }

  /** If the issuer does not answer now, the token stays: only this memory sets it apart from a made-up one. */
  function forgetRefused (known: VerifiedToken, done: TokenDone): TokenDone {
    return (error, token) => {
      if (error && (error as Refusal).statusCode !== 503) verified.forget(known)
      done(error, token)
    }
  }

  return {
    known: verified.get,
    verify (text, scheme, known, now, done) {
      if (!issuers) return done(new Refusal('domain_has_scheme'))
      if (!known) return verifyAnew({ text, now }, scheme, true, done)
      if (!isOffered(scheme, known.dpopMode)) {
        return done(refusalOfIssuer(new Refusal('scheme_not_offered'), known.issuer))
      }
      if (!known.isTrusted()) return verifyAnew({ text, now }, scheme, false, forgetRefused(known, done))
      const refusal = timeRefusal(known.claims, now, options.clockToleranceSeconds)
      if (!refusal) return pass(known, done)
      verified.forget(known)
      done(refusalOfIssuer(refusal, known.issuer))
    }
  }
}

/**
 * The issuer by whose rules a token is judged. A JWT is read for that; an opaque token has no claims yet.
 * @throws Refusal token_malformed, token_claim_invalid
 */
function findIssuer (issuers: IssuerTable, presented: PresentedToken): ReturnType<IssuerTable['find']> {
  if (issuers.ofOpaque && !isJwt(presented.text)) return issuers.ofOpaque
  readPresentedToken(presented)
  return issuers.find(readIssuer(presented))
}
