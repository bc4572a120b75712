import type { FastifyInstance, FastifyRequest } from 'fastify'
import { schemeOf } from '../../lib/credentials.ts'
import type { Nonces } from '../../lib/dpop/nonces.ts'
import { spare } from '../../lib/guard/admission.ts'
import type { AdmissionOptions } from '../../lib/guard/admission.ts'
import type { Challenges } from '../../lib/guard/challenge.ts'
import type { Decisions } from '../../lib/guard/decisions.ts'
import type { Observing } from '../../lib/guard/observing.ts'
import type { GuardTally } from '../../lib/metrics/tallies.ts'
import { Refusal } from '../../lib/refusal.ts'
import { kRouteGuard } from '../../lib/requirement/route-guard.ts'
import type { MayHaveGuard } from '../../lib/requirement/route-guard.ts'
import type { Surroundings } from '../../lib/surroundings.ts'
import { refusedTokenOf } from '../../lib/token/verified-tokens.ts'
import { putRefusalHeaders } from '../../server/refusal-headers.ts'
import type { AnswerInWaiting } from '../../server/refusal-headers.ts'

const kReply = Symbol('holdfast.reply')

declare module 'fastify' {
  interface FastifyRequest {
    /** @internal */
    [kReply]: AnswerInWaiting | null
  }
}

/** A guard in a handler has no reply at hand. */
export function keepReplies (app: FastifyInstance): void {
  app.decorateRequest(kReply, null)
  app.addHook('onRequest', (request, reply, done) => {
    request[kReply] = reply
    done()
  })
}

export interface RefuserOptions extends Pick<Surroundings, 'now'> {
  readonly challenges: Challenges
  readonly decisions: Decisions<FastifyRequest>
  readonly tally: GuardTally | undefined
  readonly nonces: Nonces | undefined
  /** Undefined if each refusal is enforced. */
  readonly observing: Observing | undefined
}

/**
 * Makes the function that gives a refusal its headers and its log line. Any other error is a fault and becomes a 500.
 */
export function createRefuser (
  { challenges, decisions, tally, nonces, observing, now }: RefuserOptions
): AdmissionOptions<FastifyRequest>['refuse'] {
  /**
   * Each refusal with its headers. The calls of one handler share a check and its refusal, which is logged and counted
   * once.
   */
  const prepared = new WeakMap<Refusal, Refusal | undefined>()

  return function refuse (request, error, requirement) {
    if (!(error instanceof Refusal)) {
      decisions.refused(request, { reason: 'fault', status: 500, token: refusedTokenOf(error) })
      return error
    }
    if (prepared.has(error)) return stand(request, prepared.get(error))
    const { reason, detail, retryAfterSeconds, issuer, statusCode: status } = error
    const isObserved = observing?.spares(request) === true
    tally?.refused(reason, issuer, isObserved)
    const { route } = decisions.routeOf(request)
    request.log.info(
      { reason, ...isObserved && { enforced: false, status }, route, issuer, ...detail },
      isObserved ? 'request would be refused' : 'request refused'
    )
    decisions.refused(request, { reason, status, isObserved, token: refusedTokenOf(error) })
    const headers = challenges(reason, {
      scheme: schemeOf(request.headers.authorization),
      requirement,
      guard: (request.routeOptions.config as MayHaveGuard)[kRouteGuard],
      nonce: nonces?.current(now()),
      retryAfterSeconds
    })
    const refusal = isObserved ? undefined : error.with({ headers })
    if (isObserved) spare(request, { status, reason }, headers['dpop-nonce'])
    prepared.set(error, refusal)
    return stand(request, refusal)
  }
}

/** Fastify sends the headers of an error with its own answer only. */
function stand ({ [kReply]: reply }: FastifyRequest, refusal: Refusal | undefined): Refusal | undefined {
  if (reply && refusal) putRefusalHeaders(reply, refusal.headers!)
  return refusal
}
