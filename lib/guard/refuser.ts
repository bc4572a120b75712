import { schemeSent } from './credentials.ts'
import type { Nonces } from './dpop/nonces.ts'
import { Refusal, type RefusalReason } from '../refusal.ts'
import type { RouteGuard } from './requirement/route-guard.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { refusedTokenOf } from './token/verified-tokens.ts'
import { spare, type AdmissibleRequest, type AdmissionOptions } from './admission.ts'
import type { Challenges } from './challenge.ts'
import type { Decisions } from './decisions.ts'
import type { Observing } from './observing.ts'

/** A request that can be refused, with the log that its lines go to. */
export interface RefusableRequest extends AdmissibleRequest {
  readonly log: { info (fields: object, sentence: string): void }
}

interface RefuserOptions<Request extends RefusableRequest> extends Pick<Surroundings, 'now'> {
  readonly challenges: Challenges
  readonly decisions: Decisions<Request>
  /** Counts refusals. Absent if metrics are off. */
  readonly tally: { refused (reason: RefusalReason, issuer: string | undefined, isObserved: boolean): void } | undefined
  readonly nonces: Nonces | undefined
  /** Absent if each refusal is enforced. */
  readonly observing: Observing | undefined
  /** All guards of the route of a request, if they are known. */
  readonly guardOf?: (request: Request) => RouteGuard | undefined
}

/**
 * Makes the function that gives a refusal its headers and its log line, and counts it. Any other error is a fault, and
 * is returned as it is. Returns undefined if the refusal is only observed.
 */
export function createRefuser<Request extends RefusableRequest> (
  { challenges, decisions, tally, nonces, observing, now, guardOf }: RefuserOptions<Request>
): AdmissionOptions<Request>['refuse'] {
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
    if (prepared.has(error)) return prepared.get(error)
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
      scheme: schemeSent(request.raw),
      requirement,
      guard: guardOf?.(request),
      nonce: nonces?.current(now()),
      retryAfterSeconds
    })
    const refusal = isObserved ? undefined : error.with({ headers })
    if (isObserved) spare(request, { status, reason }, headers['dpop-nonce'])
    prepared.set(error, refusal)
    return refusal
  }
}
