/**
 * Here @fastify/jwt checks the signature of access tokens, and nothing else: keys come from the provider's set, and jwt-checks.ts
 * judges header and claims. The package passes each token to fast-jwt and keeps one fast-jwt verifier for each key.
 *
 * The package is kept from the app and from its requests. If it were registered with the app, it would write the claims to
 * `request.user` as soon as the signature is right, before binding and proof are judged. It would also take names that the app may
 * need for its own @fastify/jwt. So it decorates a stand-in, and it verifies a candidate that nobody else sees.
 */

import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'

/** Whether a token is signed with the private half of this RS256 key. @param pem SPKI */
export type SignatureVerifier = (token: string, pem: string) => boolean

/** The object that @fastify/jwt verifies in place of a request. */
interface Candidate {
  readonly token: string
  readonly pem: string
}

const MAX_VERIFIERS = 1000

type RequestVerify = (this: Candidate, options: undefined, done: (error: Error | null) => void) => void

/** Makes the function that checks signatures. It keeps the verifiers of at most `MAX_VERIFIERS` keys. */
export function createSignatureVerifier (): SignatureVerifier {
  let requestVerify = decorateStandIn()
  let pems = new Set<string>()

  return (token, pem) => {
    // The package never forgets a verifier. A provider that changes its keys all the time must not fill the memory with verifiers.
    if (pems.size === MAX_VERIFIERS) {
      requestVerify = decorateStandIn()
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
function decorateStandIn (): RequestVerify {
  let requestVerify: RequestVerify | undefined
  const standIn = {
    decorate () {},
    decorateReply () {},
    decorateRequest (name: string, value: RequestVerify) {
      if (name === 'jwtVerify') requestVerify = value
    }
  }
  fastifyJwt(standIn as unknown as FastifyInstance, {
    secret: { public: (candidate: unknown, _token: unknown, done: (error: null, key: string) => void) => done(null, (candidate as Candidate).pem) },
    verify: { algorithms: ['RS256'], ignoreExpiration: true, ignoreNotBefore: true, extractToken: (candidate: unknown) => (candidate as Candidate).token }
  }, done)
  return requestVerify!

  /** The package calls it when it has looked at the options. They are fixed, and it has decorated by then. */
  function done (): void {}
}
