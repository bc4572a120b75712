import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'

/** Whether a token is signed with the private half of this RS256 key. @param pem SPKI */
export type SignatureVerifier = (token: string, pem: string) => boolean

/** What @fastify/jwt verifies for in the place of a request. */
interface Candidate {
  readonly token: string
  readonly pem: string
}

const MAX_VERIFIERS = 1000

type RequestVerify = (this: Candidate, options: undefined, done: (error: Error | null) => void) => void

/**
 * Verifies signatures with @fastify/jwt, which keeps one verifier of fast-jwt for each key.
 *
 * The package is used as a library and is not registered with the app. Registered, it would write the claims to `request.user` as soon
 * as the signature is right, before binding and proof are judged, and would take names that the app may need for an @fastify/jwt of
 * its own. So it decorates a stand-in here, and what it verifies for is a candidate that nobody else sees. It judges the signature
 * and nothing else: keys come from the provider's set, and claims are judged by the checks of access-token.ts.
 */
export function createSignatureVerifier (): SignatureVerifier {
  let requestVerify = decorateStandIn()
  let pems = new Set<string>()

  return (token, pem) => {
    // The package never forgets a verifier. A provider that changes its keys all the time must not fill the memory with them.
    if (pems.size === MAX_VERIFIERS) {
      requestVerify = decorateStandIn()
      pems = new Set()
    }
    pems.add(pem)
    // The package's errors are not shown. Without their stacks a wrong signature costs no more than a good one.
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = 0
    // False unless the package says otherwise before it returns. Its callback runs inside a try of its own, so nothing else may happen in there.
    let isValid = false
    // Without options of the call's own, the package keeps its verifiers.
    requestVerify.call({ token, pem }, undefined, error => { isValid = !error })
    Error.stackTraceLimit = limit
    return isValid
  }
}

/** The `jwtVerify` that the package would put on requests. */
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
  }, error => { if (error) throw error })
  return requestVerify!
}
