import t from 'tap'
import { describedRoute } from '../../dev/serve/described-route.ts'
import { describeRoute } from '../../lib/openapi/describe.ts'
import type { Operation } from '../../lib/openapi/document.ts'
import { parseRequirement } from '../../lib/requirement/requirement.ts'
import type { RequirementOptions } from '../../lib/requirement/requirement.ts'
import { readSettings } from '../../holdfast.ts'

const settings = await readSettings({ IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' })

/** What is read back from the description of a route with these guards; undefined if it cannot be. */
function readBack (...guard: readonly RequirementOptions[]): readonly object[] | undefined {
  const { schema } = describeRoute({
    method: 'GET',
    url: '/x',
    guard: guard.map(parseRequirement),
    schema: {}
  } as unknown as Parameters<typeof describeRoute>[0], settings)
  const found = describedRoute({ paths: { '/x': { get: schema as unknown as Operation } } }, 'GET', '/x?page=1')
  return found?.kind === 'guarded' ? found.requirements : undefined
}

t.test('What a route needs is read from its description.', async t => {
  t.strictSame(readBack({}), [{}])
  t.strictSame(readBack({ maxAgeSeconds: 60 }), [{}, { maxAgeSeconds: 60 }])
  t.strictSame(readBack({ scope: ['a', 'b'] }), [{ scope: ['a', 'b'] }])
  t.strictSame(readBack({ anyScope: ['a', 'b'] }), [{ anyScope: ['a', 'b'] }])
  t.strictSame(readBack({ scope: 'a', acr: 'high' }, { claims: { tenant: 'blue' } }), [
    { scope: ['a'] },
    { acr: ['high'] },
    { claims: [{ name: 'tenant', allowed: ['blue'] }] }
  ])
  t.strictSame(readBack({ scope: 'a', optional: true }), [{ scope: ['a'], optional: true }, { optional: true }])
})

t.test('What the description cannot say is not guessed.', async t => {
  t.equal(readBack({ claims: { age: () => true } }), undefined, 'a function')
  t.equal(readBack({ scope: 'a' }, { anyScope: ['b', 'c'] }), undefined, 'sets that several guards make together')
})

t.test('A route is found by its path and method.', async t => {
  const security = [{ DPoP: [] }]
  const paths = {
    '/open': { get: { responses: {}, security: [] } },
    '/things/{id}': { get: { responses: {}, security } }
  }
  t.strictSame(describedRoute({ paths }, 'GET', '/open'), { kind: 'open' })
  t.hasStrict(describedRoute({ paths }, 'GET', '/things/7'), { kind: 'guarded' })
  for (const [method, target] of [['POST', '/open'], ['GET', '/things'], ['GET', '/things/7/8'], ['GET', '/none']]) {
    t.equal(describedRoute({ paths }, method!, target!), undefined, `${method} ${target}`)
  }
})
