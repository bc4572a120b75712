import type { IncomingMessage } from 'node:http'
import { readProofLine, verifySchemeFits } from './binding.ts'
import { splitCredentials, verifyOffered, verifyToken68 } from './credentials.ts'
import type { Credentials, Scheme } from './credentials.ts'
import type { ProofAttempt, ProofPolicy, ProofVerifier } from './dpop/proof.ts'
import { readHeaderLines } from './header-lines.ts'
import type { HeaderLines } from './header-lines.ts'
import type { KeySource, SigningKey } from './keys/key-source.ts'
import { Refusal } from './refusal.ts'
import type { DpopMode } from './settings/settings.ts'
import { verifyTokenTimes } from './token/access-token.ts'
import type { AccessTokenClaims, AccessTokenParser, UnverifiedToken } from './token/access-token.ts'
import type { ScopeClaim } from './token/scopes.ts'
import { createVerifiedToken } from './token/verified-tokens.ts'
import type { VerifiedToken, VerifiedTokens } from './token/verified-tokens.ts'
import type { RequestUrl, WireRequest } from './url/request-url.ts'

/** What the guard reads of a request, as it stood on the wire. */
export type GuardedMessage = Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders'> & {
  readonly socket: { readonly encrypted?: boolean, readonly remoteAddress?: string | undefined }
  /** Where the app rewrites targets, the one that was sent; Fastify keeps it there. */
  readonly originalUrl?: string | undefined
}

/** Who sends a request, once token and proof have passed. */
export interface Identity {
  readonly claims: AccessTokenClaims
  readonly scheme: Scheme
  readonly scopes: readonly string[]
  /** Thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
  /** A newer nonce than the client used, for its next proof (RFC 9449 section 8.2). */
  readonly nextNonce: string | undefined
}

export interface GuardOptions<Carrier> {
  readonly mode: DpopMode
  readonly clockToleranceSeconds: number
  readonly scopeClaims: readonly ScopeClaim[]
  /** Undefined where no provider is usable: every token is then refused, and nothing is called. */
  readonly provider: { readonly keys: KeySource, readonly parseToken: AccessTokenParser } | undefined
  /** Verifies the RS256 signature of a token under a PEM public key. The carrier is the request in the form that the verifier wants. */
  readonly verifySignature: (carrier: Carrier, token: string, pem: string, done: (isValid: boolean) => void) => void
  readonly verified: VerifiedTokens
  readonly proofs: ProofPolicy
  /** `verifyProof`, or the same with its time measured. */
  readonly verifyProof: ProofVerifier
  readonly resolveUrl: (wire: WireRequest) => RequestUrl
  /** Unix seconds. */
  readonly now: () => number
}

export type GuardDone = (error: Error | null, identity?: Identity) => void

/** Decides who sends a request: credentials, then the token, then the proof that goes with it. Errors are of the type Refusal. */
export type Guard<Carrier> = (carrier: Carrier, message: GuardedMessage, done: GuardDone) => void

export function createGuard<Carrier> (options: GuardOptions<Carrier>): Guard<Carrier> {
  return function authenticate (carrier, message, done) {
    try {
      const lines = readHeaderLines(message.rawHeaders)
      const credentials = splitCredentials(lines)
      const kept = options.verified.get(credentials.token)
      // The text of a token that was verified is a token68.
      if (!kept) verifyToken68(credentials)
      verifyOffered(credentials, options.mode)
      const now = options.now()
      if (kept && isStillGood(kept, options, now)) return verifyBinding(options, message, lines, credentials, kept, now, done)
      verifyToken(options, carrier, credentials.token, now, (error, token) => {
        if (!token) return done(error)
        try {
          verifyBinding(options, message, lines, credentials, token, now, done)
        } catch (error) {
          done(error as Error)
        }
      })
    } catch (error) {
      done(error as Error)
    }
  }
}

/** Whether the key that signed a known token is still there. @throws Refusal when the token's time is over */
function isStillGood (token: VerifiedToken, { verified, provider, clockToleranceSeconds }: GuardOptions<never>, now: number): boolean {
  if (!provider!.keys.isTrusted(token.key)) {
    verified.forget(token)
    return false
  }
  try {
    verifyTokenTimes(token.claims, now, clockToleranceSeconds)
    return true
  } catch (error) {
    verified.forget(token)
    throw error
  }
}

type TokenDone = (error: Error | null, token?: VerifiedToken) => void

/** What the verification of one token needs at each of its turns. */
interface TokenAttempt<Carrier> {
  readonly options: GuardOptions<Carrier>
  readonly carrier: Carrier
  readonly text: string
  readonly token: UnverifiedToken
  readonly done: TokenDone
  /** Whether the provider has been asked for keys on behalf of this token. */
  asked: boolean
}

function verifyToken<Carrier> (options: GuardOptions<Carrier>, carrier: Carrier, text: string, now: number, done: TokenDone): void {
  if (!options.provider) throw new Refusal('domain_has_scheme')
  const { keys, parseToken } = options.provider
  const token = parseToken(text, now)
  tryKeys({ options, carrier, text, token, done, asked: false }, keys.candidates(token.kid), 0)
}

// A token with a kid has one candidate; one without may be of any of the provider's few keys.
function tryKeys<Carrier> (attempt: TokenAttempt<Carrier>, candidates: readonly SigningKey[], index: number): void {
  const { options, carrier, text, token, done } = attempt
  const key = candidates[index]
  if (!key) {
    if (!attempt.asked && (candidates.length === 0 || token.kid === undefined)) return askForKeys(attempt, candidates)
    return done(new Refusal(candidates.length === 0 ? 'token_key_unknown' : 'token_signature'))
  }
  options.verifySignature(carrier, text, key.pem, isValid => {
    if (!isValid) return tryKeys(attempt, candidates, index + 1)
    const verified = createVerifiedToken(text, token.claims, key, options.scopeClaims)
    options.verified.keep(verified)
    done(null, verified)
  })
}

// The keys that have been tried already are not tried again: without a kid that would double the cost of a made-up token.
function askForKeys<Carrier> (attempt: TokenAttempt<Carrier>, tried: readonly SigningKey[]): void {
  attempt.asked = true
  attempt.options.provider!.keys.fetchCandidates(attempt.token.kid)
    .then(candidates => tryKeys(attempt, candidates, candidates === tried ? candidates.length : 0))
    .catch(attempt.done)
}

/** The checks that tie the request to the token's key, if it has one. @throws Refusal */
function verifyBinding (
  options: GuardOptions<never>, message: GuardedMessage, lines: HeaderLines, { scheme }: Credentials,
  token: VerifiedToken, now: number, done: GuardDone
): void {
  verifySchemeFits(scheme, token.jkt, lines, options.mode)
  if (scheme === 'Bearer') return done(null, identify(token, scheme, undefined))

  const attempt: ProofAttempt = {
    proof: readProofLine(lines),
    method: message.method!,
    tokenHash: token.tokenHash,
    tokenJkt: token.jkt!,
    requestUrl: () => options.resolveUrl(wireOf(message, lines)),
    now
  }
  options.verifyProof(attempt, options.proofs, error => {
    if (error) return done(error)
    done(null, identify(token, scheme, nextNonce(options.proofs, attempt)))
  })
}

function wireOf ({ url, originalUrl, headers, socket }: GuardedMessage, { host, hostCount }: HeaderLines): WireRequest {
  return { target: originalUrl ?? url!, headers, host, hostCount, encrypted: socket.encrypted === true, remoteAddress: socket.remoteAddress }
}

function identify ({ claims, scopes, jkt }: VerifiedToken, scheme: Scheme, nextNonce: string | undefined): Identity {
  return { claims, scheme, scopes, jkt, nextNonce }
}

function nextNonce ({ nonces }: ProofPolicy, { claims, now }: ProofAttempt): string | undefined {
  const newest = nonces?.current(now)
  return newest === claims!.nonce ? undefined : newest
}
