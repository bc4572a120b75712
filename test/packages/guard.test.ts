import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, IncomingMessage } from 'node:http'
import { connect, createServer as createHttp2Server, type Http2ServerRequest } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createGuard, type GuardOptions, type NodeRequest, type RequestGuard } from '../../packages/holdfast/guard.ts'
import holdfast from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import type { HoldfastOptions } from '../../lib/settings/option-types.ts'
import { createApp } from '../helpers/app.ts'
import { untilNonceStays } from '../helpers/clock.ts'
import { startFakeRedis } from '../helpers/fake-redis.ts'
import { until } from '../helpers/until.ts'

const URL_ = 'https://api.test/orders?page=2'
const ignore = () => {}
const silent = { info: ignore, warn: ignore, error: ignore, debug: ignore }

async function start (t: Test, more: object = {}) {
  const idp = await createTestIssuer()
  const guard = await createGuard({ logger: silent, ...idp.options, ...more } as HoldfastOptions & GuardOptions)
  t.teardown(() => guard.close())
  const client = await idp.dpopClient({ scope: 'a' })
  const request = (headers: object = client.headers('GET', URL_), url = URL_) =>
    new Request(url, { headers: { ...headers } })
  return { idp, guard, client, request }
}

/** What a request has found, in a word. */
async function reasonOf (
  guard: RequestGuard,
  ...args: Parameters<RequestGuard['check']>
) {
  const verdict = await guard.check(...args)
  return verdict.admitted ? `admitted ${verdict.user?.sub}` : verdict.reason
}

t.test('A Request of the Fetch standard is judged by its URL, and a comma in a header is a second line.', async t => {
  const { guard, client, request, idp } = await start(t)
  const token = await idp.token()
  const good = client.headers('GET', URL_)
  const wrong = client.headers('GET', 'https://other.test/orders')
  const rows: ReadonlyArray<readonly [title: string, request: Request, expected: string]> = [
    ['good', request(), 'admitted user-1'],
    ['another host', request(wrong), 'htu_mismatch'],
    ['its Host line', request({ ...client.headers('GET', URL_), host: 'other.test' }), 'admitted user-1'],
    ['two proofs', request({ ...good, dpop: `${good.dpop}, ${wrong.dpop}` }), 'proof_repeated'],
    ['two tokens', request({ authorization: `Bearer ${token}, Bearer ${token}` }), 'authorization_repeated'],
    ['one token', request({ authorization: `Bearer ${token}` }), 'admitted user-1'],
    ['no host', { method: 'GET', url: '/orders', headers: request(client.headers('GET', URL_)).headers } as Request, 'host_invalid'],
    ['another scheme', request(client.headers('GET', 'http://api.test/orders'), 'ftp://api.test/orders'), 'host_invalid'],
    ['a file', request(client.headers('GET', URL_), 'file:///orders'), 'host_invalid'],
    ['nothing', request({}), 'credentials_missing']
  ]
  for (const [title, request, expected] of rows) t.equal(await reasonOf(guard, request), expected, title)
  const twice = await guard.check(request({ authorization: `DPoP ${token}, Bearer ${token}` }))
  t.match(twice.headers['www-authenticate'], /^Bearer, DPoP error="invalid_request"/, 'on the scheme of the first line')
  const used = new Request(URL_, { method: 'POST', body: 'x', headers: { ...client.headers('POST', URL_) } })
  await used.text()
  t.equal(await reasonOf(guard, used), 'admitted user-1', 'its body is used')
  const controller = new AbortController()
  const aborted = new Request(URL_, { signal: controller.signal, headers: { ...client.headers('GET', URL_) } })
  controller.abort()
  t.equal(await reasonOf(guard, aborted), 'admitted user-1', 'aborted')
})

t.test('The peer, the method and the target may be said.', async t => {
  const { guard, client, request } = await start(t, { server: { trustProxy: ['192.0.2.1'] } })
  const behind = () =>
    request({ ...client.headers('GET', 'https://public.test/base/orders'), 'x-forwarded-host': 'public.test', 'x-forwarded-prefix': '/base' })
  t.equal(await reasonOf(guard, behind(), {}, { peer: '192.0.2.1' }), 'admitted user-1')
  t.equal(await reasonOf(guard, behind(), {}, { peer: '192.0.2.2' }), 'htu_mismatch')
  t.equal(await reasonOf(guard, behind()), 'htu_mismatch')
  t.equal(await reasonOf(guard, request(client.headers('PUT', URL_)), {}, { method: 'PUT' }), 'admitted user-1')
  t.equal(await reasonOf(guard, request(client.headers('GET', 'https://api.test/v1/x')), {}, { url: '/v1/x?y' }), 'admitted user-1')
  t.equal(await reasonOf(guard, request(client.headers('GET', 'https://api.test/v1')), {}, { url: 'https://evil.test/v1' }), 'target_authority')
})

t.test('Beside a peer that is said, the connection of a request of node:http is read all the same.', async t => {
  const { guard, idp } = await start(t, { server: { trustProxy: ['192.0.2.1'] } })
  const certified = await idp.certificateClient()
  const other = await start(t, { ...idp.options, server: { clientCertificate: 'socket' } })
  const { raw } = new X509Certificate(certified.certificate)
  const lines = (count: number) => ['Authorization', `Bearer ${certified.token}`, ...Array(count).fill('X')] as string[]
  const requestOf = (rawHeaders: string[], socket: object) =>
    ({ method: 'GET', url: '/', headers: {}, rawHeaders, socket }) as unknown as NodeRequest
  const socket = { server: { maxHeadersCount: 5 }, getPeerX509Certificate: () => ({ raw }) }
  const options = { peer: '192.0.2.1' }
  t.equal(await reasonOf(other.guard, requestOf(lines(0), socket), {}, options), 'admitted user-1')
  t.equal(await reasonOf(other.guard, requestOf(lines(0), {}), {}, options), 'certificate_missing')
  t.equal(await reasonOf(guard, requestOf(lines(8), socket), {}, options), 'headers_uncounted')
  t.equal(await reasonOf(guard, requestOf(lines(8), {}), {}, options), 'certificate_missing', 'the twin: a server with more lines')
})

t.test('One request is judged once, however often it is checked.', async t => {
  const { guard, request } = await start(t)
  const one = request()
  t.strictSame(
    await Promise.all([reasonOf(guard, one), reasonOf(guard, one, { scope: 'a' }), reasonOf(guard, one, { scope: 'b' })]),
    ['admitted user-1', 'admitted user-1', 'scope_missing']
  )
  t.equal(await reasonOf(guard, one, { claims: { sub: 'user-1' } }), 'admitted user-1', 'and later')
  t.equal(await reasonOf(guard, new Request(one)), 'proof_replayed', 'the twin: another request with the same proof')
})

t.test('A refusal is a whole answer, and an admission holds a newer nonce.', async t => {
  const { guard, client, request, idp } = await start(t, { dpop: { nonce: 'required' } })
  await untilNonceStays()
  const first = await guard.check(request())
  if (first.admitted) return t.fail('there is no nonce')
  const nonce = first.headers['dpop-nonce']!
  const { 'www-authenticate': challenge, ...headers } = first.headers
  t.hasStrict(first, { status: 401, reason: 'nonce_missing' })
  t.hasStrict(JSON.parse(first.body), { statusCode: 401, error: 'Unauthorized' })
  t.match(challenge, /^DPoP error="use_dpop_nonce"/)
  t.strictSame(headers, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'dpop-nonce': nonce
  })
  t.hasStrict(await guard.check(request(client.headers('GET', URL_, nonce))), {
    admitted: true,
    user: { sub: 'user-1' },
    auth: { scheme: 'DPoP', scopes: ['a'] },
    headers: {}
  })
  idp.clock.advance(100)
  const old = await guard.check(request(client.headers('GET', URL_, nonce)), { scope: 'b' })
  t.match([old.admitted, old.headers['dpop-nonce']], [false, /./], 'a missing scope has it too, as with the plugin')
  t.strictSame(
    await guard.check(request({}), { optional: true }),
    { admitted: true, user: null, auth: null, headers: {} }
  )
})

t.test('What the code says wrongly is an error in words; what a predicate throws is none of the client.', async t => {
  const { guard, request } = await start(t)
  await t.rejects(guard.check(request(), 'a' as never), { name: 'TypeError', message: /require takes one plain object/ })
  await t.rejects(guard.check(request(), null as never), { name: 'TypeError', message: /require takes one plain object/ })
  await t.rejects(guard.check(request(), { scop: 'a' } as never), { message: /there is no member "scop"/ })
  await t.rejects(guard.check(request(), {}, { peer: 7 } as never), { message: /check: peer is not an option, or no text/ })
  await t.rejects(guard.check(request(), {}, { prer: '::1' } as never), { message: /check: prer is not an option/ })
  for (const wrong of [undefined, null, 'x', { headers: {}, url: '/' }, { req: {} }]) {
    await t.rejects(guard.check(wrong as never), { name: 'TypeError', message: /^check takes a request/ })
  }
  const claims = { sub: () => Promise.reject(new Error('down')) }
  await t.rejects(guard.check(request(), { claims }), { message: /The predicate for the claim/ })
  for (const wrong of [null, 7, '::1', []]) {
    await t.rejects(guard.check(request(), {}, wrong as never), { message: /^check: .* is not an option/ })
  }
  for (const wrong of [undefined, null, 'idp', []]) {
    await t.rejects(createGuard(wrong as never), { name: 'SettingsError', message: /options: expected an object/ })
  }
  await t.rejects(createGuard({ idp: { domian: 'x' } } as never), { name: 'SettingsError', message: /domian/ })
  for (const [name, value] of [['logger', {}], ['scopes', 'a'], ['route', 7]] as const) {
    await t.rejects(
      createGuard({ idp: { domain: 'a.test', audience: 'x' }, [name]: value } as never),
      { name: 'SettingsError', message: new RegExp(`${name}: expected`) }
    )
  }
})

t.test('A start that fails leaves nothing open.', async t => {
  const redis = await startFakeRedis()
  t.teardown(() => redis.stop())
  const { options } = await createTestIssuer()
  const given = { ...options, logger: silent, dpop: { replay: `redis://127.0.0.1:${redis.port}` } }
  const transmitters = [{ issuer: 'https://t.test', audience: 'a', delivery: 'push', pushAuthorization: { env: 'NO_SUCH' } }]
  const plugin = async (more: object, decorator = 'own') => {
    const app = createApp(t)
    app.decorate(decorator, ignore)
    const { logger: _logger, ...own } = given
    try {
      await app.register(holdfast, { ...own, ...more } as HoldfastOptions)
    } finally {
      await app.close()
    }
  }
  const rows: ReadonlyArray<readonly [title: string, start: () => Promise<unknown>, fault: RegExp]> = [
    ['the audit', () => createGuard({ ...given, audit: { to: '/no/such/folder/audit' } }), /cannot be written/],
    ['a secret', () => createGuard({ ...given, revocation: { transmitters } } as HoldfastOptions), /NO_SUCH/],
    ['a secret of the plugin', () => plugin({ revocation: { transmitters } }), /NO_SUCH/],
    ['a name of the app', () => plugin({}, 'requireScope'), /requireScope/]
  ]
  for (const [title, begin, fault] of rows) {
    await t.rejects(begin(), { message: fault }, title)
    // Until it would have connected.
    await delay(200)
    await until(`nothing is open: ${title}`, () => redis.open === 0)
  }
  const { guard } = await start(t, given)
  await until('the twin: it is connected', () => redis.open === 1)
  await guard.close()
  await until('nothing is open after the end', () => redis.open === 0)
})

t.test('It is ready once it has keys, and judges nothing after its end.', async t => {
  const { guard, request, idp } = await start(t)
  t.equal(await reasonOf(guard, request({ authorization: `Bearer ${await idp.token()}` })), 'admitted user-1')
  t.hasStrict(await guard.ready(), { status: 200, body: { status: 'ok', checks: { process: 'ok', keys: 'ok', replay: 'ok' } } })
  await Promise.all([guard.close(), guard.close()])
  t.hasStrict(await guard.ready(), { status: 503, body: { checks: { process: 'closing' } } })
  await t.rejects(guard.check(request()), { message: /^The guard is closed/ })
})

t.test('The metadata of RFC 9728 is that of the service, without its pages.', async t => {
  const { guard, request } = await start(t, { scopes: ['b', 'a'] })
  t.strictSame(guard.metadata(request({})), {
    resource: 'https://api.test',
    authorization_servers: ['https://issuer.test/'],
    scopes_supported: ['a', 'b'],
    bearer_methods_supported: ['header'],
    resource_name: 'api.test',
    dpop_bound_access_tokens_required: false,
    dpop_signing_alg_values_supported: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256'],
    tls_client_certificate_bound_access_tokens: true
  })
  const warnings: unknown[] = []
  const logger = { ...silent, warn: (line: unknown) => warnings.push(line) }
  const other = await start(t, { logger, ...(await createTestIssuer({ audience: 'api' })).options })
  for (let n = 0; n < 2; n++) other.guard.metadata(request({}))
  t.equal(warnings.filter(line => /RESOURCE is not set/.test(String(line))).length, 1, 'a warning is told once')
  t.throws(
    () => guard.metadata({ url: '/', method: 'GET', headers: new Headers() }),
    { message: /host/, status: 400 } as object as Error
  )
})

t.test('Each decision is a line of the record, and each refusal one of the log.', async t => {
  const path = join(t.testdir({}), 'audit.log')
  const logged: object[] = []
  const logger = { ...silent, info: (fields: object) => logged.push(fields) }
  const { guard, request, idp } = await start(t, {
    audit: { to: path },
    server: { trustProxy: ['192.0.2.1'] },
    route: (request: { url: string }) => new URL(request.url).pathname,
    logger
  })
  const one = request({ authorization: `Bearer ${await idp.token({ jti: 'j' })}`, 'x-forwarded-for': '203.0.113.7' })
  await guard.check(one, {}, { peer: '192.0.2.1' })
  await guard.check(one, { scope: 'b' })
  await guard.check(request({}), {}, { peer: '192.0.2.2' })
  const socket: { remoteAddress?: string } = { remoteAddress: '192.0.2.3' }
  const lines0 = ['Authorization', `Bearer ${await idp.opaqueToken()}`]
  const gone = guard.check({ method: 'GET', url: URL_, headers: {}, rawHeaders: lines0, socket } as unknown as NodeRequest)
  delete socket.remoteAddress
  await gone
  const lines = readFileSync(path, 'utf8').trim().split('\n').map(line => JSON.parse(line) as object)
  const known = { method: 'GET', route: '/orders', subject: 'user-1', ip: '203.0.113.7', jti: 'j' }
  t.hasStrict(lines, [
    { decision: 'admitted', ...known },
    { decision: 'refused', reason: 'scope_missing', status: 403, ...known },
    { decision: 'refused', reason: 'credentials_missing', status: 401, ip: '192.0.2.2' },
    { decision: 'admitted', ip: '192.0.2.3' }
  ])
  t.hasStrict(logged.filter(fields => 'reason' in fields), [
    { reason: 'scope_missing', route: '/orders', reqId: (lines[1] as { id: string }).id },
    { reason: 'credentials_missing' }
  ])
})

t.test('A revoked token is refused, and its signal aborts.', async t => {
  const { guard, request, idp } = await start(t, { revocation: {} })
  const one = { authorization: `Bearer ${await idp.token({ jti: 'j1' })}` }
  const verdict = await guard.check(request(one))
  await idp.revoke({ jti: 'j1' } as never)
  t.equal(await reasonOf(guard, request(one)), 'token_revoked')
  const { signal } = (verdict as { auth: { signal: AbortSignal } }).auth
  // No timer of the guard keeps a process alive.
  const awake = setInterval(ignore, 1000)
  if (!signal.aborted) await once(signal, 'abort')
  clearInterval(awake)
  t.hasStrict(signal.reason, { code: 'token_revoked' })
})

t.test('The audit goes into a logger that makes no others, with its time.', async t => {
  const lines: object[] = []
  const { guard, request } = await start(t, { audit: 'log', logger: { ...silent, info: (line: object) => lines.push(line) } })
  const { options } = await createTestIssuer()
  await t.rejects(createGuard({ ...options, audit: 'log' }), { name: 'SettingsError', message: /there is no logger/ })
  await guard.check(request())
  const [line] = lines.filter(line => 'decision' in line)
  t.match(line, { time: /^\d{4}-/, decision: /^admitted$/, subject: /^user-1$/ })
})

t.test('While refusals are only observed, a request passes as nobody.', async t => {
  const observe = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)
  const { guard, request } = await start(t, { server: { observe } })
  t.strictSame(await guard.check(request({ authorization: 'Bearer x' })), {
    admitted: true,
    user: null,
    auth: null,
    headers: {},
    observed: { status: 401, reason: 'token_inactive' }
  })
  t.hasStrict(await guard.check(request()), { admitted: true, user: { sub: 'user-1' }, observed: undefined })
})

t.test('A framework may have rewritten the target of a request of node:http: what was sent counts.', async t => {
  const { guard, client } = await start(t)
  const server = createServer((request: NodeRequest & { url?: string, originalUrl?: string }, response) => {
    request.originalUrl = request.url!
    request.url = '/'
    reasonOf(guard, request as NodeRequest).then(reason => response.end(reason))
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mounted/orders`
  t.equal(await (await fetch(url, { headers: { ...client.headers('GET', url) } })).text(), 'admitted user-1')
  t.equal(await (await fetch(url, { headers: { ...client.headers('GET', new URL('/', url).href) } })).text(), 'htu_mismatch')
})

t.test('A request that an adapter has made of headers has no raw lines.', async t => {
  const { guard, client } = await start(t)
  const adapted = (headers: object) =>
    Object.assign(new IncomingMessage({ encrypted: true } as never), { method: 'GET', url: '/orders', headers })
  const headers = () => ({ host: 'api.test', ...client.headers('GET', URL_) })
  t.equal(await reasonOf(guard, adapted(headers())), 'admitted user-1')
  t.equal(await reasonOf(guard, adapted({ ...headers(), host: 'other.test' })), 'htu_mismatch')
  t.equal(await reasonOf(guard, adapted({})), 'credentials_missing')
  t.hasStrict(guard.metadata(adapted({ host: 'own.test' })), { resource: 'https://api.test' })
  t.throws(() => guard.metadata(adapted({})), { message: 'The host of the request is not valid.' })
})

t.test('A request of HTTP/2 has its host in :authority, and may have ended.', async t => {
  const { guard, client } = await start(t)
  let endedOne: (request: Http2ServerRequest) => void
  const aborted = new Promise<Http2ServerRequest>(resolve => {
    endedOne = resolve
  })
  const server = createHttp2Server((request, response) => {
    if (request.url !== '/aborted') reasonOf(guard, request).then(reason => response.end(reason))
    else {
      request.once('close', () => endedOne(request))
      session.destroy()
    }
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const session = connect(origin)
  const stream = session.request({ ':path': '/orders', ...client.headers('GET', `${origin}/orders`) })
  stream.setEncoding('utf8')
  let text = ''
  for await (const chunk of stream) text += chunk
  t.equal(text, 'admitted user-1')
  const rawHeaders = Object.entries(client.headers('CONNECT', `${origin}/`)).flat()
  const tunnel = { method: 'CONNECT', headers: {}, rawHeaders: [':authority', 'h:1', ...rawHeaders], socket: {} }
  t.equal(await reasonOf(guard, tunnel as unknown as NodeRequest), 'target_path', 'a CONNECT has no path')
  const ended = session.request({ ':path': '/aborted', ...client.headers('GET', `${origin}/aborted`) })
  ended.on('error', ignore)
  const request = await aborted
  t.type(await reasonOf(guard, request), 'string', 'it has an answer, whatever is left of it')
})
