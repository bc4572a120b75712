import type { OpenapiDocument, Operation } from '../../lib/report/openapi/document.ts'
import { exampleRequest } from '../../routes/docs/curl-example.ts'
import { scopeSets } from '../../routes/docs/docs-page-operation.ts'
import type { Endpoint } from './samples.ts'

const OPEN = 'open to everyone'
const METHODS = ['get', 'post'] as const

/**
 * The endpoints that a visitor can call, as the OpenAPI document of the API has them, so that routes of one's own are
 * among them: each GET, and each POST without a body or with one in JSON, with the examples of the document.
 */
export function endpointsOf (document: OpenapiDocument): readonly Endpoint[] {
  return Object.entries(document.paths).flatMap(([path, operations]) => {
    // It differs from the path before it only in what follows.
    if (path.endsWith('/{path}') && document.paths[path.slice(0, -'/{path}'.length)]) return []
    return METHODS.flatMap((name): Endpoint[] => {
      const operation = operations[name]
      if (operation?.tags?.[0] !== 'API') return []
      const method = name.toUpperCase()
      const { target, body } = exampleRequest(document, { method, path, operation })
      if (body !== undefined && body.type !== 'application/json') return []
      const endpoint = [target, needOf(operation), method] as const
      return [body ? [...endpoint, body.text] : endpoint]
    })
  })
}

function needOf ({ security = [], 'x-requirements': further = [] }: Operation): string {
  if (security.length === 0) return OPEN
  const sets = scopeSets(security)
  const ages = (further as ReadonlyArray<{ maxAgeSeconds?: number }>).flatMap(({ maxAgeSeconds }) =>
    maxAgeSeconds === undefined ? [] : [`a login of the last ${maxAgeSeconds} seconds`]
  )
  return [...sets.length > 0 ? [sets.join(' or ')] : [], ...ages].join('; ') || 'a token'
}
