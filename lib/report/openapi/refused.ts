import type { RouteGuard } from '../../guard/requirement/route-guard.ts'
import type { Requirement } from '../../guard/requirement/requirement.ts'
import { errorBody, REFUSALS, type ErrorBodyForm, type RefusalReason } from '../../refusal.ts'
import type { Settings } from '../../settings/settings.ts'
import type { Response } from './document.ts'

/** Each answer of a guard: the name of its component, and what it means. */
export const REFUSED = {
  401: { name: 'Unauthorized', description: 'The credentials are missing or were refused.' },
  403: { name: 'Forbidden', description: 'The token is valid, but it lacks something that this resource needs.' },
  429: { name: 'TooManyRequests', description: 'The client has sent as many requests as it may for now.' },
  503: {
    name: 'Unavailable',
    description:
      'The service could not decide about the request, or it is overloaded. The client can send the request again.'
  }
} as const

type Status = keyof typeof REFUSED

/** The statuses by which a guard may refuse a request. */
export function guardStatuses (guard: RouteGuard, settings: Settings): readonly Status[] {
  return [
    401,
    ...guard.some(mayForbid) ? [403] as const : [],
    ...reasonsOf(429, settings).length > 0 ? [429] as const : [],
    503
  ]
}

/** Whether a valid token may be refused with 403. */
function mayForbid ({ scope, anyScope, claims, authorizationDetails }: Requirement): boolean {
  return [scope, anyScope, claims, authorizationDetails].some(member => member !== undefined)
}

/** The reasons that can occur under these settings. */
function reasonsOf (status: Status, { idp, dpop, server }: Settings): readonly RefusalReason[] {
  const isDpop = idp.dpopMode !== 'DISABLED'
  return (Object.keys(REFUSALS) as RefusalReason[]).filter(reason =>
    REFUSALS[reason].status === status && canOccur(reason)
  )

  function canOccur (reason: RefusalReason) {
    if (reason.startsWith('certificate_')) return server.clientCertificate !== 'off'
    if (reason === 'token_not_sender_constrained') return server.securityProfile === 'fapi2'
    if (reason === 'rate_limited') return server.rateLimit !== undefined
    if (reason === 'replay_share_exceeded') return isDpop && dpop.replay === 'memory'
    const { error } = REFUSALS[reason]
    if (error === 'use_dpop_nonce') return isDpop && dpop.nonce === 'required'
    return isDpop || error !== 'invalid_dpop_proof'
  }
}

const string = { type: 'string' } as const

/** The schemas of error bodies in the configured form. `Refusal` is the schema for 401 and 403. */
export function errorSchemas (form: ErrorBodyForm): Record<'Refusal' | 'Failure', object> {
  const object = (properties: object) => ({
    type: 'object',
    required: Object.keys(properties),
    properties
  })
  if (form === 'detailed') {
    return { Refusal: object({ error: string, message: string, details: string }), Failure: object({ detail: string }) }
  }
  const body = object({ statusCode: { type: 'integer' }, error: string, message: string })
  return { Refusal: body, Failure: body }
}

export const CHALLENGES = {
  description: 'The challenges of the accepted schemes, in one line (RFC 6750, RFC 9449 section 7.1).'
}
export const RETRY_AFTER = { description: 'Seconds to wait before the next try.' }
const NONCE = {
  description: 'The nonce that the next proof must contain. Sent with the error use_dpop_nonce (RFC 9449 section 8).'
}

/** The answers that a guarded route may give in place of its own, with an example for each reason that can occur. */
export function refusalResponses (settings: Settings): Record<string, Response> {
  const challenges = { 'WWW-Authenticate': { ...CHALLENGES, required: true, schema: string } }
  const nonce = reasonsOf(401, settings).includes('nonce_missing') && { 'DPoP-Nonce': { ...NONCE, schema: string } }
  const retryAfter = { 'Retry-After': { ...RETRY_AFTER, required: true, schema: { type: 'integer', minimum: 1 } } }
  const headers = { 401: { ...challenges, ...nonce }, 403: challenges, 429: retryAfter, 503: retryAfter }
  const answers = ([401, 403, 429, 503] as const).map(status => ({ status, reasons: reasonsOf(status, settings) }))
  return Object.fromEntries(
    answers.filter(({ reasons }) => reasons.length > 0).map(({ status, reasons }) => [REFUSED[status].name, {
      description: REFUSED[status].description,
      headers: headers[status],
      content: {
        'application/json': {
          schema: { $ref: `#/components/schemas/${status === 401 || status === 403 ? 'Refusal' : 'Failure'}` },
          examples: Object.fromEntries(
            reasons.map(
              reason => [reason, { value: errorBody(settings.api.errorBody, status, REFUSALS[reason].description) }]
            )
          )
        }
      }
    }])
  )
}
