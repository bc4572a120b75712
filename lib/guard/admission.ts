import { Message, receivedFrom } from '../message.ts'
import type { ReceivedRequest } from '../message.ts'
import { Refusal } from '../refusal.ts'
import type { Scheme } from '../scheme.ts'
import type { AccessTokenClaims } from '../token/access-token-claims.ts'
import type { TokenClaims } from '../token/jwt-checks.ts'
import type { Guard, GuardDone, Identity } from './guard.ts'
import type { Judge } from './judge.ts'
import { ANY_TOKEN } from './requirement.ts'
import type { Requirement } from './requirement.ts'

/** How a request proved its sender. */
export interface RequestAuth {
  readonly scheme: Scheme
  readonly scopes: readonly string[]
  /** RFC 7638 thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
  /** The issuer of the token, as the settings name it. */
  readonly issuer: string
  /** When the token expires, in Unix seconds. If its issuer does not say, the time until which the issuer's answer about it is used. */
  readonly expiresAt: number
}

const kNextNonce = Symbol('holdfast.nextNonce')
const kOngoingCheck = Symbol('holdfast.ongoingCheck')

/** A request that may be admitted. `user` and `auth` are null until its token and proof have passed. */
export interface AdmissibleRequest {
  readonly raw: ReceivedRequest
  user: AccessTokenClaims | null
  auth: RequestAuth | null
  [kNextNonce]?: string | undefined
  /** The check of this request that a handler has started and that has not ended yet. */
  [kOngoingCheck]?: Promise<Refused | undefined> | undefined
}

/** Why the guard refused. An object of its own, because a promise that rejects would have to be handled by each caller. */
interface Refused {
  readonly error: Error
}

export interface AdmissionOptions<Request extends AdmissibleRequest> {
  readonly guard: Guard
  readonly judge: Judge
  /** The request that the guard looks at, if it is not the one that arrived: a proxy asks about the request of its client. */
  readonly received?: (request: Request) => ReceivedRequest
  /** Prepares a refusal for its answer and its log line. Any other error is a fault, and is returned as it is. */
  readonly refuse: (request: Request, error: Error, requirement: Requirement) => Error
}

export type AdmissionDone = (error?: Error) => void

export interface Admission<Request extends AdmissibleRequest> {
  /** Admits a request that meets the requirement. `done` is called exactly once, and never inside a `try`. */
  admit (request: Request, requirement: Requirement, done: AdmissionDone): void
  /**
   * The same for a handler. A handler may ask several times at once, but the proof of a request passes only once, so all calls
   * share one check.
   */
  admitOnce (request: Request, requirement: Requirement): Promise<void>
}

/**
 * Decides whether a request may pass: first the guard finds out who sends it, then the requirement is judged. A request that has
 * passed the guard once is not checked again, because its proof would be a replay.
 */
export function createAdmission<Request extends AdmissibleRequest> ({ guard, judge, refuse, received = ({ raw }) => receivedFrom(raw) }: AdmissionOptions<Request>): Admission<Request> {
  function admit (request: Request, requirement: Requirement, done: AdmissionDone): void {
    if (request.auth) return judgeCaller(request, requirement, done)
    guard(received(request), settle(request, requirement, done))
  }

  /** What happens when the guard has decided. */
  function settle (request: Request, requirement: Requirement, done: AdmissionDone): GuardDone {
    return (error, identity) => {
      if (identity) {
        nameCaller(request, identity)
        return judgeCaller(request, requirement, done)
      }
      if (requirement.optional && isGuest(error, received(request))) return done()
      done(refuse(request, error!, requirement))
    }
  }

  function judgeCaller (request: Request, requirement: Requirement, done: AdmissionDone): void {
    if (requirement === ANY_TOKEN) return done()
    let predicates: Promise<void> | undefined
    try {
      predicates = judge({ scopes: request.auth!.scopes, claims: request.user as TokenClaims }, requirement)
    } catch (error) {
      return done(refuse(request, error as Error, requirement))
    }
    if (!predicates) return done()
    predicates.then(() => done(), error => done(refuse(request, error, requirement)))
  }

  async function admitOnce (request: Request, requirement: Requirement): Promise<void> {
    const refused = request.auth ? undefined : await checkOnce(request)
    await new Promise<void>((resolve, reject) => {
      const done: AdmissionDone = error => error ? reject(error) : resolve()
      if (refused) settle(request, requirement, done)(refused.error)
      else judgeCaller(request, requirement, done)
    })
  }

  function checkOnce (request: Request): Promise<Refused | undefined> {
    if (request[kOngoingCheck]) return request[kOngoingCheck]
    const check = new Promise<Refused | undefined>(resolve => {
      guard(received(request), (error, identity) => {
        if (identity) nameCaller(request, identity)
        resolve(identity ? undefined : { error: error! })
      })
    })
    request[kOngoingCheck] = check
    check.then(() => { request[kOngoingCheck] = undefined })
    return check
  }

  return { admit, admitOnce }
}

/** Only this function gives a request an identity. Nothing undecided is ever written to a request. */
function nameCaller (request: AdmissibleRequest, { claims, scheme, scopes, binding, issuer, expiresAt, nextNonce }: Identity): void {
  request.user = claims
  request.auth = { scheme, scopes, jkt: binding.jkt, issuer, expiresAt }
  if (nextNonce !== undefined) request[kNextNonce] = nextNonce
}

/**
 * Whether the guard refused a request only because it has no credentials at all: no empty line of them, no scheme of another kind,
 * and no proof.
 */
export function isGuest (error: unknown, received: ReceivedRequest): boolean {
  if (!(error instanceof Refusal) || error.reason !== 'credentials_missing') return false
  const { authorizationCount, dpopCount } = new Message(received)
  return authorizationCount === 0 && dpopCount === 0
}

/** The nonce that the next proof of the client should contain. Undefined if the client has the newest one. */
export function nextNonceOf (request: AdmissibleRequest): string | undefined {
  return request[kNextNonce]
}
