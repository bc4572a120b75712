import t from 'tap'
import { exactly } from '../helpers/containing.ts'
import { startApp } from '../helpers/app.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const ORIGIN = 'https://app.example'
const EXPOSED = 'WWW-Authenticate, DPoP-Nonce, Retry-After'
const preflight = (origin: string) => ({
  origin,
  'access-control-request-method': 'GET',
  'access-control-request-headers': 'authorization,dpop'
})

t.test('Preflight is answered before authentication, for the configured origins', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { CORS_ORIGINS: [ORIGIN, 'http://localhost:5173'] })
  for (const url of ['/api/private', '/api/public', '/nothing']) {
    const answer = await app.inject({ method: 'OPTIONS', url, headers: preflight(ORIGIN) })
    t.match([answer.statusCode, answer.headers], [204, {
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-headers': exactly('Authorization, DPoP, Content-Type'),
      'access-control-allow-methods': exactly('GET, HEAD, POST, PUT, PATCH, DELETE'),
      'access-control-allow-credentials': undefined,
      'access-control-max-age': exactly('600'),
      'cache-control': exactly('no-store'),
      'www-authenticate': undefined,
      vary: /Origin/
    }], url)
  }
  const other = await app.inject({
    method: 'OPTIONS',
    url: '/api/private',
    headers: preflight('https://other.example')
  })
  t.equal(other.headers['access-control-allow-origin'], undefined, 'another origin is not allowed')
  t.equal(other.headers['cache-control'], 'no-store')
  const { origin, ...withoutOrigin } = preflight(ORIGIN)
  for (const headers of [{}, { origin }, withoutOrigin]) {
    const plain = await app.inject({ method: 'OPTIONS', url: '/api/private', headers })
    t.strictSame(
      [plain.statusCode, plain.json().error],
      [404, 'Not Found'],
      'OPTIONS that is no preflight is an unknown method'
    )
  }
})

t.test('An origin may be written with capital letters, which no browser sends', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { CORS_ORIGINS: ['https://App.Example'] })
  const answer = await app.inject({ url: '/api/public', headers: { origin: ORIGIN } })
  t.equal(answer.headers['access-control-allow-origin'], ORIGIN)
})

t.test('The headers that a client must read are exposed on every answer', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { CORS_ORIGINS: [ORIGIN] }, app => {
    app.get('/fault', () => {
      throw new Error('a fault')
    })
  })
  const headers = { origin: ORIGIN }
  const expected = { 'access-control-allow-origin': ORIGIN, 'access-control-expose-headers': EXPOSED }
  const rows: Array<{ path: string, status: number, headers: Record<string, string> }> = [
    { path: '/api/public', status: 200, headers },
    { path: '/api/private', status: 200, headers: { ...headers, authorization: `Bearer ${issuer.token()}` } },
    { path: '/api/private', status: 401, headers },
    { path: '/api/admin', status: 403, headers: { ...headers, authorization: `Bearer ${issuer.token()}` } },
    { path: '/nothing', status: 404, headers },
    { path: '/fault', status: 500, headers }
  ]
  for (const { path, status, headers } of rows) {
    const answer = await app.inject({ url: path, headers })
    t.hasStrict([answer.statusCode, answer.headers], [status, expected], `${path} ${status}`)
  }
  issuer.outage = 500
  const down = await startApp(t, issuer, { CORS_ORIGINS: [ORIGIN] })
  const answer = await fetch(`${down.url}/api/private`, {
    headers: { ...headers, authorization: `Bearer ${issuer.token({}, { kid: 'k9' })}` }
  })
  t.hasStrict([answer.status, Object.fromEntries(answer.headers)], [503, expected], '503')
})

t.test('Further headers may be sent and read, through a gate too.', async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const more = ['MCP-Protocol-Version', 'Mcp-Session-Id']
  const gate = { upstream: upstream.origin, rules: [{ path: '/mcp' }] }
  for (const [path, settings] of [['/api/private', {}], ['/mcp', { GATE: gate }]] as const) {
    const { app } = await startApp(t, issuer, { CORS_ORIGINS: [ORIGIN], CORS_HEADERS: more, ...settings })
    const asked = { ...preflight(ORIGIN), 'access-control-request-headers': 'authorization,mcp-protocol-version' }
    const before = await app.inject({ method: 'OPTIONS', url: path, headers: asked })
    t.equal(
      before.headers['access-control-allow-headers'],
      'Authorization, DPoP, Content-Type, MCP-Protocol-Version, Mcp-Session-Id',
      path
    )
    for (const [status, authorization] of [[200, `Bearer ${issuer.token()}`], [401, 'Bearer x']] as const) {
      const { statusCode, headers } = await app.inject({ url: path, headers: { origin: ORIGIN, authorization } })
      t.strictSame([statusCode, headers['access-control-expose-headers']], [
        status,
        `${EXPOSED}, MCP-Protocol-Version, Mcp-Session-Id`
      ], path)
    }
  }
})

t.test('The wildcard allows every origin, and no cookies', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, { CORS_ORIGINS: ['*'] })
  const answer = await app.inject({ url: '/api/public', headers: { origin: 'https://any.example' } })
  t.hasStrict(answer.headers, { 'access-control-allow-origin': '*', 'access-control-allow-credentials': undefined })
  t.notOk('vary' in answer.headers, 'the answer is the same for all of them')
})

t.test('Without origins CORS is off', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer)
  t.equal(
    (await app.inject({ url: '/api/public', headers: { origin: ORIGIN } })).headers['access-control-allow-origin'],
    undefined
  )
  t.equal((await app.inject({ method: 'OPTIONS', url: '/api/public', headers: preflight(ORIGIN) })).statusCode, 404)
})

t.test('A gate answers preflight before its rules, and its refusals and what it passes on can be read.', async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const { app, url } = await startApp(t, issuer, {
    CORS_ORIGINS: [ORIGIN],
    GATE: { upstream: upstream.origin, rules: [{ path: '/orders' }] }
  })
  for (const path of ['/orders', '/nothing']) {
    t.equal((await app.inject({ method: 'OPTIONS', url: path, headers: preflight(ORIGIN) })).statusCode, 204, path)
  }
  const plain: Array<[url: string, headers: object, status: number]> = [
    ['/orders', { origin: ORIGIN }, 401],
    ['/orders', { origin: ORIGIN, authorization: `Bearer ${issuer.token()}` }, 200],
    ['/orders', { 'access-control-request-method': 'GET' }, 401],
    ['/nothing', {}, 404],
    ['/health/live', {}, 404]
  ]
  for (const [path, headers, status] of plain) {
    const answer = await fetch(url + path, { method: 'OPTIONS', headers: { ...headers } })
    t.equal(answer.status, status, `${path}: an OPTIONS that is no preflight is for the rules`)
    if (status === 200) t.equal(answer.headers.get('access-control-allow-origin'), ORIGIN)
    t.equal(answer.headers.get('access-control-allow-methods'), null)
  }
  t.strictSame(upstream.arrived.map(({ method }) => method), ['OPTIONS'])
  for (const [status, authorization] of [[200, `Bearer ${issuer.token()}`], [401, 'Bearer x']] as const) {
    const answer = await fetch(`${url}/orders`, { headers: { origin: ORIGIN, authorization } })
    t.hasStrict([answer.status, Object.fromEntries(answer.headers)], [status, {
      'access-control-allow-origin': ORIGIN,
      'access-control-expose-headers': EXPOSED
    }])
  }
})

t.test("At a gate the lines of CORS_ORIGINS take the place of the upstream's, and Vary holds both.", async t => {
  const issuer = await startIssuer(t)
  const theirs = {
    'access-control-allow-origin': '*',
    'access-control-expose-headers': 'X-Total',
    'access-control-allow-credentials': 'true',
    'access-control-max-age': '1'
  }
  const upstream = await startUpstream(t, (request, response) => {
    const vary = { '/none': [], '/two': ['Accept-Encoding', 'accept, ORIGIN'] }[request.url!] ?? ['Accept-Encoding']
    if (request.url === '/hints') response.writeEarlyHints({ link: '</a>; rel=preload', ...theirs })
    response.writeHead(200, [...Object.entries(theirs).flat(), ...vary.flatMap(line => ['vary', line])]).end('{}')
  })
  const gate = { upstream: upstream.origin, rules: [{ path: '/*', allow: 'anyone' }, { path: '/none' }] }
  const ask = async (path: string, cors: Record<string, unknown>, origin = ORIGIN) => {
    const { url } = await startApp(t, issuer, { GATE: gate, ...cors })
    const { headers } = await fetch(url + path, { headers: { origin, authorization: `Bearer ${issuer.token()}` } })
    return {
      cors: Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control-'))),
      vary: headers.get('vary')
    }
  }
  const ours = { 'access-control-allow-origin': ORIGIN, 'access-control-expose-headers': EXPOSED }
  t.strictSame(await ask('/x', { CORS_ORIGINS: [ORIGIN] }), { cors: ours, vary: 'Origin, Accept-Encoding' })
  t.strictSame(
    await ask('/two', { CORS_ORIGINS: [ORIGIN] }),
    { cors: ours, vary: 'ORIGIN, Accept-Encoding, accept' },
    'several lines, and ours among theirs'
  )
  t.strictSame(await ask('/none', { CORS_ORIGINS: [ORIGIN] }), { cors: ours, vary: 'Origin, Authorization' })
  t.strictSame(await ask('/x', { CORS_ORIGINS: [ORIGIN] }, 'https://other.example'), {
    cors: { 'access-control-expose-headers': EXPOSED },
    vary: 'Origin, Accept-Encoding'
  }, 'another origin is allowed nothing, whatever the upstream says')
  t.strictSame(
    await ask('/x', {}),
    { cors: theirs, vary: 'Accept-Encoding' },
    'without CORS_ORIGINS the upstream speaks for itself'
  )
  const { url } = await startApp(t, issuer, { GATE: gate, CORS_ORIGINS: [ORIGIN] })
  const hints = await sendRaw(url, ['GET /hints HTTP/1.1', 'Host: api.example', 'Connection: close'])
  t.hasStrict(hints, { status: 103, lines: [['link', '</a>; rel=preload']] }, 'hints have none of them')
})
