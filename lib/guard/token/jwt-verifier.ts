import { isOffered, type AuthScheme } from '../credentials.ts'
import { isJwt, signerOf, type JwtContent, type SignerFinder } from '../jose/signed-jwt.ts'
import type { JsonObject } from '../../base/json.ts'
import { Refusal, refusalOfIssuer } from '../../refusal.ts'
import type { IssuerTable, TokenIssuer } from './issuer-table.ts'
import { checkByRules, issuerRefusal, readIssuer, readToken, timeRefusal, type TokenRules } from './jwt-checks.ts'
import {
  createVerifiedToken,
  refusalOfToken,
  type VerifiedToken,
  type VerifiedTokens
} from './verified-tokens.ts'

export interface JwtVerifierOptions {
  /** Absent if no provider is usable. Then every token is refused, and no call is made. */
  readonly issuers: IssuerTable | undefined
  /** Replaces the audiences of every issuer. */
  readonly audiences?: readonly string[]
  readonly findSigner: SignerFinder
  readonly verified: VerifiedTokens
  /** Why a token that is valid by itself is refused all the same, or undefined if nothing can be revoked. */
  readonly revocationOf?: (token: VerifiedToken) => Refusal | undefined
  readonly clockToleranceSeconds: number
}

/** The boundary between the guard and the kinds of tokens: it turns the text of a token into a verified token. */
export type TokenVerifier = ReturnType<typeof createJwtVerifier>

/**
 * Verifies access tokens. For a JWT (RFC 9068) it chooses the issuer, runs all checks that need no key, verifies the
 * signature under a key of this issuer, and introspects the token if that is set. Any other token is introspected at
 * the one issuer with opaque tokens (RFC 7662), if there is one.
 */
export function createJwtVerifier (
  { issuers, audiences, findSigner, verified, revocationOf, clockToleranceSeconds }: JwtVerifierOptions
) {
  function rulesOf ({ rules }: TokenIssuer): TokenRules {
    return audiences === undefined ? rules : { ...rules, audiences, resource: undefined }
  }

  /**
   * A JWT is read, because its `iss` chooses the issuer by whose rules it is judged.
   * @param isStranger false for a token that was verified before
   * @throws Refusal
   */
  async function read (
    issuers: IssuerTable,
    text: string,
    scheme: AuthScheme,
    isStranger: boolean,
    now: number
  ): Promise<VerifiedToken> {
    const content = issuers.ofOpaque && !isJwt(text) ? undefined : readToken(text)
    const issuer = content ? await findIssuer(issuers, content.claims) : issuers.ofOpaque!
    try {
      if (!isOffered(scheme, issuer.dpopMode)) throw new Refusal('scheme_not_offered')
      return content
        ? await verifyJwt(issuer, text, content, now)
        : await verifyOpaque(issuer, text, isStranger, now)
    } catch (error) {
      // Refusals name the issuer as soon as it is known.
      throw refusalOfIssuer(error as Error, issuer.issuer)
    }
  }

  async function verifyJwt (
    issuer: TokenIssuer,
    text: string,
    content: JwtContent,
    now: number
  ): Promise<VerifiedToken> {
    const { keys, introspection } = issuer
    const rules = rulesOf(issuer)
    const claims = checkByRules({ ...content, now }, rules)
    const signer = await signerOf(text, content.header, keys, findSigner)
    if (typeof signer === 'string') {
      throw new Refusal(signer === 'key_unknown' ? 'token_key_unknown' : 'token_signature')
    }
    const isTrusted = () => keys.isTrusted(signer)
    if (!introspection || introspection.covers === 'opaque') {
      return createVerifiedToken({ text, claims, issuer, isTrusted })
    }
    // The issuer decides whether it is still active.
    const { isCurrent } = await introspection.inquiry.confirm(text, rules, claims)
    return createVerifiedToken({ text, claims, issuer, isTrusted: () => isCurrent() && isTrusted() })
  }

  async function verifyOpaque (
    issuer: TokenIssuer,
    text: string,
    isStranger: boolean,
    now: number
  ): Promise<VerifiedToken> {
    const { inquiry } = issuer.introspection!
    const { claims, isCurrent: isTrusted } = await inquiry.claimsOf(text, isStranger, rulesOf(issuer), now)
    // The issuer may leave out `exp`. Then only its answer counts, which expires.
    const expiresAt = claims.exp ?? Math.floor(now) + inquiry.cacheSeconds
    const answerLength = JSON.stringify(claims).length
    return createVerifiedToken({ text, claims, issuer, isTrusted, expiresAt, answerLength })
  }

  /** The last step for every token: JWTs, opaque ones, and those that were verified before. @throws Refusal */
  function pass (issuers: IssuerTable, token: VerifiedToken): VerifiedToken {
    const refusal = revocationOf?.(token)
    if (refusal) throw refusalOfToken(refusal, token)
    issuers.recordUse?.(token.claims.iss)
    return token
  }

  /** @param known the token if it was verified before, and is not trusted any more. @throws Refusal */
  async function verifyAnew (
    issuers: IssuerTable,
    text: string,
    scheme: AuthScheme,
    known: VerifiedToken | undefined,
    now: number
  ): Promise<VerifiedToken> {
    let token: VerifiedToken
    try {
      token = await read(issuers, text, scheme, known === undefined, now)
    } catch (error) {
      // If the issuer does not answer now, the token stays: only this memory sets it apart from a made-up one.
      if (known && (error as Refusal).statusCode !== 503) verified.forget(known)
      throw error
    }
    verified.keep(token)
    return pass(issuers, token)
  }

  return {
    /** A token of exactly this text that was verified before. `verify` decides whether it still passes. */
    known: verified.get,
    /**
     * A scheme that the issuer of the token does not offer is refused before anything else of the token.
     * @param scheme how the token was sent
     * @param known the result of `known` for this text
     * @param now Unix seconds
     * @returns a promise unless the token is still trusted
     * @throws Refusal, or rejects with it
     */
    verify (
      text: string,
      scheme: AuthScheme,
      known: VerifiedToken | undefined,
      now: number
    ): VerifiedToken | Promise<VerifiedToken> {
      if (!issuers) throw new Refusal('domain_has_scheme')
      if (known && !isOffered(scheme, known.dpopMode)) {
        throw new Refusal('scheme_not_offered', { issuer: known.issuer })
      }
      if (!known?.isTrusted()) return verifyAnew(issuers, text, scheme, known, now)
      const refusal = timeRefusal(known.claims, now, clockToleranceSeconds)
      if (!refusal) return pass(issuers, known)
      verified.forget(known)
      throw refusalOfIssuer(refusal, known.issuer)
    }
  }
}

/** @throws Refusal token_issuer, token_claim_invalid, issuers_unavailable */
async function findIssuer (issuers: IssuerTable, claims: JsonObject): Promise<TokenIssuer> {
  const iss = readIssuer(claims)
  const issuer = await issuers.find(iss).catch((error: Error) => {
    // A copy, because requests share a look-up.
    throw refusalOfIssuer(error, undefined)
  })
  if (!issuer) throw issuerRefusal(iss, issuers.all().map(({ issuer }) => issuer))
  return issuer
}
