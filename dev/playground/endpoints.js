/** What the attacks use: two endpoints for any token, those of the samples if they are there. */
export function targetsOf (endpoints, { anyToken, elsewhere }) {
  const paths = endpoints.filter(([, need, method = 'GET']) => need !== 'open to everyone' && method === 'GET').sort((
    [, a],
    [, b]
  ) => Number(b === 'a token') - Number(a === 'a token')).map(([path]) => path)
  const target = paths.includes(anyToken) ? anyToken : paths[0] ?? anyToken
  return {
    anyToken: target,
    elsewhere: paths.includes(elsewhere) ? elsewhere : paths.find(path => path !== target) ?? elsewhere
  }
}
