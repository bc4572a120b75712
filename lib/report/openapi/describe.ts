import { STATUS_CODES } from 'node:http'
import { offeredSchemes, type AuthScheme, type DpopMode } from '../../guard/credentials.ts'
import { TOOL_CALL } from '../../gate/mcp-methods.ts'
import type { GateRule } from '../../gate/rule.ts'
import type { Requirement } from '../../guard/requirement/requirement.ts'
import {
  isOptional,
  phrasesOf,
  requirementJson,
  scopeAlternatives,
  scopesOf,
  type RouteGuard
} from '../../guard/requirement/route-guard.ts'
import type { Settings } from '../../settings/settings.ts'
import type { DescribedRule, OpenapiDocument, Operation, Response } from './document.ts'
import { errorSchemas, guardStatuses, REFUSED, refusalResponses } from './refused.ts'

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

const BOUND_TO_CERTIFICATE =
  ' A token that is bound to a client certificate is accepted only over a connection with that certificate (RFC 8705).'

/** The text that @fastify/swagger writes for an answer whose schema has no description. */
const UNDESCRIBED = 'Default Response'

export const SCHEMES: Record<
  AuthScheme,
  (settings: Settings) => OpenapiDocument['components']['securitySchemes'][string]
> = {
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
        ? { DPoP: { ...PROOF_HEADER, required: dpopMode === 'REQUIRED', schema: { type: 'string', maxLength: 8192 } } }
        : {},
      responses: refusalResponses(settings),
      schemas: errorSchemas(settings.api.errorBody)
    }
  }
}

/** Describes the rules of a gate for its clients, in their order. */
export function describeRules (rules: readonly GateRule[]): readonly DescribedRule[] {
  return rules.map(({ path, methods, mcp, requirement, audiences }) => ({
    path,
    methods,
    messages: mcp?.tools?.map(tool => `${TOOL_CALL} ${tool}`) ?? mcp?.methods ?? (mcp && ['all others']),
    needs: requirement
      ? describeGuard([requirement], undefined).description +
        (audiences ? ` The token is for the audience ${audiences.map(name => `\`${name}\``).join(' or ')}.` : '')
      : 'Nothing: no token is looked at.'
  }))
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
      ...isWild &&
        {
          params: {
            type: 'object',
            properties: { path: { type: 'string', description: 'The rest of the path.', examples: ['7'] } }
          }
        },
      ...schema,
      ...guard && describeGuard(guard, schema.description),
      security: guard ? securityOf(guard, dpopMode) : []
    }
  }
}

/** The parts of a schema by which Fastify refuses a request with 400. */
const JUDGED = ['body', 'querystring', 'query', 'params', 'headers']

/**
 * Adds to an operation the answers that the guard may give first, that of a request that does not fit the route's
 * schema, and the proof that belongs to a token.
 */
export function addGuardAnswers (
  operation: Operation,
  { guard, essential, schema }: Pick<DescribedRoute, 'guard' | 'essential' | 'schema'>,
  settings: Settings
): void {
  for (const [status, response] of Object.entries(operation.responses as Record<string, Response>)) {
    operation.responses[status] = { ...response, description: describedAs(response, status) }
  }
  for (const status of guard ? guardStatuses(guard, settings) : essential ? [] : [503] as const) {
    operation.responses[status] = { $ref: `#/components/responses/${REFUSED[status].name}` }
  }
  if (JUDGED.some(part => schema[part] !== undefined)) {
    operation.responses[400] ??= {
      description: 'The request does not fit the schema of this operation.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Failure' } } }
    }
  }
  if (guard && settings.idp.dpopMode !== 'DISABLED') {
    operation.parameters = [...operation.parameters ?? [], { $ref: '#/components/parameters/DPoP' }]
  }
}

function describedAs ({ description }: Response, status: string): string {
  return description === UNDESCRIBED ? STATUS_CODES[status]! : description
}

/**
 * Any one entry is enough. The empty entry stands for a request without credentials.
 * @param areScopesNamed whether the document can name scopes there
 */
export function securityOf (
  guard: RouteGuard,
  mode: DpopMode,
  areScopesNamed = true
): NonNullable<Operation['security']> {
  const sets = areScopesNamed ? scopeAlternatives(guard) : [[]]
  const needed = offeredSchemes(mode).flatMap(scheme => sets.map(scopes => ({ [scheme]: scopes })))
  return isOptional(guard) ? [{}, ...needed] : needed
}

/**
 * `security` cannot express all requirements. The description has the others for people, and `x-requirements` has them
 * for programs.
 * @param areScopesNamed whether `security` names the scopes
 */
export function describeGuard (
  guard: RouteGuard,
  description: unknown,
  areScopesNamed = true
): { description: string, 'x-requirements'?: object[] } {
  const asksForMore = (requirement: Requirement) =>
    phrasesOf(requirement).length > 0 || (!areScopesNamed && scopesOf(requirement).length > 0)
  // A guard that is told as a whole has its plain requirements too: beside one, no other is optional.
  const further = !areScopesNamed && guard.some(asksForMore)
    ? guard
    : guard.filter(requirement => requirement.optional || asksForMore(requirement))
  const words = [
    description ?? describeScopes(guard),
    isOptional(guard) ? 'A request without credentials passes too.' : '',
    furtherNeeds(guard)
  ]
  return {
    description: words.filter(Boolean).join(' '),
    ...further.length > 0 && { 'x-requirements': further.map(requirementJson) }
  }
}

function describeScopes (guard: RouteGuard): string {
  const sets = scopeAlternatives(guard).filter(set => set.length > 0).map(set =>
    set.map(scope => `\`${scope}\``).join(' and ')
  )
  return sets.length === 0 ? 'Needs a valid access token.' : `Needs a valid access token with ${sets.join(', or ')}.`
}

function furtherNeeds (guard: RouteGuard): string {
  const phrases = guard.flatMap(phrasesOf)
  return phrases.length === 0 ? '' : `The token also needs ${phrases.join(', and ')}.`
}

function operationId (method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter(word => word !== '')
  return method.toLowerCase() + words.map(word => word[0]!.toUpperCase() + word.slice(1)).join('')
}
