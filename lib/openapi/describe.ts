import { STATUS_CODES } from 'node:http'
import { offeredSchemes } from '../credentials.ts'
import { isOptional, phrasesOf, requirementJson, scopeAlternatives } from '../requirement/route-guard.ts'
import type { RouteGuard } from '../requirement/route-guard.ts'
import type { Requirement } from '../requirement/requirement.ts'
import { errorBody, REFUSALS } from '../refusal.ts'
import type { ErrorBodyForm, RefusalReason } from '../refusal.ts'
import type { AuthScheme, DpopMode } from '../credentials.ts'
import type { Settings } from '../settings/settings.ts'
import type { Components, JsonSchema, OpenapiDocument, Operation, Response } from './document.ts'

/** A route as it was registered. */
export interface DescribedRoute {
  readonly method: string
  /** Path pattern. A wildcard may be at its end. */
  readonly url: string
  readonly guard: RouteGuard | undefined
  /** Whether the route answers even under overload. */
  readonly essential: boolean
  /** The route's own schema. */
  readonly schema: Readonly<Record<string, unknown>>
}

const string = { type: 'string' } as const

const BOUND_TO_CERTIFICATE =
  ' A token that is bound to a client certificate is accepted only over a connection with that certificate (RFC 8705).'

/** The text that @fastify/swagger writes for an answer whose schema has no description. */
const UNDESCRIBED = 'Default Response'

export const SCHEMES: Record<AuthScheme, (settings: Settings) => Components['securitySchemes'][string]> = {
  Bearer: ({ server: { clientCertificate } }) => ({
    type: 'http',
    scheme: 'bearer',
    description: 'A JWT access token from the identity provider (RFC 6750).' +
      (clientCertificate === 'off' ? '' : BOUND_TO_CERTIFICATE)
  }),
  DPoP: ({ dpop: { algs } }) => ({
    type: 'http',
    scheme: 'DPoP',
    description:
      'An access token that is bound to a key of the client, with a proof made with that key in the DPoP header ' +
      `(RFC 9449). Accepted algorithms of proofs: ${algs.join(', ')}.`
  })
}

export const PROOF_HEADER = {
  name: 'DPoP',
  in: 'header',
  description:
    'A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC ' +
    '9449 section 4).'
} as const

/** The parts of the document that follow only from settings. */
export function describeService (version: string, settings: Settings): OpenapiDocument {
  const { dpopMode } = settings.idp
  const schemes = offeredSchemes(dpopMode)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Holdfast',
      version,
      license: { name: 'MIT', identifier: 'MIT' },
      description: 'A small JSON API whose protected resources accept only access tokens of the configured identity ' +
        'providers. Each security scheme lists the scopes that it needs. HEAD works wherever GET does.'
    },
    tags: [
      { name: 'API', description: 'Resources, public and protected.' },
      { name: 'Discovery', description: 'What clients can find out by themselves.' },
      { name: 'Operation', description: 'For load balancers and operators.' },
      ...settings.revocation
        ? [{ name: 'Revocation', description: 'Where transmitters, providers and operators say what is taken back.' }]
        : []
    ],
    paths: {},
    components: {
      securitySchemes: Object.fromEntries(schemes.map(scheme => [scheme, SCHEMES[scheme](settings)])),
      parameters: schemes.includes('DPoP')
        ? { DPoP: { ...PROOF_HEADER, required: dpopMode === 'REQUIRED', schema: { ...string, maxLength: 8192 } } }
        : {},
      responses: refusalResponses(settings),
      schemas: errorSchemas(settings.api.errorBody)
    }
  }
}

/** What the route's guard, method and path add to an operation, beside its own schema. */
export function describeRoute (
  { method, url, guard, schema }: DescribedRoute,
  { idp: { dpopMode } }: Settings
): { url: string, schema: Record<string, unknown> } {
  const isWild = url.endsWith('/*')
  const path = isWild ? `${url.slice(0, -1)}{path}` : url
  return {
    url: path,
    schema: {
      operationId: operationId(method, path),
      summary: url.slice(url.lastIndexOf('/', isWild ? url.length - 3 : undefined) + 1),
      tags: ['API'],
      ...(isWild &&
        {
          params: {
            type: 'object',
            properties: { path: { type: 'string', description: 'The rest of the path.', examples: ['7'] } }
          }
        }),
      ...schema,
      ...(guard && describeGuard(guard, schema.description)),
      security: guard ? securityOf(guard, dpopMode) : []
    }
  }
}

/** Adds to an operation the answers that the guard may give first, and the proof that belongs to a token. */
export function addGuardAnswers (
  operation: Operation,
  { guard, essential }: Pick<DescribedRoute, 'guard' | 'essential'>,
  settings: Settings
): void {
  for (const [status, response] of Object.entries(operation.responses as Record<string, Response>)) {
    operation.responses[status] = { ...response, description: describedAs(response, status) }
  }
  for (const status of guard ? guardStatuses(guard, settings) : essential ? [] : [503] as const) {
    operation.responses[status] = { $ref: `#/components/responses/${REFUSED[status].name}` }
  }
  if (guard && settings.idp.dpopMode !== 'DISABLED') {
    operation.parameters = [...operation.parameters ?? [], { $ref: '#/components/parameters/DPoP' }]
  }
}

/** The statuses by which a guard may refuse a request. */
export function guardStatuses (guard: RouteGuard, settings: Settings): ReadonlyArray<keyof typeof REFUSED> {
  return [
    401,
    ...(guard.requirements.some(mayForbid) ? [403] as const : []),
    ...(mayLimit(settings) ? [429] as const : []),
    503
  ]
}

/** Whether a client may be limited: its requests, or its share of the replay store. */
function mayLimit (settings: Settings): boolean {
  return settings.server.rateLimit !== undefined || hasReplayShares(settings)
}

function hasReplayShares ({ idp, dpop }: Settings): boolean {
  return idp.dpopMode !== 'DISABLED' && dpop.replay === 'memory'
}

function hasNonces ({ idp, dpop }: Settings): boolean {
  return idp.dpopMode !== 'DISABLED' && dpop.nonce === 'required'
}

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

function describedAs ({ description }: Response, status: string): string {
  return description === UNDESCRIBED ? STATUS_CODES[status]! : description
}

/** Whether a valid token may be refused with 403. */
function mayForbid ({ scope, anyScope, claims, authorizationDetails }: Requirement): boolean {
  return [scope, anyScope, claims, authorizationDetails].some(member => member !== undefined)
}

/** Any one entry is enough. The empty entry stands for a request without credentials. */
export function securityOf (guard: RouteGuard, mode: DpopMode): NonNullable<Operation['security']> {
  const needed = offeredSchemes(mode).flatMap(scheme => scopeAlternatives(guard).map(scopes => ({ [scheme]: scopes })))
  return isOptional(guard) ? [{}, ...needed] : needed
}

/**
 * `security` cannot express all requirements. The description has the others for people, and `x-requirements` has them
 * for programs.
 */
export function describeGuard (guard: RouteGuard, description: unknown): object {
  const further = guard.requirements.filter(requirement => requirement.optional || phrasesOf(requirement).length > 0)
  if (further.length === 0) return description === undefined ? { description: describeScopes(guard) } : {}
  const words = [
    description ?? describeScopes(guard),
    isOptional(guard) ? 'A request without credentials passes too.' : '',
    furtherNeeds(guard)
  ]
  return { description: words.filter(Boolean).join(' '), 'x-requirements': further.map(requirementJson) }
}

function describeScopes (guard: RouteGuard): string {
  const sets = scopeAlternatives(guard).filter(set => set.length > 0).map(set =>
    set.map(scope => `\`${scope}\``).join(' and ')
  )
  return sets.length === 0 ? 'Needs a valid access token.' : `Needs a valid access token with ${sets.join(', or ')}.`
}

function furtherNeeds ({ requirements }: RouteGuard): string {
  const phrases = requirements.flatMap(phrasesOf)
  return phrases.length === 0 ? '' : `The token also needs ${phrases.join(', and ')}.`
}

function operationId (method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter(word => word !== '')
  return method.toLowerCase() + words.map(word => word[0]!.toUpperCase() + word.slice(1)).join('')
}

/** The schemas of error bodies in the configured form. `Refusal` is the schema for 401 and 403. */
function errorSchemas (form: ErrorBodyForm): Record<'Refusal' | 'Failure', JsonSchema> {
  const object = (properties: Record<string, JsonSchema>): JsonSchema => ({
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

/** The answers that a guarded route may give in place of its own, with an example for each reason that can occur. */
function refusalResponses (settings: Settings): Record<string, Response> {
  const challenges = { 'WWW-Authenticate': { ...CHALLENGES, required: true, schema: string } }
  const nonce = hasNonces(settings) && {
    'DPoP-Nonce': {
      description:
        'The nonce that the next proof must contain. Sent with the error use_dpop_nonce (RFC 9449 section 8).',
      schema: string
    }
  }
  const retryAfter = { 'Retry-After': { ...RETRY_AFTER, required: true, schema: { type: 'integer', minimum: 1 } } }
  return {
    Unauthorized: answer(settings, 401, { ...challenges, ...nonce }),
    Forbidden: answer(settings, 403, challenges),
    ...(mayLimit(settings) && { TooManyRequests: answer(settings, 429, retryAfter) }),
    Unavailable: answer(settings, 503, retryAfter)
  }
}

function answer (settings: Settings, status: keyof typeof REFUSED, headers: Response['headers']): Response {
  const reasons = (Object.keys(REFUSALS) as RefusalReason[]).filter(reason =>
    REFUSALS[reason].status === status && canOccur(reason, settings)
  )
  return {
    description: REFUSED[status].description,
    headers,
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
  }
}

function canOccur (reason: RefusalReason, settings: Settings): boolean {
  const { clientCertificate, securityProfile, rateLimit } = settings.server
  if (reason.startsWith('certificate_')) return clientCertificate !== 'off'
  if (reason === 'token_not_sender_constrained') return securityProfile === 'fapi2'
  if (reason === 'rate_limited') return rateLimit !== undefined
  if (reason === 'replay_share_exceeded') return hasReplayShares(settings)
  const { error } = REFUSALS[reason]
  if (error === 'use_dpop_nonce') return hasNonces(settings)
  return settings.idp.dpopMode !== 'DISABLED' || error !== 'invalid_dpop_proof'
}
