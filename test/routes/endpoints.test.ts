import type { RouteOptions } from 'fastify'
import t from 'tap'
import { exactly } from '../helpers/containing.ts'
import { kRouteGuard, type MayHaveGuard } from '../../lib/guard/requirement/route-guard.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp, startWholeApp } from '../helpers/app.ts'
import { textOf } from '../helpers/documents.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { ownRoutes, samples } from '../helpers/samples.ts'

const PUBLIC = ['/api/public']

t.test('The endpoints of profile 1', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { IDP_CUSTOM_CLAIM: 'https://example.com/team' })
  const get = async (url: string, claims?: Record<string, unknown>) => {
    const answer = await app.inject({
      url,
      ...(claims && { headers: { authorization: `Bearer ${issuer.token(claims)}` } })
    })
    t.match(answer.headers, { 'content-type': /^application\/json/, 'cache-control': exactly('no-store') }, url)
    return [answer.statusCode, answer.json()]
  }
  t.match(await get('/api/public'), [200, { message: String }])
  t.strictSame(Object.keys((await get('/api/private', {}))[1]), ['message', 'user_id'])
  t.match(await get('/api/private', {}), [200, { message: String, user_id: exactly('user-1') }])
  t.match(await get('/api/protected', {}), [200, { message: String }])
  t.match(await get('/api/private-scoped', { scope: 'openid read:messages' }), [200, {
    message: String,
    user_id: exactly('user-1')
  }])
  t.hasStrict(await get('/api/private-scoped', { scope: 'read:messagesx' }), [403, {}])
  t.hasStrict(await get('/api/private-scoped', { scope: ['read:messages'] }), [200, {}], 'an array of strings')
  t.hasStrict(
    await get('/api/private-scoped', { scope: ['read:messages', 7] }),
    [403, {}],
    'a claim of another type grants nothing'
  )
  t.hasStrict(await get('/api/private-scoped', { scope: { 'read:messages': true } }), [403, {}])
  t.hasStrict(
    await get('/api/private-scoped', { permissions: ['read:messages'] }),
    [403, {}],
    'a claim that is not configured grants nothing'
  )
  for (const path of ['/api/admin', '/api/admin/', '/api/admin/a/b']) {
    t.match(await get(path, { scope: 'admin' }), [200, { message: String }], path)
    t.hasStrict(await get(path, { scope: 'Admin' }), [403, {}], path)
    t.hasStrict(await get(path), [401, {}], path)
  }
  for (const path of ['/api/users', '/api/users/7']) {
    t.match(await get(path, { scope: 'read:users' }), [200, { message: String }], path)
    t.match(await get(path, { scope: 'write:users' }), [200, { message: String }], path)
    t.hasStrict(await get(path, { scope: 'users' }), [403, {}], path)
  }
  t.match(await get('/api/private'), [401, { statusCode: 401, error: exactly('Unauthorized'), message: String }])
  t.match(await get('/api/nothing'), [404, { statusCode: 404, error: exactly('Not Found'), message: String }])

  const junk = await app.inject({ url: '/api/public', headers: { authorization: 'Bearer junk', dpop: 'junk' } })
  t.equal(junk.statusCode, 200, 'an invalid token changes nothing for the public endpoint')
})

t.test('The endpoints of profile 2', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { API_PROFILE: '2' })
  const get = async (url: string, claims: Record<string, unknown>) =>
    (await app.inject({ url, headers: { authorization: `Bearer ${issuer.token(claims)}` } })).json()
  t.strictSame(Object.keys(await get('/api/private', { scope: 'b a' })), ['message', 'user', 'scopes'])
  t.hasStrict(await get('/api/private', { scope: 'b a' }), { user: 'user-1', scopes: ['SCOPE_b', 'SCOPE_a'] })
  t.strictSame((await get('/api/private', {})).scopes, [])
  t.match(await get('/api/private-scoped', { scope: 'read:messages' }), { message: String, user_id: exactly('user-1') })
  t.equal((await app.inject('/anything')).statusCode, 404, 'an unlisted path requires no token')
})

t.test('Scopes come from every configured claim', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { API_PROFILE: '2', IDP_SCOPE_CLAIMS: ['scope', 'scp', 'permissions'] })
  const headers = { authorization: `Bearer ${issuer.token({ scope: 'a  b', scp: ['c', 'a'], permissions: 'd' })}` }
  t.strictSame((await app.inject({ url: '/api/private', headers })).json().scopes, [
    'SCOPE_a',
    'SCOPE_b',
    'SCOPE_c',
    'SCOPE_d'
  ])
})

// Who deletes the sample route needs no test of it.
if (samples.has('profile')) {
  t.test('The profile has the claims of the token, of the right types', async t => {
    const issuer = await startIssuer(t)
    const ask = async (settings: Variables, claims: Record<string, unknown>): Promise<unknown> => {
      const { app } = await startApp(t, issuer, settings)
      return (await app.inject({ url: '/api/profile', headers: { authorization: `Bearer ${issuer.token(claims)}` } }))
        .json()
    }
    const none = { user_id: 'user-1', email: null, permissions: [], custom_claim: null }
    const team = { IDP_CUSTOM_CLAIM: 'https://example.com/team' }
    t.strictSame(await ask(team, { email: 'a@example.com', permissions: ['p'], 'https://example.com/team': { id: 7 } }), {
      user_id: 'user-1',
      email: 'a@example.com',
      permissions: ['p'],
      custom_claim: { id: 7 }
    })
    t.strictSame(await ask(team, {}), none)
    t.strictSame(
      await ask(team, { email: 7, permissions: 'p', 'https://example.com/team': null }),
      none,
      'optional claims of other types'
    )
    t.strictSame(await ask({}, { undefined: 'x' }), none, 'without a custom claim configured')

    const second = { API_PROFILE: '2' }
    t.strictSame(await ask(second, { scope: 'a b', email: 'a@example.com' }), {
      userId: 'user-1',
      email: 'a@example.com',
      scope: 'a b',
      issuer: issuer.url,
      audience: AUDIENCE
    })
    t.strictSame(await ask(second, { aud: ['x', AUDIENCE] }), {
      userId: 'user-1',
      email: null,
      scope: null,
      issuer: issuer.url,
      audience: ['x', AUDIENCE]
    })
  })
}

t.test('Every route under /api, own ones included, is guarded or on a public list, for each of its methods', async t => {
  const issuer = await startIssuer(t)
  const routes: RouteOptions[] = []
  const { app } = await startWholeApp(t, issuer, {}, app => {
    app.addHook('onRoute', route => {
      routes.push(route)
    })
  })
  const open: string[] = []
  for (const { method, url, config } of routes.filter(({ url }) => url.startsWith('/api'))) {
    for (const each of [method].flat()) {
      const { statusCode } = await app.inject({ method: each as 'GET', url: url.replaceAll(/\*|:\w+/g, 'x') })
      // A guard that runs late lets a body be judged first. It is a guard all the same.
      // HEAD comes with GET, under the same guard.
      const isNamed = each === 'HEAD' && open.includes(`GET ${url}`)
      if (statusCode !== 401 && !isNamed && !(config as MayHaveGuard)[kRouteGuard]?.length) open.push(`${each} ${url}`)
    }
  }
  const pathOf = (route: string) => route.slice(route.indexOf(' ') + 1)
  const known = [...PUBLIC, ...ownRoutes.public]
  t.strictSame(
    open.filter(route => !known.includes(pathOf(route))),
    [],
    'a guard, or a line under "public" in test/own/routes.json'
  )
  t.strictSame(ownRoutes.public.filter(url => !open.some(route => pathOf(route) === url)), [], 'every line there names an open route')
})

t.test('Every sample route answers to GET and HEAD with a token, if it needs one, and to no other method', async t => {
  const issuer = await startIssuer(t)
  const routes: Array<{ method: string, url: string }> = []
  const { app, url } = await startApp(t, issuer, {}, undefined, app => {
    app.addHook('onRoute', ({ method, url }) => {
      for (const each of [method].flat()) routes.push({ method: each, url })
    })
  })
  const api = routes.filter(({ url }) => url.startsWith('/api'))
  t.ok(api.length >= 18, `${api.length} routes`)
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf, scope: 'read:messages admin read:users' })
  for (const { method, url: pattern } of api) {
    const path = pattern.replace('*', 'x')
    t.ok(['GET', 'HEAD'].includes(method), `${method} ${pattern}`)
    const without = await app.inject({ method: method as 'GET', url: path })
    t.equal(without.statusCode, PUBLIC.includes(pattern) ? 200 : 401, `${method} ${pattern} without a token`)
    const headers = { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: `${url}${path}`, method }) }
    t.equal(
      (await fetch(`${url}${path}`, { method, headers })).status,
      200,
      `${method} ${pattern} with token and proof`
    )
    const wrong = client.proof({ token, url: `${url}${path}`, method: method === 'GET' ? 'HEAD' : 'GET' })
    t.equal(
      (await fetch(`${url}${path}`, { method, headers: { ...headers, dpop: wrong } })).status,
      PUBLIC.includes(pattern) ? 200 : 401,
      `${method} ${pattern} with the proof of the other method`
    )
  }
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const) {
    t.equal((await app.inject({ method, url: '/api/private' })).statusCode, 404, `${method} requires no token`)
  }
  const body = { headers: { 'content-type': 'application/json' }, payload: 'x'.repeat(64 * 1024 + 1) }
  t.equal((await app.inject({ method: 'POST', url: '/api/private', ...body })).statusCode, 404, 'whatever its body')
})

t.test('Health', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const { app } = running
  t.equal((await app.inject('/health/live')).json().status, 'ok')
  t.equal((await app.inject('/health/live')).headers['cache-control'], 'no-store')
  while ((await app.inject('/health/ready')).statusCode !== 200) await new Promise(resolve => setTimeout(resolve, 20))
  t.strictSame((await app.inject('/health/ready')).json(), {
    status: 'ok',
    checks: { process: 'ok', keys: 'ok', replay: 'ok' }
  })
})

t.test('Health shows the version, and the commit if the build has left one.', async t => {
  const issuer = await startIssuer(t)
  t.teardown(() => {
    delete process.env.HOLDFAST_COMMIT
  })
  const { version } = JSON.parse(textOf('package.json')) as { version: string }
  for (const [commit, shown] of [['', {}], ['4f2a1c9', { commit: '4f2a1c9' }]] as const) {
    process.env.HOLDFAST_COMMIT = commit
    const { app } = await startApp(t, issuer)
    t.strictSame((await app.inject('/health/live')).json(), { status: 'ok', version, ...shown })
  }
})

t.test('While the process drains it is not ready and still answers', async t => {
  const issuer = await startIssuer(t)
  const { app, url } = await startApp(t, issuer)
  await fetch(`${url}/api/private`, { headers: { authorization: `Bearer ${issuer.token()}` } })
  const closed = app.close()
  const ready = await fetch(`${url}/health/ready`)
  t.strictSame([ready.status, (await ready.json() as { checks: object }).checks], [503, {
    process: 'closing',
    keys: 'ok',
    replay: 'ok'
  }])
  t.equal((await fetch(`${url}/api/public`)).status, 200)
  await closed
  await t.rejects(fetch(`${url}/api/public`), 'then no connection is taken')
})
