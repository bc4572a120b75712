import { errorBody } from '../guard/error-body.ts'
import type { ErrorBodyForm } from '../guard/error-body.ts'
import { REFUSALS } from '../refusal.ts'
import type { RefusalKind, RefusalReason } from '../refusal.ts'
import type { DpopMode } from '../settings/settings.ts'
import type { JsonSchema, Response } from './document.ts'

/** What decides how refused requests are answered. */
export interface RefusalPolicy {
  readonly mode: DpopMode
  readonly nonces: boolean
  /** Whether requests of one client are limited. */
  readonly rateLimit: boolean
  /** Whether a client has a share of the store of used proofs, and no more. */
  readonly replayShare: boolean
  readonly errorBody: ErrorBodyForm
}

const string = { type: 'string' } as const

/** The schemas of error bodies in the form that is served; `Refusal` is that of 401 and 403. */
export function errorSchemas (form: ErrorBodyForm): Record<'Refusal' | 'Failure', JsonSchema> {
  const object = (properties: Record<string, JsonSchema>): JsonSchema => ({ type: 'object', required: Object.keys(properties), properties })
  if (form === 'detailed') return { Refusal: object({ error: string, message: string, details: string }), Failure: object({ detail: string }) }
  const body = object({ statusCode: { type: 'integer' }, error: string, message: string })
  return { Refusal: body, Failure: body }
}

/** The answers that any guarded route may give instead of its own, with an example for each reason that can occur. */
export function refusalResponses (policy: RefusalPolicy): Record<string, Response> {
  const challenges = {
    'WWW-Authenticate': { description: 'The challenges of the schemes that are accepted, in one line (RFC 6750, RFC 9449 section 7.1).', required: true, schema: string }
  }
  const nonce = policy.nonces && {
    'DPoP-Nonce': { description: 'The nonce that the next proof must hold; present with the error use_dpop_nonce (RFC 9449 section 8).', schema: string }
  }
  const retryAfter = {
    'Retry-After': { description: 'Seconds to wait.', required: true, schema: { type: 'integer', minimum: 1 } }
  }
  return {
    Unauthorized: answer(policy, 401, 'No credentials, or credentials that do not pass.', { ...challenges, ...nonce }),
    Forbidden: answer(policy, 403, 'The token is valid and lacks a scope that this resource needs.', challenges),
    ...((policy.rateLimit || policy.replayShare) && { TooManyRequests: answer(policy, 429, 'The client has sent as many requests as it may for now.', retryAfter) }),
    Unavailable: answer(policy, 503, 'The request could not be decided, or the service is overloaded. It may be sent again.', retryAfter)
  }
}

function answer (policy: RefusalPolicy, status: RefusalKind['status'], description: string, headers: Response['headers']): Response {
  const reasons = (Object.keys(REFUSALS) as RefusalReason[]).filter(reason => REFUSALS[reason].status === status && canOccur(reason, policy))
  return {
    description,
    headers,
    content: {
      'application/json': {
        schema: { $ref: `#/components/schemas/${status === 401 || status === 403 ? 'Refusal' : 'Failure'}` },
        examples: Object.fromEntries(reasons.map(reason => [reason, { value: errorBody(policy.errorBody, status, REFUSALS[reason].description) }]))
      }
    }
  }
}

function canOccur (reason: RefusalReason, { mode, nonces, rateLimit, replayShare }: RefusalPolicy): boolean {
  if (reason === 'rate_limited') return rateLimit
  if (reason === 'replay_share_exceeded') return replayShare
  const { error } = REFUSALS[reason]
  if (error === 'use_dpop_nonce') return nonces
  return mode !== 'DISABLED' || error !== 'invalid_dpop_proof'
}
