import Fastify from 'fastify'
import t from 'tap'
import { ASK_GUARD, tellGuard } from '../../dev/serve/tell-guard.ts'
import { parseRequirement, type RequirementOptions } from '../../lib/guard/requirement/requirement.ts'
import { asGuard } from '../../lib/guard/requirement/route-guard.ts'
import routeGuard from '../../plugins/route-guard.ts'

const guard = (options: RequirementOptions) =>
  asGuard(() => t.fail('no guard runs'), parseRequirement(options)) as () => void

t.test('The API says what guards a route, and nothing of it runs', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.addHook('onRequest', tellGuard)
  await app.register(routeGuard)
  const handler = (): boolean => t.fail('no handler runs')
  app.get('/open', handler)
  app.post('/things/:id', { onRequest: [guard({ scope: 'a' }), guard({ claims: { tenant: 'blue' } })] }, handler)
  app.get('/optional', { onRequest: guard({ anyScope: ['a', 'b'], optional: true }) }, handler)
  app.get('/function', { onRequest: guard({ claims: { age: () => true } }) }, handler)
  const told = async (method: 'GET' | 'POST', url: string): Promise<unknown> => {
    const answer = await app.inject({ method, url, headers: ASK_GUARD })
    return answer.statusCode === 200 ? answer.json() : answer.statusCode
  }
  t.strictSame(await told('GET', '/open'), { kind: 'open' })
  t.strictSame(await told('POST', '/things/7?page=1'), {
    kind: 'guarded',
    requirements: [{ scope: ['a'] }, { claims: [{ name: 'tenant', allowed: ['blue'] }] }]
  })
  t.strictSame(await told('GET', '/optional'), {
    kind: 'guarded',
    requirements: [{ anyScope: ['a', 'b'], optional: true }]
  })
  t.equal(await told('GET', '/function'), 404, 'what a function accepts cannot be said')
  t.equal(await told('GET', '/things/7'), 404, 'another method')
  t.equal(await told('GET', '/none'), 404)
})

t.test('Every path of a gate is for its rules, and a request that does not ask is left alone', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.decorate('gate', {} as NonNullable<typeof app.gate>)
  app.addHook('onRequest', tellGuard)
  app.get('/*', () => 'answered')
  t.equal((await app.inject({ url: '/x', headers: ASK_GUARD })).statusCode, 404)
  t.equal((await app.inject('/x')).body, 'answered')
})
