import type { CertificateReader } from './certificate/client-certificate.ts'
import {
  splitCredentials,
  verifyOffered,
  verifyToken68,
  type AuthScheme,
  type Credentials,
  type DpopMode
} from './credentials.ts'
import { recordProof, type PresentedProof, type ProofPolicy, type ProofVerifier } from './dpop/proof.ts'
import { Message, receivedFrom, verifyLinesCounted, type ReceivedRequest } from './message.ts'
import { clientKey, type RateLimit } from './rate-limit.ts'
import { Refusal } from '../refusal.ts'
import type { TokenVerifier } from './token/jwt-verifier.ts'
import { refusalOfToken, type Binding, type VerifiedToken } from './token/verified-tokens.ts'
import type { RequestUrl } from './url/request-url.ts'

/** The sender of a request, known once token and proof have passed. */
export interface Identity {
  readonly token: VerifiedToken
  readonly scheme: AuthScheme
  /** A newer nonce than the one that the client used, for its next proof (RFC 9449 section 8.2). */
  readonly nextNonce: string | undefined
}

/** A request that the guard looks at: the one that arrived, or in forward auth that of the client. */
export interface GuardedRequest {
  /** Its lines. In forward auth the lines that the guard reads are the client's. */
  readonly message: Message
  /** The method that the client used. */
  readonly method: string
  /** The URL that the client used, if it is known already. */
  readonly url: RequestUrl | undefined
}

/** The request that arrived. Its URL is found only if a proof is compared with it. */
export function arrivedRequest (raw: ReceivedRequest): GuardedRequest {
  const message = new Message(receivedFrom(raw))
  return { message, method: message.method, url: undefined }
}

export interface GuardOptions {
  /** The mode of the service as a whole: it offers what any issuer offers. */
  readonly mode: DpopMode
  readonly tokens: TokenVerifier
  readonly proofs: ProofPolicy
  /** `verifyProof`, or `verifyProof` with its time measured. */
  readonly verifyProof: ProofVerifier
  readonly resolveUrl: (message: Message) => RequestUrl
  /** Called only for a token that is bound to a certificate. */
  readonly readCertificate: CertificateReader
  /** Undefined when clients are not limited. */
  readonly rateLimit: RateLimit | undefined
  /** Unix seconds. */
  readonly now: () => number
}

/** Called exactly once, and never inside a `try`: the guard must not catch what its caller throws. */
export type GuardDone = (error: Error | null, identity?: Identity) => void

/**
 * Decides who sends a request. It checks the credentials, then the token, then the proof that belongs to the token.
 * Errors are of the type Refusal.
 */
export type Guard = (request: GuardedRequest, done: GuardDone) => void

export function createGuard (options: GuardOptions): Guard {
  return function authenticate (request, done) {
    const { tokens, mode } = options
    const now = options.now()
    let credentials: Credentials
    let verified: VerifiedToken | Promise<VerifiedToken>
    try {
      verifyLinesCounted(request.message.received)
      credentials = splitCredentials(request.message)
      const { token: text, scheme } = credentials
      const known = tokens.known(text)
      // The text of a verified token is a token68.
      if (!known) verifyToken68(credentials)
      verifyOffered(credentials, mode)
      verified = tokens.verify(text, scheme, known, now)
    } catch (error) {
      return done(error as Error)
    }
    const proceed = (token: VerifiedToken) =>
      verifyBinding(
        options,
        request,
        credentials,
        token,
        now,
        (error, identity) => done(error && refusalOfToken(error, token), identity)
      )
    if (verified instanceof Promise) verified.then(proceed, done)
    else proceed(verified)
  }
}

/** The checks that tie the request to what the token is bound to, if it is. */
function verifyBinding (
  options: GuardOptions,
  { message, method, url }: GuardedRequest,
  { scheme }: Credentials,
  token: VerifiedToken,
  now: number,
  done: GuardDone
) {
  let proof: PresentedProof | undefined
  try {
    verifyCertificate(token.binding, message, options.readCertificate)
    verifySchemeFits(scheme, token.binding, message, token.dpopMode)
    if (scheme === 'DPoP') {
      proof = {
        proof: readProofLine(message),
        method,
        tokenHash: token.tokenHash,
        tokenJkt: token.binding.jkt!,
        requestUrl: () => url ?? options.resolveUrl(message),
        now
      }
    }
  } catch (error) {
    return done(error as Error)
  }
  if (proof) return verifyProof(options, proof, token, done)
  const refusal = limited(options, token)
  if (refusal) return done(refusal)
  done(null, { token, scheme, nextNonce: undefined })
}

/**
 * A token that is bound to a certificate passes only with that certificate (RFC 8705 section 3). It is checked before
 * scheme and proof, because it is about the token. For any other token nothing is read.
 * @throws Refusal certificate_missing, certificate_unreadable, certificate_mismatch
 */
export function verifyCertificate (
  { x5tS256 }: Binding,
  { received }: Message,
  readCertificate: CertificateReader
): void {
  if (x5tS256 !== undefined && readCertificate(received) !== x5tS256) throw new Refusal('certificate_mismatch')
}

/**
 * The scheme must fit the token: RFC 9449 section 7.1, and section 7.2 against the downgrade of a bound token.
 * @throws Refusal token_unbound, token_bound, proof_beside_bearer
 */
export function verifySchemeFits (scheme: AuthScheme, { jkt }: Binding, { dpopCount }: Message, mode: DpopMode): void {
  if (scheme === 'DPoP') {
    if (jkt === undefined) throw new Refusal('token_unbound')
  } else if (mode !== 'DISABLED') {
    if (jkt !== undefined) throw new Refusal('token_bound')
    if (dpopCount > 0) throw new Refusal('proof_beside_bearer')
  }
}

/**
 * The only proof of a request (RFC 9449 section 4.3, check 1).
 * @throws Refusal proof_missing, proof_repeated
 */
export function readProofLine ({ dpop, dpopCount }: Message): string {
  if (!dpop) throw new Refusal('proof_missing')
  // RFC 9110 section 5.3: an intermediary may have joined two lines with a comma.
  if (dpopCount > 1 || dpop.includes(',')) throw new Refusal('proof_repeated')
  return dpop
}

/**
 * The client is counted after its proof has passed, since only then is it known to be the sender. It is counted before
 * the `jti` is recorded, so a limited client leaves no record.
 */
function verifyProof (options: GuardOptions, proof: PresentedProof, token: VerifiedToken, done: GuardDone) {
  const { proofs, rateLimit } = options
  options.verifyProof(proof, proofs, error => {
    const refusal = error ?? limited(options, token)
    if (refusal) return done(refusal)
    recordProof(proof, proofs, error => {
      if (!error) return done(null, { token, scheme: 'DPoP', nextNonce: nextNonce(proofs, proof) })
      // A replay by a thief must not use up the limit of the client.
      rateLimit?.giveBack(clientKey(token))
      done(error)
    })
  })
}

function limited ({ rateLimit }: GuardOptions, token: VerifiedToken): Refusal | null {
  const retryAfterSeconds = rateLimit?.take(clientKey(token))
  return retryAfterSeconds === undefined ? null : new Refusal('rate_limited', { retryAfterSeconds })
}

function nextNonce ({ nonces }: ProofPolicy, { claims, now }: PresentedProof): string | undefined {
  const newest = nonces?.current(now)
  return newest === claims!.nonce ? undefined : newest
}
