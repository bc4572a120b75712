import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { mock } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import fastifyEnv from '@fastify/env'
import Fastify from 'fastify'
import t from 'tap'
import auth from '../../plugins/auth.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { createApp, createLoggedApp, startApp } from '../helpers/app.ts'
import { call, expectRefusal } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { expectedOf, PROOFS, SCHEMES, TOKENS } from '../helpers/scheme-cases.ts'
import type { Variables } from '../helpers/variables.ts'
import { sendRaw } from '../helpers/wire.ts'

const MODES = ['DISABLED', 'ALLOWED', 'REQUIRED'] as const
const OFFERS = {
  DISABLED: [['Bearer', undefined]],
  ALLOWED: [['Bearer', undefined], ['DPoP', 'ES256 ES384 EdDSA Ed25519 PS256 RS256']],
  REQUIRED: [['DPoP', 'ES256 ES384 EdDSA Ed25519 PS256 RS256']]
} as const

t.test('Every mode with every scheme, token and proof', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const tokens = {
    unbound: issuer.token(),
    bound: issuer.token({ cnf: client.cnf }),
    unusable: issuer.token({ cnf: { 'x5t#S256': client.jkt } }),
    expired: issuer.token({ cnf: client.cnf, exp: 1 })
  }
  for (const mode of MODES) {
    const running = await startApp(t, issuer, { IDP_DPOP_MODE: mode })
    for (const scheme of SCHEMES) {
      for (const token of TOKENS) {
        for (const proof of PROOFS) {
          const text = tokens[token]
          const make = (method = 'GET') => client.proof({ token: text, url: `${running.url}/api/private`, method })
          const proofs = {
            none: [],
            good: [make()],
            bad: [make('POST')],
            two: [make(), make()],
            joined: [`${make()}, ${make()}`],
            empty: ['']
          }[proof]
          const lines = [
            ...scheme === 'none' ? [] : [`Authorization: ${scheme} ${text}`],
            ...proofs.map(proof => `DPoP: ${proof}`)
          ]
          const title = `${mode}: ${scheme} scheme, ${token} token, ${proof} proof`
          const outcome = await call(running, { lines })
          const reason = expectedOf({ mode, scheme, token, proof })
          if (reason === 'accepted') {
            t.strictSame([outcome.status, outcome.headers['www-authenticate']], [200, undefined], title)
          } else {
            expectRefusal(t, outcome, reason, scheme, title)
            t.strictSame(
              outcome.challenges.map(({ scheme, parameters }) => [scheme, parameters.algs]),
              OFFERS[mode],
              `${title}: the challenges offered`
            )
          }
        }
      }
    }
  }
})

t.test('The settings DPOP_ENABLED and DPOP_REQUIRED are the modes by other names', async t => {
  const issuer = await startIssuer(t)
  const schemes = async (values: Variables) =>
    (await call(await startApp(t, issuer, values))).challenges.map(({ scheme }) => scheme)
  t.strictSame(await schemes({ DPOP_ENABLED: 'false' }), ['Bearer'])
  t.strictSame(await schemes({ DPOP_REQUIRED: 'true' }), ['DPoP'])
  t.strictSame(await schemes({ DPOP_ENABLED: 'true', DPOP_REQUIRED: 'false' }), ['Bearer', 'DPoP'])
})

t.test('A missing scope names what the route needs, on the scheme that was used', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const client = await createDpopClient()
  for (
    const [path, scope] of [['/api/private-scoped', 'read:messages'], ['/api/admin/x', 'admin'], [
      '/api/users',
      'read:users write:users'
    ]] as const
  ) {
    const bearer = await call(running, {
      path,
      lines: [`Authorization: Bearer ${issuer.token({ scope: 'read:message admin2 users' })}`]
    })
    expectRefusal(t, bearer, 'scope_missing', 'Bearer', path)
    t.equal(bearer.challenges.find(({ scheme }) => scheme === 'Bearer')!.parameters.scope, scope)
    const token = issuer.token({ cnf: client.cnf })
    const bound = await call(running, {
      path,
      lines: [`Authorization: DPoP ${token}`, `DPoP: ${client.proof({ token, url: `${running.url}${path}` })}`]
    })
    expectRefusal(t, bound, 'scope_missing', 'DPoP', `${path} by DPoP`)
    t.equal(bound.challenges.find(({ scheme }) => scheme === 'DPoP')!.parameters.scope, scope)
    t.equal(bound.challenges.find(({ scheme }) => scheme === 'Bearer')!.parameters.scope, undefined)
  }
})

t.test('The auth plugin in another app, by options instead of environment', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  await app.register(auth, {
    idp: { issuer: issuer.url, audience: AUDIENCE, scopeClaims: ['scope', 'permissions'] },
    dpop: { replay: 'off' }
  })
  app.get('/hook', { onRequest: app.authenticate() }, request => ({ user: request.user.sub, auth: request.auth }))
  app.get('/scoped', { onRequest: [app.authenticate, app.requireScope('a', 'b')] }, () => 'ok')
  app.get('/any', { onRequest: app.requireScope({ any: ['a', 'b'] }) }, () => 'ok')
  app.get('/inside', async request => {
    await request.authenticate()
    await request.requireScope('a')
    return { user: request.user.sub }
  })
  app.get('/fault', async () => {
    throw new Error('a fault of the route')
  })

  const get = (url: string, claims?: object) =>
    app.inject({
      url,
      ...(claims && { headers: { authorization: `Bearer ${issuer.token(claims as Record<string, unknown>)}` } })
    })
  t.hasStrict((await get('/hook', { scope: 'a' })).json(), {
    user: 'user-1',
    auth: { scheme: 'Bearer', scopes: ['a'], issuer: issuer.url }
  })
  const refused = await get('/hook')
  t.strictSame([refused.statusCode, refused.json()], [401, {
    statusCode: 401,
    error: 'Unauthorized',
    message: 'This resource needs an access token.'
  }])
  t.match(refused.headers['www-authenticate'], /^Bearer, DPoP algs="/)
  t.equal(
    (await get('/scoped', { scope: 'a', permissions: ['b'] })).statusCode,
    200,
    'all of the scopes, from two claims'
  )
  t.equal((await get('/scoped', { scope: 'a' })).statusCode, 403)
  t.equal((await get('/any', { scope: 'b' })).statusCode, 200, 'a scope guard authenticates by itself')
  t.equal((await get('/any', { scope: 'c' })).statusCode, 403)
  t.equal((await get('/any')).statusCode, 401)
  t.equal((await get('/inside', { scope: 'a' })).statusCode, 200)
  t.equal((await get('/inside', { scope: 'b' })).statusCode, 403)
  t.match((await get('/inside')).headers['www-authenticate'], /^Bearer, DPoP/)
  t.equal((await get('/fault')).statusCode, 500, 'a fault stays a fault')
})

t.test('The auth plugin without options does not take the settings of another app for its own', async t => {
  const app = Fastify()
  app.decorate('settings', { theme: 'dark' } as never)
  app.register(auth)
  await t.rejects(async () => app.ready(), { message: /IDP_AUDIENCE \(idp\.audience\) is not set/ })
})

t.test('The auth plugin does not change the rest of another app', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const warnings: string[] = []
  const stream = {
    write: (line: string) => {
      warnings.push(JSON.parse(line).msg)
    }
  }
  const app = createApp(t, {
    logger: { level: 'warn', stream },
    rewriteUrl: request => request.url!.replace(/^\/old/, '')
  })
  app.decorate('settings', { theme: 'dark' } as never)
  await app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE }, server: { trustProxy: ['192.0.2.1'] } })
  await app.register(fastifyEnv, {
    confKey: 'variables',
    schema: { type: 'object', properties: { COLOUR: { type: 'string', default: 'red' } } }
  })
  t.strictSame(app.getEnvs(), { COLOUR: 'red' }, 'its variables')
  t.strictSame(app.settings, { theme: 'dark' }, 'its settings')
  app.get(
    '/several',
    request => Promise.all([request.authenticate(), request.requireScope('a'), request.authenticate()]).then(() => 'ok')
  )
  app.get('/again', async request => {
    await t.rejects(Promise.all([request.authenticate(), request.requireScope('a')]), /needs an access token/)
    await request.authenticate()
  })

  const token = issuer.token({ scope: 'a', cnf: client.cnf })
  const get = (path: string, claims?: object) =>
    app.inject({
      url: path,
      headers: {
        host: 'api.example',
        authorization: `DPoP ${token}`,
        dpop: client.proof({ token, url: `http://api.example${path}`, ...claims })
      }
    })
  t.equal(
    (await get('/several')).statusCode,
    200,
    'a handler may call the guard several times at once, though a proof passes once'
  )
  const twice = client.proof({ token, url: 'http://api.example/several' })
  const headers = { host: 'api.example', authorization: `DPoP ${token}`, dpop: twice }
  t.strictSame(
    [
      (await app.inject({ url: '/several', headers })).statusCode,
      (await app.inject({ url: '/several', headers })).statusCode
    ],
    [200, 401],
    'but not two requests'
  )
  t.equal((await app.inject('/again')).statusCode, 401)
  t.equal((await get('/old/several')).statusCode, 200, 'the URL of the client, not the one that the app makes of it')
  t.strictSame(warnings, [])

  const mistaken = createApp(t, { logger: { level: 'warn', stream } })
  await mistaken.register(auth, { idp: { domain: 'https://tenant.example', audience: AUDIENCE } })
  t.match(warnings, [/starts with a scheme/, /Host is believed/])
})

t.test('The auth plugin in an app that speaks HTTP/2', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const app = Fastify({ http2: true })
  t.teardown(() => app.close())
  await app.register(auth as never, { idp: { issuer: issuer.url, audience: AUDIENCE } } as never)
  app.get('/', { onRequest: app.authenticate as never }, () => 'ok')
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const session = connect(url)
  t.teardown(() => session.destroy())
  const token = issuer.token({ cnf: client.cnf })
  const ask = async (proofUrl: string, more = {}) => {
    const stream = session.request({
      ':path': '/',
      authorization: `DPoP ${token}`,
      dpop: client.proof({ token, url: proofUrl }),
      ...more
    })
    const [headers] = await once(stream, 'response') as [Record<string, unknown>]
    stream.destroy()
    return headers[':status']
  }
  t.equal(await ask(`${url}/`), 200)
  t.equal(await ask('http://other.example/'), 401)
  t.equal(await ask(`${url}/`, { host: 'other.example' }), 401, 'two names for one host')
})

/** Makes the lines of a right DPoP request: `count` in all, with the two that `call` sends before them. */
async function dpopRequests (issuer: Awaited<ReturnType<typeof startIssuer>>, url: string) {
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  return (
    count: number
  ) => [
    `Authorization: DPoP ${token}`,
    `DPoP: ${client.proof({ token, url: `${url}/api/private` })}`,
    ...Array<string>(count - 4).fill('A:')
  ]
}

/** Whether this release of Node answers 431 by itself where others drop the lines beyond the limit. */
async function refusesUncounted () {
  const server = createServer((_request, response) => response.end())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  try {
    const { port } = server.address() as AddressInfo
    return (await sendRaw(`http://127.0.0.1:${port}`, [
      'GET / HTTP/1.1',
      'Host: x',
      'Connection: close',
      ...Array<string>(1500).fill('A:')
    ])).status === 431
  } finally {
    server.close()
  }
}

t.test('A request with so many header lines that Node may have dropped some is refused, whatever the last lines are', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { TRUST_PROXY: 'loopback' })
  const lines = await dpopRequests(issuer, running.url)
  const isRefusedByNode = await refusesUncounted()
  t.equal((await call(running, { lines: lines(999) })).status, 200)
  expectRefusal(t, await call(running, { lines: lines(1000) }), 'headers_uncounted', 'DPoP')
  for (
    const last of ['Authorization: Bearer x', 'DPoP: x', 'Host: www.example.com', 'X-Forwarded-Host: www.example.com']
  ) {
    const outcome = await call(running, { lines: [...lines(2500), last] })
    if (!isRefusedByNode) expectRefusal(t, outcome, 'headers_uncounted', 'DPoP', last)
    else {
      t.strictSame([outcome.status, outcome.reason, outcome.body.message], [
        431,
        undefined,
        'The request is not valid HTTP, too large or too slow.'
      ], last)
    }
  }
  expectRefusal(
    t,
    await call(running, { lines: [...lines(998), 'Authorization: Bearer x'] }),
    'authorization_repeated',
    'DPoP'
  )
})

t.test('Other routes that use the URL of a request do not trust header lines that may be incomplete', async t => {
  const running = await startApp(t, await startIssuer(t), { TRUST_PROXY: 'loopback', IDP_AUDIENCE: 'api' })
  const ask = (path: string, count: number) =>
    call(running, { path, lines: [...Array<string>(count - 3).fill('A:'), 'X-Forwarded-Host: www.example.com'] })
  t.equal((await ask('/docs/json', 999)).body.servers[0].url, 'http://www.example.com')
  t.equal((await ask('/docs/json', 1000)).body.servers[0].url, '/')
  t.equal((await ask('/.well-known/oauth-protected-resource', 999)).body.resource, 'http://www.example.com')
  t.hasStrict(await ask('/.well-known/oauth-protected-resource', 1000), {
    status: 400,
    body: { message: REFUSALS.headers_uncounted.description }
  })
})

t.test('In another app the limit is that of its server, and none with 0', async t => {
  const issuer = await startIssuer(t)
  for (
    const { maxHeadersCount, few, many } of [{ maxHeadersCount: 10, few: 9, many: 10 }, {
      maxHeadersCount: 0,
      few: 5000,
      many: undefined
    }, { maxHeadersCount: 1500, few: 1499, many: 1500 }] as const
  ) {
    const reasons: unknown[] = []
    const app = Fastify({
      logger: {
        stream: {
          write: line => {
            reasons.push(JSON.parse(line).reason)
          }
        }
      }
    })
    app.server.maxHeadersCount = maxHeadersCount
    await app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE } })
    app.get('/api/private', { onRequest: app.authenticate }, async () => ({}))
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    t.teardown(() => app.close())
    const running = { app, url, log: [], reasons: () => reasons.filter(reason => reason !== undefined) }
    const lines = await dpopRequests(issuer, url)
    t.equal((await call(running, { lines: lines(few) })).status, 200, `${maxHeadersCount}`)
    if (many) expectRefusal(t, await call(running, { lines: lines(many) }), 'headers_uncounted', 'DPoP')
    else {
      expectRefusal(
        t,
        await call(running, { lines: [...lines(few), 'Authorization: Bearer x'] }),
        'authorization_repeated',
        'DPoP'
      )
    }
  }
})

t.test('The claims are shared by requests, and cannot be changed by one', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, {}, app => {
    app.get('/change', { onRequest: app.authenticate }, request => {
      ;(request.user.aud as string[]).push('more')
      return 'changed'
    })
  })
  const headers = { authorization: `Bearer ${issuer.token({ aud: [AUDIENCE] })}` }
  t.equal((await app.inject({ url: '/change', headers })).statusCode, 500)
})

t.test('The auth plugin refuses options that are not usable', async t => {
  await t.rejects(
    async () => Fastify().register(auth, { idp: { audience: AUDIENCE } }),
    /IDP_DOMAIN \(idp.domain\) is not set/
  )
  await t.rejects(
    async () => Fastify().register(auth, { idp: { domain: 'tenant.example', audiense: AUDIENCE } } as never),
    /unknown key "idp.audiense"; did you mean idp.audience\?/
  )
  const idp = { domain: 'tenant.example', audience: AUDIENCE }
  await t.rejects(
    async () => Fastify().register(auth, { idp, dpopp: { nonce: 'required' } } as never),
    /unknown key "dpopp"; did you mean dpop\?/,
    'a section too'
  )
  const options = { idp, dpop: { nonce: 'required' }, prefix: '/svc', logLevel: 'silent', logSerializers: {} } as const
  await t.resolves(async () => Fastify().register(auth, options), "what is Fastify's own is no setting")
  await t.resolves(
    async () => Fastify().register(auth, { IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: AUDIENCE }),
    'the names of the environment will do'
  )
  await t.rejects(
    async () => Fastify().register(auth, { IDP_DOMAIN: 'tenant.example', idp } as never),
    /use one form for all options/
  )
  await t.rejects(async () => Fastify().register(auth, {}), /IDP_DOMAIN \(idp.domain\) is not set/)

  const twice = Fastify()
  await twice.register(auth, options)
  await t.rejects(
    async () => twice.register(auth, options),
    /^Holdfast is registered already, in this scope or around it/
  )
})

t.test('The auth plugin logs the settings in force in one line, in another app too', async t => {
  const { app, log: lines } = createLoggedApp(t)
  await app.register(auth, {
    idp: { domain: 'tenant.example', audience: AUDIENCE, dpopMode: 'REQUIRED' },
    server: { publicUrl: 'https://api.example' }
  })
  const inForce = lines.filter(({ event }) => event === 'settings_in_force')
  t.hasStrict(inForce, [{
    level: 30,
    msg: 'settings in force',
    issuers: ['https://tenant.example/'],
    audience: AUDIENCE,
    dpopMode: 'REQUIRED',
    publicUrl: 'https://api.example'
  }])
  t.equal(inForce.length, 1)
  t.strictSame(
    lines.filter(({ event }) => event === 'replay_promise').map((
      { level, msg }
    ) => [level, /by one instance/.test(String(msg))]),
    [[30, true]]
  )
  t.strictSame(lines.filter(({ level }) => level === 40), [])
})

t.test('Keys are fetched soon after the start, and never after the close', async t => {
  const later = mock.method(globalThis, 'setTimeout')
  t.teardown(() => mock.restoreAll())
  for (const isClosed of [false, true]) {
    const issuer = await startIssuer(t)
    const app = createApp(t)
    await app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE } })
    const before = later.mock.callCount()
    await app.ready()
    if (isClosed) await app.close()
    t.equal(
      later.mock.calls.slice(before).find(({ arguments: [, ms] }) => ms === 10)!.result!.hasRef(),
      false,
      'it keeps no process alive'
    )
    if (isClosed) await delay(50)
    else while (issuer.requests.length === 0) await delay(5)
    t.equal(issuer.requests.length > 0, !isClosed)
  }
})

t.test('A test issuer causes a warning in the log, so that none is used in production', async t => {
  const { app, log: lines } = createLoggedApp(t)
  const issuer = await createTestIssuer()
  await app.register(auth, issuer.options)
  t.hasStrict(lines.find(({ msg }) => msg === 'The keys and the clock are those of a test issuer: only for tests'), {
    level: 40
  })
})

t.test('Events of the keys are logged under their names, and a fault of the provider as a warning', async t => {
  const issuer = await startIssuer(t)
  for (
    const [outage, status, expected] of [[undefined, 200, { event: 'keys_fetched', level: 30, msg: 'keys fetched' }], [
      500,
      503,
      { event: 'keys_fetch_failed', level: 40, msg: 'keys fetch failed' }
    ]] as const
  ) {
    issuer.outage = outage
    const { app, log } = await startApp(t, issuer)
    t.equal(
      (await app.inject({ url: '/api/private', headers: { authorization: `Bearer ${issuer.token()}` } })).statusCode,
      status
    )
    t.hasStrict(log.find(({ event }) => event === expected.event), expected)
  }
})
