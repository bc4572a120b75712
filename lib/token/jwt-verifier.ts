import type { KeySource, SigningKey } from '../provider/key-source.ts'
import { Refusal } from '../refusal.ts'
import { verifyTokenTimes } from './jwt-checks.ts'
import type { AccessTokenParser, UnverifiedToken } from './jwt-checks.ts'
import type { SignatureVerifier } from './jwt-signature.ts'
import type { ScopeClaim, VerifiedTokens } from './verified-tokens.ts'
import type { TokenDone, TokenVerifier, VerifiedToken } from './token-verifier.ts'
import { createVerifiedToken } from './verified-tokens.ts'

/** The issuer whose tokens pass: its URL, its keys and the checks that need no key. */
export interface JwtIssuer {
  readonly issuer: string
  readonly keys: KeySource
  readonly parseToken: AccessTokenParser
}

export interface JwtVerifierOptions {
  /** Undefined if no provider is usable. Then every token is refused, and no call is made. */
  readonly provider: JwtIssuer | undefined
  readonly verifySignature: SignatureVerifier
  readonly verified: VerifiedTokens
  readonly scopeClaims: readonly ScopeClaim[]
  readonly clockToleranceSeconds: number
}

/** Verifies JWT access tokens (RFC 9068): first all checks that need no key, then the signature under a key that the issuer publishes. */
export function createJwtVerifier (options: JwtVerifierOptions): TokenVerifier {
  const { provider, verified } = options
  /** One object for each key, shared by all tokens that the key has signed. */
  const trusts = new WeakMap<SigningKey, () => boolean>()

  function verifyUnknown (provider: JwtIssuer, text: string, now: number, done: TokenDone): void {
    let token: UnverifiedToken
    try {
      token = provider.parseToken(text, now)
    } catch (error) {
      return done(error as Error)
    }
    const { keys } = provider
    const atHand = keys.candidates(token.kid)
    const found = tryKeys(text, token, provider, atHand)
    if (found) return done(null, found)
    // If a token names a key that is at hand and that key fails, the signature is wrong. If a token names no key, the provider may have a
    // newer one.
    if (atHand.length > 0 && token.kid !== undefined) return done(new Refusal('token_signature'))
    keys.fetchCandidates(token.kid).then(candidates => {
      // Keys that were tried already are not tried again. Otherwise a forged token without a kid would cost twice as much.
      const found = candidates === atHand ? undefined : tryKeys(text, token, provider, candidates)
      if (found) return done(null, found)
      done(new Refusal(candidates.length === 0 ? 'token_key_unknown' : 'token_signature'))
    }, done)
  }

  function tryKeys (text: string, { claims }: UnverifiedToken, { issuer, keys }: JwtIssuer, candidates: readonly SigningKey[]): VerifiedToken | undefined {
    const key = candidates.find(({ pem }) => options.verifySignature(text, pem))
    if (!key) return undefined
    const isTrusted = trusts.get(key) ?? (() => keys.isTrusted(key))
    trusts.set(key, isTrusted)
    const token = createVerifiedToken({ text, claims, issuer, isTrusted, scopeClaims: options.scopeClaims })
    verified.keep(token)
    return token
  }

  return {
    known: text => verified.get(text),
    verify (text, known, now, done) {
      if (!provider) return done(new Refusal('domain_has_scheme'))
      if (!known) return verifyUnknown(provider, text, now, done)
      if (!known.isTrusted()) {
        verified.forget(known)
        return verifyUnknown(provider, text, now, done)
      }
      const refusal = timeRefusal(known, now, options.clockToleranceSeconds)
      if (!refusal) return done(null, known)
      verified.forget(known)
      done(refusal)
    }
  }
}

function timeRefusal ({ claims }: VerifiedToken, now: number, toleranceSeconds: number): Error | null {
  try {
    verifyTokenTimes(claims, now, toleranceSeconds)
    return null
  } catch (error) {
    return error as Error
  }
}
