import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { ClientRequest, IncomingMessage } from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import Fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify'
import fastifyAuth from '@fastify/auth'
import fastifyJwt from '@fastify/jwt'
import fastifyWebsocket from '@fastify/websocket'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import holdfast, { Refusal, type HoldfastOptions } from '../../packages/holdfast/index.ts'
import service from '../../packages/holdfast/service.ts'
import {
  createTestIssuer,
  createTestTransmitter,
  type ProofHeaders,
  type TestRevocation
} from '../../packages/holdfast/testing.ts'
import { KNOWN_EVENT_TYPES } from '../../lib/revocation/effects.ts'
import { readJwt } from '../../lib/guard/jose/signed-jwt.ts'
import { withTrustOf } from '../../lib/settings/options.ts'
import { createApp } from '../helpers/app.ts'
import { startEventTransmitter } from '../helpers/event-transmitter.ts'
import { givensOf } from '../helpers/givens.ts'
import { root } from '../helpers/documents.ts'
import { until } from '../helpers/until.ts'

interface Answer {
  statusCode: number
  body: string
}

/** An app with one guarded route, and an error handler that sends the reason. */
async function appWith (
  t: Test,
  options: HoldfastOptions,
  server: FastifyServerOptions = {}
) {
  const app = createApp(t, server)
  await app.register(holdfast, options)
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof Refusal)) throw error
    return reply.code(error.statusCode).headers(error.headers ?? {}).send(error.reason)
  })
  app.get('/orders', { onRequest: app.requireScope('read:orders') }, request => request.user.sub)
  return app
}

const summary = ({ statusCode, body }: Answer) => `${statusCode} ${body}`
const bearer = async (app: FastifyInstance, token: string, url = '/orders') =>
  summary(await app.inject({ url, headers: { authorization: `Bearer ${token}` } }))

async function getOverTls (url: string, headers: ProofHeaders) {
  const sent = https.get(url, { headers, rejectUnauthorized: false, agent: false })
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  return `${answer.statusCode} ${await text(answer)}`
}

async function getOverHttp2 (url: string, headers: ProofHeaders) {
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
  t.equal(
    await bearer(app, await (await createTestIssuer()).token({ scope })),
    '401 token_signature',
    'each issuer has a key of its own'
  )
})

t.test('A test issuer may have several audiences: its tokens are for the first, and those for another pass', async t => {
  const idp = await createTestIssuer({ audience: ['https://new.test', 'https://old.test'] })
  const app = await appWith(t, idp.options)
  const scope = 'read:orders'
  const token = await idp.token({ scope })
  t.equal(await bearer(app, token), '200 user-1')
  t.equal(readJwt(token)!.claims['aud'], 'https://new.test')
  t.equal(await bearer(app, await idp.token({ scope, aud: 'https://old.test' })), '200 user-1')
  t.equal(await bearer(app, await idp.token({ scope, aud: 'https://api.test' })), '401 token_audience')
  t.equal(await bearer(app, await idp.wrongAudienceToken({ scope })), '401 token_audience')
})

t.test('A DPoP client of the test issuer passes once; a replay and a thief do not.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, { ...idp.options, idp: { ...idp.options.idp, dpopMode: 'REQUIRED' } })
  const client = await idp.dpopClient({ scope: 'read:orders', sub: 'ann' })
  t.equal(summary(await client.inject(app, '/orders?page=2')), '200 ann')
  t.equal(readJwt(client.headers('get', 'http://localhost/a?b#c').dpop)!.claims['htu'], 'http://localhost/a', 'RFC 9449')
  for (const to of [{ headers: { host: 'api.example' } }, { headers: { Host: 'api.example' } }, { authority: 'x:1' }]) {
    for (const url of ['/orders', 'http://api.other/orders', 'orders', '//../orders']) {
      t.equal(summary(await client.inject(app, { url, ...to })), '200 ann', `${url} ${JSON.stringify(to)}`)
    }
  }
  t.equal(
    summary(await app.inject({ url: '/orders', headers: client.headers('GET', 'http://localhost/orders') })),
    '200 ann'
  )
  t.equal(
    summary(await app.inject({ url: '/orders', headers: client.headers('GET', 'http://localhost/others') })),
    '401 htu_mismatch'
  )
  t.equal(summary(await client.replay(app, '/orders')), '401 proof_replayed')
  t.equal(summary(await client.stolen(app, '/orders')), '401 jkt_mismatch')
  t.equal(await bearer(app, client.token), '401 scheme_not_offered')
  const unknown = await (await createTestIssuer()).dpopClient()
  await t.rejects(
    unknown.replay(app, '/orders'),
    /The first request is refused already, so there is nothing to replay: token_signature/
  )
})

t.test('The clock of the test issuer moves its tokens, its clients and the app.', async t => {
  const idp = await createTestIssuer({ publicUrl: 'https://api.example/svc/' })
  const app = await appWith(t, { ...idp.options, dpop: { nonce: 'required' } })
  const client = await idp.dpopClient({ scope: 'read:orders', exp: idp.clock.now() + 7200 })
  const token = await idp.token({ scope: 'read:orders' })
  t.equal(
    summary(await client.inject(app, '/orders')),
    '200 user-1',
    'with the nonce that the app requires, and its public URL'
  )
  for (const url of ['http://localhost/orders?page=2', 'https://api.example/orders', 'orders', '/a/../orders']) {
    t.equal(summary(await client.inject(app, { url })), '200 user-1', url)
  }
  t.equal(await bearer(app, token), '200 user-1')
  idp.clock.advance(3600)
  t.equal(summary(await client.inject(app, '/orders')), '200 user-1')
  t.equal(await bearer(app, token), '401 token_expired')
  idp.clock.advance(3610)
  t.equal(summary(await client.inject(app, '/orders')), '401 token_expired')
})

t.test('The whole service is a plugin with the same options.', async t => {
  const idp = await createTestIssuer()
  const app = createApp(t)
  app.get('/own', () => 'own')
  await app.register(service, { ...idp.options, prefix: '/svc' })
  const client = await idp.dpopClient({ scope: 'read:messages' })
  t.equal((await client.inject(app, '/svc/api/private-scoped')).statusCode, 200)
  t.equal((await client.replay(app, '/svc/api/private-scoped')).statusCode, 401)
  t.equal(summary(await app.inject('/own')), '200 own')
  t.equal((await app.inject('/own')).headers['cache-control'], undefined, 'the routes around it do not change')
  await t.rejects(
    async () => Fastify().register(service, { idp: { domian: 'x' } } as never),
    /did you mean idp.domain\?/
  )
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
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    './cli/strip-types.js',
    '--input-type=module',
    '-e',
    script
  ], { cwd: root })
  for (const name of ['fastify', 'ajv']) t.ok(stdout.includes(`/node_modules/${name}/`), name)
  for (const name of ['@fastify/env', 'env-schema', '@fastify/jwt', 'fast-jwt', 'undici', 'get-jwks', 'ioredis']) {
    t.notOk(stdout.includes(`/node_modules/${name}/`), name)
  }
})

t.test('Options are judged as settings are.', async t => {
  const { options } = await createTestIssuer()
  await t.rejects(
    async () => appWith(t, { ...options, dpop: { nonce: 'sometimes' } } as never),
    /DPOP_NONCE \(dpop\.nonce\) is "sometimes"; allowed: off or required/
  )
  await t.rejects(async () => appWith(t, 'idp' as never), /options: expected an object with sections such as idp/)
  await t.rejects(
    async () => Fastify().register(service, ['idp'] as never),
    /options: expected an object with sections such as idp/
  )
  await t.resolves(appWith(t, { ...options, dpop: { nonce: 'off' } }))
})

t.test('Two test issuers in one app share one clock, and each token passes only by the key of its own issuer.', async t => {
  const red = await createTestIssuer({ issuer: 'https://red.test/', publicUrl: 'https://api.example' })
  const blue = await createTestIssuer({ issuer: 'https://blue.test/', beside: red })
  const green = await createTestIssuer({ beside: blue, audience: 'https://green-api.test' })
  t.strictSame(
    green.options.idp.issuers.map(({ issuer, audience, introspection }) => [issuer, audience, introspection?.for]),
    [
      ['https://red.test/', 'https://api.test', 'opaque'],
      ['https://blue.test/', 'https://api.test', undefined],
      ['https://issuer-3.test/', 'https://green-api.test', undefined]
    ]
  )
  const app = await appWith(t, green.options)
  const ask = (token: string) => bearer(app, token, '/issuer')
  app.get('/issuer', { onRequest: app.authenticate() }, request => request.auth!.issuer)
  t.equal(await ask(await red.token()), '200 https://red.test/')
  t.equal(await ask(await blue.token()), '200 https://blue.test/')
  t.equal(await ask(await green.token()), '200 https://issuer-3.test/')
  t.equal(await ask(await green.token({ aud: 'https://api.test' })), '401 token_audience')
  t.equal(await ask(await red.token({ iss: 'https://blue.test/' })), '401 token_signature', 'the key of another issuer')
  t.equal(await ask(await red.opaqueToken()), '200 https://red.test/')
  t.equal(
    summary(await (await blue.dpopClient()).inject(app, '/issuer')),
    '200 https://blue.test/',
    'the public URL is that of the app'
  )
  const token = await red.token()
  blue.clock.advance(3600)
  t.equal(red.clock.now(), blue.clock.now())
  t.equal(await ask(token), '401 token_expired')
  await t.rejects(blue.opaqueToken(), {
    message: 'Of several issuers, only one can have opaque tokens: here the one that was made first'
  })
  await t.rejects(createTestIssuer({ issuer: 'https://blue.test/', beside: blue }), {
    message: 'There is an issuer https://blue.test/ already: give the second one another name'
  })
  t.equal(
    await bearer(await appWith(t, red.options), await blue.token()),
    '401 token_issuer',
    'the options of the first are only for the first'
  )
})

t.test('The test issuer introspects its opaque tokens, as long as they have not expired.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, idp.options)
  const scope = 'read:orders'
  const token = await idp.opaqueToken({ scope, sub: 'ann' })
  t.notMatch(token, /\./)
  t.equal(await bearer(app, token), '200 ann')
  t.equal(await bearer(app, await idp.opaqueToken()), '403 scope_missing')
  t.equal(await bearer(app, `${token}x`), '401 token_inactive')
  t.equal(
    await bearer(app, await (await createTestIssuer()).opaqueToken({ scope })),
    '401 token_inactive',
    'another issuer made it'
  )
  t.equal(await bearer(app, await idp.opaqueToken({ scope, aud: 'https://another-api.test' })), '401 token_audience')
  idp.clock.advance(601)
  t.equal(await bearer(app, token), '401 token_inactive')
  const stranger = { ...idp.options.idp, introspection: { ...idp.options.idp.introspection!, clientSecret: 'another' } }
  t.equal(
    await bearer(await appWith(t, { ...idp.options, idp: stranger }), await idp.opaqueToken({ scope })),
    '503 introspection_unavailable',
    'only the client of the app may introspect'
  )
  const off = { ...idp.options.idp, introspection: undefined }
  t.equal(
    await bearer(await appWith(t, { ...idp.options, idp: off }), await idp.opaqueToken({ scope })),
    '401 token_malformed',
    'an app without introspection'
  )
})

t.test('A certificate client of the test issuer passes with its certificate; a thief of its token does not.', async t => {
  const idp = await createTestIssuer()
  const apps = {
    'no source': {},
    'client-cert': { clientCertificate: 'client-cert', trustProxy: true },
    nginx: { clientCertificate: 'nginx', trustProxy: true },
    xfcc: { clientCertificate: 'xfcc', trustProxy: true }
  } as const
  for (const [name, server] of Object.entries(apps)) {
    const app = await appWith(t, { ...idp.options, server })
    const client = await idp.certificateClient({ scope: 'read:orders', sub: 'ann' })
    t.equal(summary(await client.inject(app, '/orders')), '200 ann', name)
    t.equal(summary(await client.inject(app, { url: '/orders', headers: { 'x-more': '1' } })), '200 ann', name)
    t.equal(summary(await app.inject({ url: '/orders', headers: client.headers() })), '200 ann', name)
    t.equal(summary(await client.stolen(app, '/orders')), '401 certificate_mismatch', name)
    t.equal(await bearer(app, client.token), '401 certificate_missing', name)
    t.equal(
      await bearer(app, await idp.token({ scope: 'read:orders' })),
      '200 user-1',
      `${name}: the twin, without a binding`
    )
  }
  const untrusting = await appWith(t, {
    ...idp.options,
    server: { clientCertificate: 'client-cert', trustProxy: '10.0.0.1' }
  })
  t.equal(
    summary(await (await idp.certificateClient({ scope: 'read:orders' })).inject(untrusting, '/orders')),
    '401 certificate_missing',
    'what the app says of peers holds'
  )
  const { certificate } = await idp.certificateClient()
  const read = new X509Certificate(certificate)
  t.equal(read.subject, 'CN=test client')
  t.ok(read.verify(read.publicKey))
})

t.test('The test issuer revokes a user, a session and a token, and nothing else.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, { ...idp.options, revocation: {} })
  const scope = 'read:orders'
  const rows: ReadonlyArray<readonly [TestRevocation, object]> = [[{ sub: 'ann' }, { sub: 'bob' }], [{ sid: 's1' }, {
    sid: 's2'
  }], [{ jti: 'j1' }, { jti: 'j2' }]]
  for (const [what, other] of rows) {
    const [token, twin] = [
      await idp.token({ scope, sub: 'carl', ...what }),
      await idp.token({ scope, sub: 'carl', ...other })
    ]
    t.equal((await bearer(app, token)).slice(0, 3), '200')
    await idp.revoke(what)
    t.strictSame(
      [await bearer(app, token), (await bearer(app, twin)).slice(0, 3)],
      ['401 token_revoked', '200'],
      JSON.stringify(what)
    )
  }
  idp.clock.advance(1)
  t.strictSame([
    await bearer(app, await idp.token({ scope, sub: 'ann' })),
    await bearer(app, await idp.token({ scope, sid: 's1' }))
  ], ['200 ann', '401 token_revoked'])
})

t.test('The endpoints of revocation are under the prefix of the plugin, and of its scope, and nowhere else.', async t => {
  const idp = await createTestIssuer()
  const options = { ...idp.options, revocation: { operators: { scope: 'revoke' } } }
  const headers = { authorization: `Bearer ${await idp.token({ scope: 'revoke' })}` }
  const payload = { sub_id: { format: 'opaque', id: 's1' } }
  for (const [own, outer] of [['', ''], ['/own', ''], ['', '/outer'], ['/own', '/outer']] as const) {
    const app = createApp(t)
    await app.register(async scope => {
      await scope.register(holdfast, { ...options, ...own && { prefix: own } })
      scope.get('/orders', { onRequest: scope.authenticate() }, () => 'orders')
    }, { prefix: outer })
    const place = `${outer}${own}/revocation/subjects`
    for (const url of new Set([place, '/revocation/subjects'])) {
      const { statusCode } = await app.inject({ method: 'POST', url, headers, payload })
      t.equal(statusCode, url === place ? 204 : 404, `${url} of ${place}`)
    }
    t.equal((await app.inject({ url: `${outer}/orders`, headers })).statusCode, 200, 'no other route moves')
  }
})

t.test('The stream of a transmitter is meant to go where the endpoint is.', async t => {
  const remote = await startEventTransmitter(t)
  for (const [prefix, differs] of [['/own', undefined], ['', 'delivery']] as const) {
    remote.answers['GET /stream'] = [200, {
      stream_id: 's1',
      events_requested: KNOWN_EVENT_TYPES.slice(0, -2),
      delivery: { method: 'urn:ietf:rfc:8935', endpoint_url: 'https://api.example/outer/own/revocation/events' }
    }]
    const log: any[] = []
    const app = createApp(t, { logger: { stream: { write: line => log.push(JSON.parse(line)) } } })
    await app.register(async scope => {
      await scope.register(holdfast, {
        idp: { issuer: remote.url, audience: 'https://api.example' },
        prefix,
        server: { publicUrl: 'https://api.example' },
        revocation: {
          transmitters: [
            { issuer: remote.url, audience: 'receiver', delivery: 'push', verify: false, clientId: 'c', clientSecret: 's3cret-s3cret' }
          ]
        }
      })
    }, { prefix: '/outer' })
    await app.ready()
    await until('the stream is read', () => log.some(({ event }) => event === 'stream_enabled'))
    t.equal(log.find(({ event }) => event === 'stream_differs')?.differs.join(), differs)
  }
})

t.test('A test issuer says when a revocation would have no effect, and what it can revoke.', async t => {
  const idp = await createTestIssuer()
  await appWith(t, idp.options)
  const closed = await appWith(t, { ...idp.options, revocation: {} })
  await closed.close()
  await t.rejects(
    idp.revoke({ sub: 'ann' }),
    new Error(
      'No open app with these options knows revocations, so nothing would be refused. Give it the section: ' +
        'app.register(holdfast, { ...idp.options, revocation: {} })'
    )
  )
  for (const what of [{}, { sub: 'ann', sid: 's1' }, { email: 'ann@a.example' }, { sub: 1 }]) {
    await t.rejects(
      idp.revoke(what as unknown as TestRevocation),
      new TypeError("Say one of sub, sid and jti, as a text: idp.revoke({ sub: 'ann' })")
    )
  }
})

t.test('The app accepts events of the test transmitter about the tokens of its issuer.', async t => {
  const idp = await createTestIssuer()
  const transmitter = await createTestTransmitter({ beside: idp })
  const app = await appWith(t, { ...idp.options, revocation: { transmitters: [transmitter.options] } })
  const scope = 'read:orders'
  const [token, twin] = [await idp.token({ scope, sid: 's1' }), await idp.token({ scope, sid: 's2' })]
  t.strictSame([await bearer(app, token), await bearer(app, twin)], ['200 user-1', '200 user-1'])
  const session = { format: 'opaque', id: 's1' }
  t.equal(
    (await transmitter.push(app, 'session-revoked', session, { claims: { aud: 'another' } })).body,
    '{"err":"invalid_audience","description":"The token is meant for another audience."}'
  )
  t.equal(await bearer(app, token), '200 user-1')
  t.equal(summary(await transmitter.push(app, 'session-revoked', session)), '202 ')
  t.strictSame([await bearer(app, token), await bearer(app, twin)], ['401 token_revoked', '200 user-1'])
  const user = { format: 'iss_sub', iss: idp.options.idp.issuer, sub: 'user-1' }
  const credential = 'https://schemas.openid.net/secevent/caep/event-type/credential-change'
  await transmitter.push(app, credential, user, { event: { change_type: 'create' } })
  t.equal(await bearer(app, twin), '200 user-1')
  await transmitter.push(app, credential, user, { event: { change_type: 'update' } })
  t.equal(await bearer(app, twin), '401 token_revoked')
})

t.test(
  'A test transmitter beside the second of two issuers speaks for both, and about a user only at the issuer that ' +
    'it names.',
  async t => {
    const red = await createTestIssuer({ issuer: 'https://red.test/' })
    const blue = await createTestIssuer({ issuer: 'https://blue.test/', beside: red })
    for (
      const [beside, spokenFor] of [[blue, ['https://red.test/', 'https://blue.test/']], [red, [
        'https://red.test/'
      ]]] as const
    ) {
      const transmitter = await createTestTransmitter({ beside })
      t.strictSame(transmitter.options.tokenIssuers, spokenFor)
      const app = await appWith(t, { ...blue.options, revocation: { transmitters: [transmitter.options] } })
      const tokens = await Promise.all([red, blue].map(issuer => issuer.token({ scope: 'read:orders' })))
      const answers = () => Promise.all(tokens.map(token => bearer(app, token)))
      t.strictSame(await answers(), ['200 user-1', '200 user-1'])
      await transmitter.push(app, 'credential-change', { format: 'iss_sub', iss: 'https://red.test/', sub: 'user-1' }, {
        event: { change_type: 'update' }
      })
      t.strictSame(await answers(), ['401 token_revoked', '200 user-1'])
      await transmitter.push(
        app,
        'credential-change',
        { format: 'iss_sub', iss: 'https://blue.test/', sub: 'user-1' },
        {
          event: { change_type: 'update' }
        }
      )
      t.strictSame(await answers(), ['401 token_revoked', beside === blue ? '401 token_revoked' : '200 user-1'])
    }
  }
)

t.test('The clock of the test issuer moves rate limits, nonces and kept answers of introspection.', async t => {
  const idp = await createTestIssuer({ publicUrl: 'https://api.example' })
  const limited = await appWith(t, { ...idp.options, server: { ...idp.options.server, rateLimit: 2 } })
  const token = await idp.token({ scope: 'read:orders', exp: idp.clock.now() + 7200 })
  const answers = async (count: number) => {
    const seen: string[] = []
    while (seen.length < count) seen.push(await bearer(limited, token))
    return seen
  }
  t.strictSame(await answers(3), ['200 user-1', '200 user-1', '429 rate_limited'])
  idp.clock.advance(59)
  t.strictSame(await answers(1), ['429 rate_limited'])
  idp.clock.advance(1)
  t.strictSame(await answers(3), ['200 user-1', '200 user-1', '429 rate_limited'])

  const app = await appWith(t, { ...idp.options, dpop: { nonce: 'required' } })
  const client = await idp.dpopClient({ scope: 'read:orders', exp: idp.clock.now() + 7200 })
  const ask = (nonce?: string) =>
    app.inject({ url: '/orders', headers: { ...client.headers('GET', 'https://api.example/orders', nonce) } })
  const nonce = String((await ask()).headers['dpop-nonce'])
  t.equal(summary(await ask(nonce)), '200 user-1')
  idp.clock.advance(601)
  t.equal(summary(await ask(nonce)), '401 nonce_stale')

  const opaque = await idp.opaqueToken({ scope: 'read:orders', exp: idp.clock.now() + 5 })
  t.equal(await bearer(limited, opaque), '200 user-1')
  idp.clock.advance(11)
  t.equal(await bearer(limited, opaque), '401 token_inactive')
})

t.test('The trustProxy of the app holds for the guard too, unless its options say otherwise.', async t => {
  const idp = await createTestIssuer()
  const client = await idp.dpopClient({ scope: 'read:orders' })
  const ask = async (app: FastifyInstance, url: string) =>
    summary(
      await app.inject({
        url: '/orders',
        headers: {
          host: 'inner',
          'x-forwarded-proto': 'https',
          'x-forwarded-host': 'api.example',
          ...client.headers('GET', url)
        }
      })
    )
  const [outer, inner] = ['https://api.example/orders', 'http://inner/orders']
  const rows: ReadonlyArray<
    readonly [name: string, trustProxy: FastifyServerOptions['trustProxy'], server: object, isTrusted: boolean]
  > = [
    ['nothing said', undefined, {}, false],
    ['true', true, {}, true],
    ['false', false, {}, false],
    ['a list with the peer', ['10.0.0.1', '127.0.0.0/8'], {}, true],
    ['a list without it', ['10.0.0.1'], {}, false],
    ['a text', '10.0.0.1, loopback', {}, true],
    ['a function', address => address === '127.0.0.1', {}, true],
    ['a function that refuses', () => false, {}, false],
    ['a function without a boolean', (() => 1) as never, {}, false],
    ['a number', 1 as never, {}, false],
    ['another word of the options', true, { trustProxy: false }, false],
    ['the same against a function', () => true, { trustProxy: '10.0.0.1' }, false],
    ['only the word of the options', undefined, { trustProxy: true }, true]
  ]
  for (const [name, trustProxy, server, isTrusted] of rows) {
    const app = await appWith(t, { ...idp.options, server }, { ...(trustProxy !== undefined && { trustProxy }) })
    t.equal(await ask(app, isTrusted ? outer : inner), '200 user-1', name)
    t.equal(await ask(app, isTrusted ? inner : outer), '401 htu_mismatch', name)
  }
  t.strictSame(
    withTrustOf({}, givensOf({})),
    { options: givensOf({}), trustPeer: undefined },
    'an app that keeps its options elsewhere trusts no peer'
  )
  const around = createApp(t, { trustProxy: true })
  await around.register(service, { ...idp.options, revocation: { operators: { scope: 'revoke' } } })
  const operator = await idp.dpopClient({ scope: 'revoke' })
  const revoke = async (url: string) => {
    const headers = {
      host: 'inner',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'api.example',
      ...operator.headers('POST', url)
    }
    return (await around.inject({
      method: 'POST',
      url: '/revocation/subjects',
      headers,
      payload: { sub_id: { format: 'jwt_id', iss: 'https://issuer.test/', jti: '1' } }
    })).statusCode
  }
  t.equal(await revoke('https://api.example/revocation/subjects'), 204, 'the service as a plugin')
  t.equal(await revoke('http://inner/revocation/subjects'), 401)
})

t.test('Two scopes of one app have guards of their own.', async t => {
  const [red, blue] = await Promise.all([
    createTestIssuer({ issuer: 'https://red.test/' }),
    createTestIssuer({ issuer: 'https://blue.test' })
  ])
  const app = createApp(t)
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

t.test("It works beside the app's own @fastify/jwt, registered before or after it.", async t => {
  const idp = await createTestIssuer()
  for (const isFirst of [true, false]) {
    const app = createApp(t)
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
    t.hasStrict(JSON.parse((await bearer(app, app.jwt.sign({ sub: 'own' } as never), '/session')).slice(4)), {
      session: { sub: 'own' },
      user: null
    })
    t.match(await bearer(app, app.jwt.sign({ sub: 'own' } as never)), /^401/)
  }
})

t.test('It works in HTTPS and HTTP/2 servers, and behind rewriteUrl.', async t => {
  const idp = await createTestIssuer()
  const tls = {
    key: readFileSync(join(root, 'test/fixtures/provider.key.pem')),
    cert: readFileSync(join(root, 'test/fixtures/provider.cert.pem'))
  }
  const headersFor = (url: string) =>
    idp.dpopClient({ scope: 'read:orders' }).then(client => client.headers('GET', url))

  const secure = await appWith(t, idp.options, { https: tls } as FastifyServerOptions)
  const url = `${(await secure.listen({ port: 0, host: '127.0.0.1' }))}/orders`
  t.equal(await getOverTls(url, await headersFor(url)), '200 user-1')
  t.equal(await getOverTls(url, await headersFor(url.replace('https:', 'http:'))), '401 htu_mismatch')

  const second = await appWith(t, idp.options, { http2: true, https: tls } as FastifyServerOptions)
  const url2 = `${(await second.listen({ port: 0, host: '127.0.0.1' }))}/orders`
  t.equal(await getOverHttp2(url2, await headersFor(url2)), '200 user-1')
  t.equal(await getOverHttp2(url2, await headersFor(url2.replace('https:', 'http:'))), '401 htu_mismatch')

  const rewritten = await appWith(t, idp.options, { rewriteUrl: request => request.url!.replace('/v1/', '/') })
  t.equal(
    summary(await rewritten.inject({ url: '/v1/orders', headers: await headersFor('http://localhost/v1/orders') })),
    '200 user-1',
    'the proof is for the URL that the client called'
  )
})

t.test('The whole service lets an HTTPS or HTTP/2 app answer what is in flight when it closes.', async t => {
  const { options, dpopClient } = await createTestIssuer()
  const tls = {
    key: readFileSync(join(root, 'test/fixtures/provider.key.pem')),
    cert: readFileSync(join(root, 'test/fixtures/provider.cert.pem'))
  }
  for (const get of [getOverTls, getOverHttp2]) {
    const app = createApp(t, { https: tls, http2: get === getOverHttp2 } as FastifyServerOptions)
    await app.register(service, options)
    const begun = new Promise<void>(resolve => {
      // Longer than the drain and the silence after which a connection would end.
      app.get('/slow', () => {
        resolve()
        return delay(1500, 'whole')
      })
    })
    const url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/slow`
    const answer = get(url, (await dpopClient()).headers('GET', url))
    await begun
    const closed = app.close()
    t.equal(await answer, '200 whole')
    await closed
  }
})

t.test('It works as one of several strategies of @fastify/auth.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, idp.options)
  await app.register(fastifyAuth)
  const byKey = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void) =>
    done(request.headers['x-key'] === 'good' ? undefined : new Error('wrong key'))
  app.get(
    '/either',
    { onRequest: app.auth([byKey, app.requireScope('read:orders')]) },
    request => request.auth?.scheme ?? 'key'
  )
  app.get(
    '/both',
    { onRequest: app.auth([byKey, app.requireScope('read:orders')], { relation: 'and' }) },
    request => request.auth!.scheme
  )
  const get = (url: string, token: string, key: string) =>
    app.inject({ url, headers: { authorization: `Bearer ${token}`, 'x-key': key } }).then(summary)
  const good = await idp.token({ scope: 'read:orders' })
  const expired = await idp.expiredToken({ scope: 'read:orders' })
  t.equal(await get('/either', good, 'bad'), '200 Bearer')
  t.equal(await get('/either', expired, 'good'), '200 key')
  t.equal(await get('/either', expired, 'bad'), '401 token_expired', 'the last way in answers')
  t.equal(await get('/both', good, 'good'), '200 Bearer')
  t.equal(await get('/both', expired, 'good'), '401 token_expired')
  t.match(await get('/both', good, 'bad'), /^401 .*wrong key/)
})

t.test('It guards the handshake of a WebSocket, and gives the app the time to end it.', async t => {
  const idp = await createTestIssuer()
  const app = createApp(t)
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
  t.strictSame((await once(socket, 'close')).map(String), ['4401', 'token expired'])

  const refused = async (headers: object) => {
    const [request, answer] = await once(new WebSocket(url, { headers: { ...headers } }), 'unexpected-response') as [
      ClientRequest,
      IncomingMessage
    ]
    request.destroy()
    return answer.statusCode
  }
  t.equal(await refused(headers), 401, 'the proof has been used')
  t.equal(await refused({}), 401, 'no credentials')
  const without = await idp.dpopClient()
  t.equal(await refused(without.headers('GET', 'https://api.example/live')), 403, 'without the scope')
})

t.test('It guards a WebSocket that a test opens by injectWS.', async t => {
  const idp = await createTestIssuer()
  const app = createApp(t)
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
  for (
    const headers of [{ host, ...proof() }, { host, 'X-Forwarded-Proto': 'https', ...overTls() }, {
      host,
      dpop: undefined,
      Authorization: `Bearer ${await idp.token({ scope: 'read:orders', sub: 'ann' })}`
    }]
  ) {
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
    await t.rejects(
      app.injectWS('/live', headers && { headers }),
      { message: `Unexpected server response: ${status}` },
      reason
    )
    t.equal(reasons.pop(), reason)
  }
})

t.test('With nonces, injectWS takes the one that a refused request has brought.', async t => {
  const idp = await createTestIssuer()
  const app = createApp(t)
  await app.register(fastifyWebsocket)
  await app.register(holdfast, { ...idp.options, dpop: { nonce: 'required' } })
  app.get('/live', { websocket: true, onRequest: app.authenticate() }, socket => socket.send('open'))
  await app.ready()
  const client = await idp.dpopClient()
  const headers = (nonce?: string) => ({ host: 'localhost', ...client.headers('GET', 'http://localhost/live', nonce) })
  await t.rejects(app.injectWS('/live', { headers: headers() }), { message: 'Unexpected server response: 401' })
  const { headers: refused } = await app.inject({ url: '/live', headers: headers() })
  const socket = await app.injectWS('/live', { headers: headers(refused['dpop-nonce'] as string) })
  t.equal(socket.readyState, socket.OPEN)
  socket.terminate()
})

t.test('It guards server-sent events, and gives the app the time to end them.', async t => {
  const idp = await createTestIssuer()
  const app = await appWith(t, idp.options)
  app.get(
    '/events',
    { onRequest: app.requireScope('read:orders') },
    (request, reply) => reply.type('text/event-stream').send(Readable.from(events(request.auth!.expiresAt)))
  )
  async function * events (expiresAt: number) {
    for (; idp.clock.now() < expiresAt; idp.clock.advance(300)) yield `data: ${expiresAt - idp.clock.now()} s left\n\n`
  }
  const client = await idp.dpopClient({ scope: 'read:orders' })
  const answer = await client.inject(app, '/events')
  t.match(answer.headers['content-type'], /^text\/event-stream/)
  // The clock goes on by itself too.
  t.match(summary(answer), /^200 data: (?:600|59\d) s left\n\ndata: (?:300|29\d) s left\n\n$/)
  idp.clock.advance(10)
  t.equal(summary(await client.inject(app, '/events')), '401 token_expired')
})
