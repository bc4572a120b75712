import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { ClientRequest, IncomingMessage } from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions } from 'fastify'
import fastifyAuth from '@fastify/auth'
import fastifyJwt from '@fastify/jwt'
import fastifyWebsocket from '@fastify/websocket'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import holdfast, { Refusal } from '../../packages/holdfast/index.ts'
import service from '../../packages/holdfast/service.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import type { ProofHeaders } from '../../packages/holdfast/testing.ts'
import type { HoldfastOptions } from '../../packages/holdfast/index.ts'
import { root } from '../helpers/documents.ts'

interface Answer { readonly statusCode: number, readonly body: string }

/** An app with one guarded route, and an error handler that tells the reason. */
async function appWith (t: Test, options: HoldfastOptions, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(server)
  t.teardown(() => app.close())
  await app.register(holdfast, options)
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof Refusal)) throw error
    return reply.code(error.statusCode).headers(error.headers ?? {}).send(error.reason)
  })
  app.get('/orders', { onRequest: app.requireScope('read:orders') }, request => request.user.sub)
  return app
}

const told = ({ statusCode, body }: Answer): string => `${statusCode} ${body}`
const bearer = async (app: FastifyInstance, token: string, url = '/orders'): Promise<string> =>
  told(await app.inject({ url, headers: { authorization: `Bearer ${token}` } }))

async function getOverTls (url: string, headers: ProofHeaders): Promise<string> {
  const sent = https.get(url, { headers, rejectUnauthorized: false, agent: false })
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  return `${answer.statusCode} ${await text(answer)}`
}

async function getOverHttp2 (url: string, headers: ProofHeaders): Promise<string> {
  const session = http2.connect(url, { rejectUnauthorized: false })
  const stream = session.request({ ':path': new URL(url).pathname, ...headers })
  const [answer] = await once(stream, 'response') as [http2.IncomingHttpHeaders & { ':status'?: number }]
  const body = await text(stream)
  session.close()
  return `${answer[':status']} ${body}`
}

t.test('The test issuer makes each kind of token with one call.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, idp.options)
  const scope = 'read:orders'
  t.equal(await bearer(app, await idp.token({ scope, sub: 'ann' })), '200 ann')
  t.equal(await bearer(app, await idp.token()), '403 scope_missing')
  t.equal(await bearer(app, await idp.token({ scope, sub: undefined })), '401 token_claim_invalid')
  t.equal(await bearer(app, await idp.expiredToken({ scope })), '401 token_expired')
  t.equal(await bearer(app, await idp.wrongAudienceToken({ scope })), '401 token_audience')
  t.equal(await bearer(app, await idp.wrongKeyToken({ scope })), '401 token_signature')
  t.equal(await bearer(app, await (await createTestIssuer()).token({ scope })), '401 token_signature', 'each issuer has a key of its own')
})

t.test('A DPoP client of the test issuer passes once; a replay and a thief do not.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, { ...idp.options, idp: { ...idp.options.idp, dpopMode: 'REQUIRED' } })
  const client = await idp.dpopClient({ scope: 'read:orders', sub: 'ann' })
  t.equal(told(await client.inject(app, '/orders?page=2')), '200 ann')
  t.equal(told(await client.inject(app, { url: '/orders', headers: { host: 'api.example' } })), '200 ann')
  t.equal(told(await app.inject({ url: '/orders', headers: client.headers('GET', 'http://localhost/orders') })), '200 ann')
  t.equal(told(await app.inject({ url: '/orders', headers: client.headers('GET', 'http://localhost/others') })), '401 htu_mismatch')
  t.equal(told(await client.replay(app, '/orders')), '401 proof_replayed')
  t.equal(told(await client.stolen(app, '/orders')), '401 jkt_mismatch')
  t.equal(await bearer(app, client.token), '401 scheme_not_offered')
  const unknown = await (await createTestIssuer()).dpopClient()
  await t.rejects(unknown.replay(app, '/orders'), /The first request is refused already, so there is nothing to replay: token_signature/)
})

t.test('The clock of the test issuer moves its tokens, its clients and the app.', async t => {
  const idp = await createTestIssuer({ publicUrl: 'https://api.example/svc/' })
  const app = await appWith(t, { ...idp.options, dpop: { nonce: 'required' } })
  const client = await idp.dpopClient({ scope: 'read:orders', exp: idp.clock.now() + 7200 })
  const token = await idp.token({ scope: 'read:orders' })
  t.equal(told(await client.inject(app, '/orders')), '200 user-1', 'with the nonce that the app asks for, and its public URL')
  t.equal(await bearer(app, token), '200 user-1')
  idp.clock.advance(3600)
  t.equal(told(await client.inject(app, '/orders')), '200 user-1')
  t.equal(await bearer(app, token), '401 token_expired')
  idp.clock.advance(3610)
  t.equal(told(await client.inject(app, '/orders')), '401 token_expired')
})

t.test('The whole service is a plugin with the same options.', async t => {
  const idp = await createTestIssuer()
  const app = Fastify()
  t.teardown(() => app.close())
  app.get('/own', () => 'own')
  await app.register(service, { ...idp.options, prefix: '/svc' })
  const client = await idp.dpopClient({ scope: 'admin' })
  t.equal((await client.inject(app, '/svc/api/admin')).statusCode, 200)
  t.equal((await client.replay(app, '/svc/api/admin')).statusCode, 401)
  t.equal(told(await app.inject('/own')), '200 own')
  t.equal((await app.inject('/own')).headers['cache-control'], undefined, 'the routes around it are left alone')
  await t.rejects(async () => Fastify().register(service, { idp: { domian: 'x' } } as never), /did you mean idp.domain\?/)
})

t.test('An app with the plugin starts without the packages that only requests and the service need.', async t => {
  const script = `
    import { createRequire } from 'node:module'
    import Fastify from 'fastify'
    import holdfast from './packages/holdfast/index.ts'
    const app = Fastify()
    await app.register(holdfast, { idp: { domain: 'tenant.example', audience: 'https://api.example' } })
    await app.ready()
    console.log(Object.keys(createRequire(import.meta.url).cache).join('\\n'))
    await app.close()
  `
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', './cli/strip-types.js', '--input-type=module', '-e', script], { cwd: root })
  for (const name of ['fastify', 'ajv']) t.ok(stdout.includes(`/node_modules/${name}/`), name)
  for (const name of ['@fastify/env', 'env-schema', '@fastify/jwt', 'fast-jwt', 'undici', 'get-jwks', 'ioredis']) t.notOk(stdout.includes(`/node_modules/${name}/`), name)
})

t.test('Options are judged as settings are.', async t => {
  const { options } = await createTestIssuer()
  await t.rejects(async () => appWith(t, { ...options, dpop: { nonce: 'sometimes' } } as never), /DPOP_NONCE \(dpop\.nonce\) is "sometimes"; allowed: off or required/)
  await t.rejects(async () => appWith(t, 'idp' as never), /options: expected an object with sections such as idp/)
  await t.rejects(async () => Fastify().register(service, ['idp'] as never), /options: expected an object with sections such as idp/)
  await t.resolves(appWith(t, { ...options, dpop: { nonce: 'off' } }))
})

t.test('Two scopes of one app have guards of their own.', async t => {
  const [red, blue] = await Promise.all([createTestIssuer({ issuer: 'https://red.test/' }), createTestIssuer({ issuer: 'https://blue.test' })])
  const app = Fastify()
  t.teardown(() => app.close())
  for (const [prefix, { options }] of [['/red', red], ['/blue', blue]] as const) {
    await app.register(async scope => {
      await scope.register(holdfast, options)
      scope.get('/orders', { onRequest: scope.authenticate() }, request => request.auth!.issuer)
    }, { prefix })
  }
  t.equal(await bearer(app, await red.token(), '/red/orders'), '200 https://red.test/')
  t.equal(await bearer(app, await blue.token(), '/blue/orders'), '200 https://blue.test')
  t.match(await bearer(app, await red.token(), '/blue/orders'), /^401 .*another issuer/)
})

t.test('It lives beside the app\'s own @fastify/jwt, before it or after it.', async t => {
  const idp = await createTestIssuer()
  for (const isFirst of [true, false]) {
    const app = Fastify()
    t.teardown(() => app.close())
    const own = { secret: 'a secret of the app', decoratorName: 'session' }
    if (isFirst) await app.register(fastifyJwt, own)
    await app.register(holdfast, idp.options)
    if (!isFirst) await app.register(fastifyJwt, own)
    app.get('/orders', { onRequest: app.authenticate() }, request => request.user.sub)
    app.get('/session', async request => {
      await request.jwtVerify()
      return { session: (request as unknown as { session: unknown }).session, user: request.user }
    })
    t.equal(await bearer(app, await idp.token()), '200 user-1')
    t.match(JSON.parse((await bearer(app, app.jwt.sign({ sub: 'own' } as never), '/session')).slice(4)), { session: { sub: 'own' }, user: null })
    t.match(await bearer(app, app.jwt.sign({ sub: 'own' } as never)), /^401/)
  }
})

t.test('It lives in HTTPS and HTTP/2 servers, and behind rewriteUrl.', async t => {
  const idp = await createTestIssuer()
  const tls = { key: readFileSync(join(root, 'test/fixtures/provider.key.pem')), cert: readFileSync(join(root, 'test/fixtures/provider.cert.pem')) }
  const headersFor = (url: string) => idp.dpopClient({ scope: 'read:orders' }).then(client => client.headers('GET', url))

  const secure = await appWith(t, idp.options, { https: tls } as FastifyServerOptions)
  const url = `${(await secure.listen({ port: 0, host: '127.0.0.1' }))}/orders`
  t.equal(await getOverTls(url, await headersFor(url)), '200 user-1')
  t.equal(await getOverTls(url, await headersFor(url.replace('https:', 'http:'))), '401 htu_mismatch')

  const second = await appWith(t, idp.options, { http2: true, https: tls } as FastifyServerOptions)
  const url2 = `${(await second.listen({ port: 0, host: '127.0.0.1' }))}/orders`
  t.equal(await getOverHttp2(url2, await headersFor(url2)), '200 user-1')
  t.equal(await getOverHttp2(url2, await headersFor(url2.replace('https:', 'http:'))), '401 htu_mismatch')

  const rewritten = await appWith(t, idp.options, { rewriteUrl: request => request.url!.replace('/v1/', '/') })
  t.equal(told(await rewritten.inject({ url: '/v1/orders', headers: await headersFor('http://localhost/v1/orders') })), '200 user-1', 'the proof is for the URL that the client called')
})

t.test('It is one of several ways in, by @fastify/auth.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, idp.options)
  await app.register(fastifyAuth)
  const byKey = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void) => done(request.headers['x-key'] === 'good' ? undefined : new Error('wrong key'))
  app.get('/either', { onRequest: app.auth([byKey, app.requireScope('read:orders')]) }, request => request.auth?.scheme ?? 'key')
  app.get('/both', { onRequest: app.auth([byKey, app.requireScope('read:orders')], { relation: 'and' }) }, request => request.auth!.scheme)
  const get = (url: string, token: string, key: string) => app.inject({ url, headers: { authorization: `Bearer ${token}`, 'x-key': key } }).then(told)
  const good = await idp.token({ scope: 'read:orders' })
  const expired = await idp.expiredToken({ scope: 'read:orders' })
  t.equal(await get('/either', good, 'bad'), '200 Bearer')
  t.equal(await get('/either', expired, 'good'), '200 key')
  t.equal(await get('/either', expired, 'bad'), '401 token_expired', 'the last way in answers')
  t.equal(await get('/both', good, 'good'), '200 Bearer')
  t.equal(await get('/both', expired, 'good'), '401 token_expired')
  t.match(await get('/both', good, 'bad'), /^401 .*wrong key/)
})

t.test('It guards the handshake of a WebSocket, and tells the app when to end it.', async t => {
  const idp = await createTestIssuer()
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(fastifyWebsocket)
  await app.register(holdfast, { ...idp.options, server: { publicUrl: 'https://api.example' } })
  app.get('/live', { websocket: true, onRequest: app.requireScope('read:orders') }, (socket, request) => {
    const { expiresAt } = request.auth!
    socket.on('message', () => {
      if (idp.clock.now() >= expiresAt) socket.close(4401, 'token expired')
      else socket.send(request.user.sub)
    })
  })
  const url = `${(await app.listen({ port: 0, host: '127.0.0.1' })).replace('http', 'ws')}/live`
  const client = await idp.dpopClient({ scope: 'read:orders', sub: 'ann' })
  const headers = client.headers('GET', 'https://api.example/live')
  const socket = new WebSocket(url, { headers })
  await once(socket, 'open')
  socket.send('who?')
  t.equal(String((await once(socket, 'message'))[0]), 'ann')
  idp.clock.advance(600)
  socket.send('and now?')
  t.same((await once(socket, 'close')).map(String), ['4401', 'token expired'])

  const refused = async (headers: object) => {
    const [request, answer] = await once(new WebSocket(url, { headers: { ...headers } }), 'unexpected-response') as [ClientRequest, IncomingMessage]
    request.destroy()
    return answer.statusCode
  }
  t.equal(await refused(headers), 401, 'the proof has been used')
  t.equal(await refused({}), 401, 'nobody')
  const without = await idp.dpopClient()
  t.equal(await refused(without.headers('GET', 'https://api.example/live')), 403, 'without the scope')
})

t.test('It guards a WebSocket that a test opens by injectWS.', async t => {
  const idp = await createTestIssuer()
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(fastifyWebsocket)
  await app.register(holdfast, { ...idp.options, server: { trustProxy: true } })
  const reasons: string[] = []
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof Refusal)) throw error
    reasons.push(error.reason)
    return reply.code(error.statusCode).headers(error.headers ?? {}).send(error.reason)
  })
  app.get('/live', { websocket: true, onRequest: app.requireScope('read:orders') }, (socket, request) => {
    socket.on('message', () => socket.send(request.user.sub))
  })
  await app.ready()
  const client = await idp.dpopClient({ scope: 'read:orders', sub: 'ann' })
  const proof = () => client.headers('GET', 'http://localhost/live')
  const overTls = () => client.headers('GET', 'https://localhost/live')
  const host = 'localhost'
  for (const headers of [{ host, ...proof() }, { host, 'X-Forwarded-Proto': 'https', ...overTls() }, { host, dpop: undefined, Authorization: `Bearer ${await idp.token({ scope: 'read:orders', sub: 'ann' })}` }]) {
    const socket = await app.injectWS('/live', { headers })
    const answer = once(socket, 'message')
    socket.send('who?')
    t.equal(String((await answer)[0]), 'ann')
    socket.terminate()
  }

  const { authorization, dpop } = proof()
  const refused: Array<[reason: string, status: number, headers: Record<string, string | string[]> | undefined]> = [
    ['credentials_missing', 401, undefined],
    ['htu_mismatch', 401, { host, ...client.headers('GET', 'http://localhost/dead') }],
    ['htu_mismatch', 401, { host, ...overTls() }],
    ['authorization_repeated', 401, { host, authorization, Authorization: authorization, dpop }],
    ['proof_repeated', 401, { host, authorization, dpop: [dpop, dpop] }],
    ['host_invalid', 401, { authorization, dpop }],
    ['scope_missing', 403, { host, authorization: `Bearer ${await idp.token()}` }]
  ]
  for (const [reason, status, headers] of refused) {
    await t.rejects(app.injectWS('/live', headers && { headers }), { message: `Unexpected server response: ${status}` }, reason)
    t.equal(reasons.pop(), reason)
  }
})

t.test('It guards server-sent events, and tells the app when to end them.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, idp.options)
  app.get('/events', { onRequest: app.requireScope('read:orders') }, (request, reply) => reply.type('text/event-stream').send(Readable.from(events(request.auth!.expiresAt))))
  async function * events (expiresAt: number) {
    for (; idp.clock.now() < expiresAt; idp.clock.advance(300)) yield `data: ${expiresAt - idp.clock.now()} s left\n\n`
  }
  const client = await idp.dpopClient({ scope: 'read:orders' })
  const answer = await client.inject(app, '/events')
  t.match(answer.headers['content-type'], /^text\/event-stream/)
  // The clock goes on by itself too.
  t.match(told(answer), /^200 data: (?:600|59\d) s left\n\ndata: (?:300|29\d) s left\n\n$/)
  idp.clock.advance(10)
  t.equal(told(await client.inject(app, '/events')), '401 token_expired')
})
