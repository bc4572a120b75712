/**
 * Here @fastify/jwt checks the signature of access tokens, and nothing else: keys come from the provider's set, and
 * jwt-checks.ts judges header and claims. The package passes each token to fast-jwt and keeps one fast-jwt verifier for
 * each key. It does so for every accepted algorithm except `Ed25519` and `ML-DSA-44`, which fast-jwt does not know:
 * node:crypto verifies those.
 *
 * Each algorithm has a stand-in of its own, so the package never chooses between algorithms by the header of a token.
 *
 * The package is kept from the app and from its requests. If it were registered with the app, it would write the claims
 * to `request.user` as soon as the signature is right, before binding and proof are judged. It would also take names
 * that the app may need for its own @fastify/jwt. So it decorates a stand-in, and it verifies a private candidate.
 */

import type { FastifyInstance } from 'fastify'
import { createRequire } from 'node:module'
import { ALGORITHMS, findSignerByCrypto, isOfLength, type JwsAlg } from '../../lib/guard/jose/signature.ts'
import type { SignerFinder } from '../../lib/guard/jose/signed-jwt.ts'

const require = createRequire(import.meta.url)
/**
 * Loads @fastify/jwt: when the app has started, or for the first token if one comes earlier. Apps then start earlier.
 */
export const loadFastifyJwt = (): typeof import('@fastify/jwt').default => require('@fastify/jwt')

/** The object that @fastify/jwt verifies in place of a request. */
interface Candidate {
  readonly token: string
  readonly pem: string
}

type RequestVerify = (this: Candidate, options: undefined, done: (error: Error | null) => void) => void

/** The algorithms that fast-jwt knows. */
type FastJwtAlg = Exclude<JwsAlg, 'Ed25519' | 'ML-DSA-44'>

const MAX_VERIFIERS = 1000

/** What the package keeps for one algorithm: a verifier for each key. */
interface Verifiers {
  /** The `jwtVerify` function that the package would add to requests. */
  readonly verify: RequestVerify
  readonly pems: Set<string>
}

/**
 * Makes the function that finds the signer of a token. If several keys are possible, node:crypto finds the one, and the
 * package confirms it: node:crypto decodes a token once. A forged token fails under all of
 * them, and must not cost as much as that many accepted ones. For each algorithm it keeps the verifiers of at most
 * `MAX_VERIFIERS` keys.
 */
export function createFastifyJwtFinder (): SignerFinder {
  const verifiersOf = new Map<JwsAlg, Verifiers>()

  function isSigner (token: string, pem: string, alg: FastJwtAlg) {
    let verifiers = verifiersOf.get(alg)
    // The package never forgets a verifier. A provider that changes its keys all the time must not fill the memory with
    // verifiers.
    if (!verifiers || verifiers.pems.size === MAX_VERIFIERS) {
      verifiersOf.set(alg, verifiers = { verify: decorateStandIn(alg), pems: new Set() })
    }
    verifiers.pems.add(pem)
    // The package's errors are not shown. They are made without stacks, so that a wrong signature costs no more than a
    // good one.
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = 0
    // The result is false unless the package reports success before it returns. Its callback runs inside a `try` of the
    // package, so the callback does nothing else.
    let isValid = false
    // The package keeps its verifiers only if the call passes no options of its own.
    verifiers.verify.call({ token, pem }, undefined, error => {
      isValid = !error
    })
    Error.stackTraceLimit = limit
    return isValid
  }

  return (token, keys, alg) => {
    if (alg === 'Ed25519' || alg === 'ML-DSA-44') return findSignerByCrypto(token, keys, alg)
    const key = keys.length < 2 ? keys[0] : findSignerByCrypto(token, keys, alg)
    return key && isSigner(token, key.pem, alg) &&
        isOfLength(ALGORITHMS[alg], key.key, token.slice(token.lastIndexOf('.') + 1))
      ? key
      : undefined
  }
}

function decorateStandIn (alg: FastJwtAlg): RequestVerify {
  let requestVerify: RequestVerify | undefined
  const standIn = {
    decorate () {},
    decorateReply () {},
    decorateRequest (name: string, value: RequestVerify) {
      if (name === 'jwtVerify') requestVerify = value
    }
  }
  // The package calls the last function when it has looked at the options. They are fixed, and it has decorated by
  // then.
  loadFastifyJwt()(standIn as unknown as FastifyInstance, {
    secret: {
      public: (candidate: unknown, _token: unknown, done: (error: null, key: string) => void) =>
        done(null, (candidate as Candidate).pem)
    },
    verify: {
      algorithms: [alg],
      ignoreExpiration: true,
      ignoreNotBefore: true,
      extractToken: (candidate: unknown) => (candidate as Candidate).token
    }
  }, () => {})
  return requestVerify!
}
