/**
 * The endpoints that a visitor can call, as the OpenAPI document of the API has them, so that routes of one's own are
 * among them: each with its path, with examples for parameters, and what it needs in words.
 */
export function endpointsOf ({ paths }) {
  return Object.entries(paths)
    .filter(([path, { get }]) => get?.tags?.[0] === 'API' && !(path.endsWith('/{path}') && paths[path.slice(0, -7)]))
    .map(([path, { get }]) => [path.replace(/\{(\w+)\}/g, (_part, name) => exampleOf(get, name)), needOf(get)])
}

function exampleOf ({ parameters = [] }, wanted) {
  const { example, schema } = parameters.find(({ name }) => name === wanted) ?? {}
  return encodeURIComponent(example ?? schema?.examples?.[0] ?? '7')
}

function needOf ({ security = [], 'x-requirements': further = [] }) {
  if (security.length === 0) return 'open to everyone'
  const sets = [
    ...new Set(security.flatMap(Object.values).filter(scopes => scopes.length > 0).map(scopes => scopes.join(' and ')))
  ]
  const ages = further.flatMap(({ maxAgeSeconds }) =>
    maxAgeSeconds === undefined ? [] : [`a login of the last ${maxAgeSeconds} seconds`]
  )
  return [...sets.length > 0 ? [sets.join(' or ')] : [], ...ages].join('; ') || 'a token'
}

/** What the attacks use: two endpoints for any token, those of the samples if they are there. */
export function targetsOf (endpoints, { anyToken, elsewhere }) {
  const paths = endpoints.filter(([, need]) => need !== 'open to everyone').sort(([, a], [, b]) =>
    Number(b === 'a token') - Number(a === 'a token')
  ).map(([path]) => path)
  const target = paths.includes(anyToken) ? anyToken : paths[0] ?? anyToken
  return {
    anyToken: target,
    elsewhere: paths.includes(elsewhere) ? elsewhere : paths.find(path => path !== target) ?? elsewhere
  }
}
