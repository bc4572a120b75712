import type { FoundRoute } from '../../cli/route-lookup.ts'
import type { OpenapiDocument, Operation } from '../../lib/openapi/document.ts'
import { parseRequirement } from '../../lib/requirement/requirement.ts'
import type { Requirement, RequirementOptions } from '../../lib/requirement/requirement.ts'

/**
 * What the OpenAPI document of the API says of a request, for routes that the lookup does not load: those outside
 * routes/api. Undefined if the document does not have the route, or cannot say all that it needs.
 */
export function describedRoute (
  { paths }: Pick<OpenapiDocument, 'paths'>,
  method: string,
  target: string
): FoundRoute | undefined {
  const path = target.split('?', 1)[0]!
  const found = Object.entries(paths).find(([pattern]) => fits(pattern, path))
  const operation = found?.[1][method.toLowerCase()]
  if (!operation) return undefined
  if ((operation.security ?? []).length === 0) return { kind: 'open' }
  const requirements = requirementsIn(operation)
  return requirements && { kind: 'guarded', requirements }
}

function fits (pattern: string, path: string): boolean {
  const [wanted, given] = [pattern, path].map(text => text.split('/'))
  return wanted!.length === given!.length && wanted!.every((part, at) => part.startsWith('{') || part === given![at])
}

/** A function of the route stands in the document as this word, and what it accepts is not known. */
const PREDICATE = '"predicate"'

function requirementsIn (
  { security = [], 'x-requirements': further = [] }: Operation
): readonly Requirement[] | undefined {
  if (JSON.stringify(further).includes(PREDICATE)) return undefined
  const sets = new Map(security.flatMap(Object.values).map(scopes => [scopes.join(' '), scopes]))
  const [first = [], ...others] = sets.values()
  // Each set is enough. Sets of several scopes come from several guards, and only these know how they were combined.
  if (others.length > 0 && [first, ...others].some(({ length }) => length !== 1)) return undefined
  const scopes: RequirementOptions = others.length > 0
    ? { anyScope: [first, ...others].flat() }
    : first.length > 0
      ? { scope: first }
      : {}
  const more = further.map(requirement => {
    const { scope, anyScope, ...rest } = requirement as RequirementOptions
    return rest
  })
  // A request without credentials passes only if each guard lets it pass.
  const isOptional = security.some(scheme => Object.keys(scheme).length === 0)
  return [scopes, ...more].map(one => parseRequirement({ ...one, ...isOptional && { optional: true } }))
}
