/**
 * Here @fastify/jwt checks the signature of access tokens, and nothing else: keys come from the provider's set, and jwt-checks.ts
 * judges header and claims. The package passes each token to fast-jwt and keeps one fast-jwt verifier for each key. It does so for every
 * accepted algorithm except `Ed25519` and `ML-DSA-44`, which fast-jwt does not know: node:crypto verifies those.
 *
 * Each algorithm has a stand-in of its own, so the package never chooses between algorithms by the header of a token.
 *
 * The package is kept from the app and from its requests. If it were registered with the app, it would write the claims to
 * `request.user` as soon as the signature is right, before binding and proof are judged. It would also take names that the app may
 * need for its own @fastify/jwt. So it decorates a stand-in, and it verifies a private candidate.
 */

import type { FastifyInstance } from 'fastify'
import { createPublicKey, verify } from 'node:crypto'
import { createRequire } from 'node:module'
import type { JwsAlg } from '../jose/signature.ts'

const require = createRequire(import.meta.url)
/** Loads @fastify/jwt: when the app has started, or for the first token if one comes earlier. Apps then start earlier. */
export const loadFastifyJwt = (): typeof import('@fastify/jwt').default => require('@fastify/jwt')

/**
 * Whether a token is signed with the private half of this key by this algorithm. The caller has checked that the token names the
 * algorithm and that the key is made for it.
 * @param pem SPKI
 */
export type SignatureVerifier = (token: string, pem: string, alg: JwsAlg) => boolean

/** The object that @fastify/jwt verifies in place of a request. */
interface Candidate {
  readonly token: string
  readonly pem: string
}

const MAX_VERIFIERS = 1000

/** What the package knows. */
type PackageAlg = Exclude<JwsAlg, 'Ed25519' | 'ML-DSA-44'>

type RequestVerify = (this: Candidate, options: undefined, done: (error: Error | null) => void) => void

/** Makes the function that checks signatures. For each algorithm it keeps the verifiers of at most `MAX_VERIFIERS` keys. */
export function createSignatureVerifier (): SignatureVerifier {
  const verifiers = new Map<JwsAlg, (token: string, pem: string) => boolean>()

  return (token, pem, alg) => {
    let verifier = verifiers.get(alg)
    if (!verifier) verifiers.set(alg, verifier = alg === 'Ed25519' || alg === 'ML-DSA-44' ? verifyDirectly : createAlgorithmVerifier(alg))
    return verifier(token, pem)
  }
}

/** RFC 8037 section 3.1, RFC 9864 section 2.2, RFC 9964. */
function verifyDirectly (token: string, pem: string): boolean {
  const end = token.lastIndexOf('.')
  return verify(null, Buffer.from(token.slice(0, end)), createPublicKey(pem), Buffer.from(token.slice(end + 1), 'base64url'))
}

function createAlgorithmVerifier (alg: PackageAlg): (token: string, pem: string) => boolean {
  let requestVerify = decorateStandIn(alg)
  let pems = new Set<string>()

  return (token, pem) => {
    // The package never forgets a verifier. A provider that changes its keys all the time must not fill the memory with verifiers.
    if (pems.size === MAX_VERIFIERS) {
      requestVerify = decorateStandIn(alg)
      pems = new Set()
    }
    pems.add(pem)
    // The package's errors are not shown. They are made without stacks, so that a wrong signature costs no more than a good one.
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = 0
    // The result is false unless the package reports success before it returns. Its callback runs inside a `try` of the package, so the
    // callback does nothing else.
    let isValid = false
    // The package keeps its verifiers only if the call passes no options of its own.
    requestVerify.call({ token, pem }, undefined, error => { isValid = !error })
    Error.stackTraceLimit = limit
    return isValid
  }
}

/** The `jwtVerify` function that the package would add to requests. */
function decorateStandIn (alg: PackageAlg): RequestVerify {
  let requestVerify: RequestVerify | undefined
  const standIn = {
    decorate () {},
    decorateReply () {},
    decorateRequest (name: string, value: RequestVerify) {
      if (name === 'jwtVerify') requestVerify = value
    }
  }
  loadFastifyJwt()(standIn as unknown as FastifyInstance, {
    secret: { public: (candidate: unknown, _token: unknown, done: (error: null, key: string) => void) => done(null, (candidate as Candidate).pem) },
    verify: { algorithms: [alg], ignoreExpiration: true, ignoreNotBefore: true, extractToken: (candidate: unknown) => (candidate as Candidate).token }
  }, done)
  return requestVerify!

  /** The package calls it when it has looked at the options. They are fixed, and it has decorated by then. */
  function done (): void {}
}
