import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import fastifyJwt from '@fastify/jwt'
import t from 'tap'
import type { Test } from 'tap'
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
