import { offeredSchemes, type AuthScheme } from '../../guard/credentials.ts'
import { isOptional, type RouteGuard } from '../../guard/requirement/route-guard.ts'
import type { Settings } from '../../settings/settings.ts'
import { describeGuard, PROOF_HEADER, SCHEMES, securityOf } from './describe.ts'
import type { Operation, Response } from './document.ts'
import { CHALLENGES, guardStatuses, REFUSED, RETRY_AFTER } from './refused.ts'

/** The member by which an operation names its guard until the guard is described. */
const GUARD_MARK = 'x-holdfast-guard'

/** An operation of any version. What the app says in it is kept. */
type AppOperation = Partial<Operation> & { [GUARD_MARK]?: string }

/** A document that another package has made: Swagger 2.0, or OpenAPI of any version. */
export interface AppDocument {
  readonly openapi?: string
  readonly paths?: Record<string, Record<string, AppOperation>>
  components?: { securitySchemes?: Record<string, object> }
  securityDefinitions?: Record<string, object>
}

/**
 * Describes the guards in the document of an app: security, answers of the guard and the proof, for each operation that
 * names one of `guards`. It changes the document, and keeps what the app says itself.
 * @param guards by the value of `GUARD_MARK`
 * @returns whether there was anything to describe
 */
export function describeGuards (
  document: AppDocument,
  guards: ReadonlyMap<string, RouteGuard>,
  settings: Settings
): boolean {
  const marked = markedOperations(document, guards)
  for (const [operation, guard] of marked) describeOperation(operation, guard, document, settings)
  if (marked.size > 0) addSchemes(document, settings)
  return marked.size > 0
}

/** Takes the marks off. HEAD is guarded like GET, but @fastify/swagger copies its operation before it is marked. */
function markedOperations (
  { paths = {} }: AppDocument,
  guards: ReadonlyMap<string, RouteGuard>
): ReadonlyMap<AppOperation, RouteGuard> {
  const marked = new Map<AppOperation, RouteGuard>()
  for (const path of Object.values(paths)) {
    for (const [method, operation] of Object.entries(path)) {
      const guard = guards.get(String(operation[GUARD_MARK] ?? (method === 'head' && path.get?.[GUARD_MARK])))
      if (guard) marked.set(operation, guard)
    }
  }
  for (const operation of marked.keys()) delete operation[GUARD_MARK]
  return marked
}

/** Only OpenAPI 3.1 allows scopes for schemes of HTTP. */
const namesScopes = ({ openapi = '2' }: AppDocument) => !/^(?:2|3\.0)/.test(openapi)

function describeOperation (
  operation: AppOperation,
  guard: RouteGuard,
  document: AppDocument,
  settings: Settings
) {
  const areScopesNamed = namesScopes(document)
  Object.assign(operation, describeGuard(guard, operation.description, areScopesNamed))
  operation.security ??= securityOf(guard, settings.idp.dpopMode, areScopesNamed)
  operation.responses = { ...operation.responses }
  for (const status of guardStatuses(guard, settings)) {
    operation.responses[status] ??= { description: REFUSED[status].description, headers: headersOf(status, document) }
  }
  const parameters = operation.parameters ?? []
  if (
    settings.idp.dpopMode === 'DISABLED' ||
    parameters.some(({ name }) => String(name).toLowerCase() === 'dpop')
  ) return
  operation.parameters = [...parameters, {
    ...PROOF_HEADER,
    required: settings.idp.dpopMode === 'REQUIRED' && !isOptional(guard),
    ...typed('string', document)
  }]
}

function headersOf (status: keyof typeof REFUSED, document: AppDocument): NonNullable<Response['headers']> {
  if (status === 401 || status === 403) return { 'WWW-Authenticate': { ...CHALLENGES, ...typed('string', document) } }
  return { 'Retry-After': { ...RETRY_AFTER, ...typed('integer', document) } }
}

/** A parameter of Swagger 2.0 has a type, one of OpenAPI a schema. The types here describe the latter. */
function typed (type: 'string' | 'integer', { openapi }: AppDocument): { schema: { type: string } } {
  return (openapi === undefined ? { type } : { schema: { type } }) as { schema: { type: string } }
}

function addSchemes (document: AppDocument, settings: Settings) {
  const schemes = offeredSchemes(settings.idp.dpopMode).map(scheme =>
    [scheme, schemeOf(scheme, document, settings)] as const
  )
  if (document.openapi === undefined) {
    document.securityDefinitions = { ...Object.fromEntries(schemes), ...document.securityDefinitions }
  } else {
    document.components = {
      ...document.components,
      securitySchemes: { ...Object.fromEntries(schemes), ...document.components?.securitySchemes }
    }
  }
}

/** Swagger 2.0 knows no scheme of HTTP but Basic. */
function schemeOf (scheme: AuthScheme, { openapi }: AppDocument, settings: Settings): object {
  const described = SCHEMES[scheme](settings)
  return openapi === undefined
    ? { type: 'apiKey', name: 'Authorization', in: 'header', description: described.description }
    : described
}
