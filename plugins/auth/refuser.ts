import type { FastifyInstance, FastifyRequest } from 'fastify'
import { schemeOf } from '../../lib/credentials.ts'
import type { Nonces } from '../../lib/dpop/nonces.ts'
import type { AdmissionOptions } from '../../lib/guard/admission.ts'
import type { Challenges } from '../../lib/guard/challenge.ts'
import type { Decisions } from '../../lib/guard/decisions.ts'
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
}

/**
 * Makes the function that gives a refusal its headers and its log line. Any other error is a fault and becomes a 500.
 */
export function createRefuser (
  { challenges, decisions, tally, nonces, now }: RefuserOptions
): AdmissionOptions<FastifyRequest>['refuse'] {
  /**
   * Each refusal with its headers. The calls of one handler share a check and its refusal, which is logged and counted
   * once.
   */
  const prepared = new WeakMap<Refusal, Refusal>()

  return function refuse (request, error, requirement) {
    if (!(error instanceof Refusal)) {
      decisions.refused(request, { reason: 'fault', status: 500, token: refusedTokenOf(error) })
      return error
    }
    const known = prepared.get(error)
    if (known) return stand(request, known)
    const { reason, detail, retryAfterSeconds, issuer } = error
    tally?.refused(reason, issuer)
    request.log.info({ reason, route: decisions.routeOf(request).route, issuer, ...detail }, 'request refused')
    const headers = challenges(reason, {
      scheme: schemeOf(request.headers.authorization),
      requirement,
      guard: (request.routeOptions.config as MayHaveGuard)[kRouteGuard],
      nonce: nonces?.current(now()),
      retryAfterSeconds
    })
    const refusal = error.with({ headers })
    prepared.set(error, refusal)
    decisions.refused(request, { reason, status: error.statusCode, token: refusedTokenOf(error) })
    return stand(request, refusal)
  }
}

/** Fastify sends the headers of an error with its own answer only. */
function stand ({ [kReply]: reply }: FastifyRequest, refusal: Refusal): Refusal {
  if (reply) putRefusalHeaders(reply, refusal.headers!)
  return refusal
}
