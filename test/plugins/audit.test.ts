import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import websocket from '@fastify/websocket'
import Fastify, { type FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import { readSettings } from '../../holdfast.ts'
import { createGuard } from '../../packages/holdfast/guard.ts'
import holdfast, { type HoldfastOptions } from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { CHECK_PATH } from '../../lib/gate/ext-authz.ts'
import type { TrustProxy } from '../../lib/guard/url/base-url.ts'
import { createApp, startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, callDpop, dpopLines } from '../helpers/call.ts'
import { checkRequest } from '../helpers/check-request.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { callGrpc, openGrpc } from '../helpers/grpc-client.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { until } from '../helpers/until.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

interface Line extends Record<string, unknown> {
  event: string
}

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const linesOf = (path: string) =>
  readFileSync(path, 'utf8').split('\n').slice(0, -1).map(line => JSON.parse(line) as Line)

/** A file of the test, its lines, and each line without what differs from run to run. */
function auditFile (t: Test, name = 'audit.log') {
  const path = join(t.testdir({}), name)
  const plain = () => linesOf(path).map(({ time: _time, event: _event, id: _id, ...rest }) => rest)
  return { path, lines: () => linesOf(path), plain }
}

const NOBODY = { ip: '127.0.0.1' }
const KEY = Buffer.alloc(32, 7).toString('base64url')

t.test('Audit: each decision about a request with credentials, and each refusal, is one line', async t => {
  const { path, lines, plain } = auditFile(t)
  const issuer = await startIssuer(t)
  const site = await startApp(t, issuer, { AUDIT: path })
  const client = await createDpopClient()
  const known = { ...NOBODY, method: 'GET', issuer: issuer.url, subject: 'user-1' }

  await callBearer(site, issuer.token(), '/api/public')
  await callBearer(site, issuer.token({ client_id: 'app-1', jti: 'j1', act: { sub: 'agent-1', act: { sub: 'agent-0' } } }))
  const token = issuer.token({ cnf: client.cnf, azp: 'app-2', act: { iss: 'x' } })
  const lines2 = dpopLines(token, client.proof({ token, url: `${site.url}/api/private` }))
  await call(site, { lines: lines2 })
  await call(site, { lines: lines2 })
  await callBearer(site, issuer.token({ cid: 'app-3' }), '/api/private-scoped')
  await call(site, { path: '/api/users/9?token=secret', method: 'HEAD' })
  await callBearer(site, issuer.token(), '/api/nothing')
  t.strictSame(
    plain(),
    [
      {
        decision: 'admitted',
        ...known,
        route: '/api/private',
        scheme: 'Bearer',
        client: 'app-1',
        actor: 'agent-1',
        jti: 'j1'
      },
      { decision: 'admitted', ...known, route: '/api/private', scheme: 'DPoP', client: 'app-2', jkt: client.jkt },
      {
        decision: 'refused',
        reason: 'proof_replayed',
        status: 401,
        ...known,
        route: '/api/private',
        scheme: 'DPoP',
        client: 'app-2',
        jkt: client.jkt
      },
      {
        decision: 'refused',
        reason: 'scope_missing',
        status: 403,
        ...known,
        route: '/api/private-scoped',
        scheme: 'Bearer',
        client: 'app-3'
      },
      {
        decision: 'refused',
        reason: 'credentials_missing',
        status: 401,
        ...NOBODY,
        method: 'HEAD',
        route: '/api/users/*'
      }
    ].map(sorted),
    'in their order'
  )
  for (const { time, event, id } of lines()) {
    t.match(time, ISO)
    t.equal(event, 'decision')
    t.match(id, /^[A-Za-z0-9._-]+$/)
  }
  t.equal(new Set(lines().map(({ id }) => id)).size, 5)

  function sorted (line: Record<string, unknown>) {
    const order = [
      'decision',
      'reason',
      'status',
      'method',
      'route',
      'ip',
      'scheme',
      'issuer',
      'subject',
      'client',
      'actor',
      'jti',
      'jkt'
    ]
    return Object.fromEntries(order.filter(name => name in line).map(name => [name, line[name]]))
  }
})

t.test('Audit: AUDIT=log writes into the log of the service, whatever its level is, and with one time', async t => {
  const issuer = await startIssuer(t)
  for (const level of ['silent', 'fatal', 'info']) {
    const { log, ...site } = await startApp(t, issuer, { AUDIT: 'log', LOG_LEVEL: level })
    await callBearer({ ...site, log }, issuer.token())
    const [line, ...more] = log.filter(({ event }) => event === 'decision')
    t.strictSame(more, [], level)
    t.hasStrict(line, { level: 30, decision: 'admitted', route: '/api/private', subject: 'user-1' })
    t.match(line!['time'], ISO)
    await untilMetric(site, 'holdfast_audit_lines_total{outcome="written"} 1')
    await site.app.close()
  }
})

/** The text of metrics is shared for a second. */
const untilMetric = ({ url }: Pick<RunningApp, 'url'>, line: string) =>
  until(line, async () => (await (await fetch(`${url}/metrics`)).text()).split('\n').includes(line))

t.test('Audit: a log that is not pino gets the line with its time', async t => {
  const issuer = await startIssuer(t)
  const lines: object[] = []
  const take = (level: string) => (fields: object, message: string) => {
    lines.push({ level, message, ...fields })
  }
  const logger = {
    level: 'fatal',
    fatal () {},
    error () {},
    warn () {},
    info: take('info'),
    debug () {},
    trace () {},
    silent () {},
    child: () => logger
  }
  const app = createApp(t, { loggerInstance: logger as never })
  await app.register(holdfast, { idp: { issuer: issuer.url, audience: AUDIENCE }, audit: 'log' })
  app.get('/', { onRequest: app.authenticate() }, () => null)
  await app.inject({ url: '/', headers: { authorization: `Bearer ${issuer.token()}` } })
  const [line] = lines.filter((line): line is Line => 'decision' in line)
  t.match(line!['time'], ISO)
  t.hasStrict(line, { message: 'decision', decision: 'admitted', route: '/' })
})

t.test('Audit: the address of the client is that of the peers that the guard trusts, whatever the app trusts', async t => {
  const issuer = await startIssuer(t)
  const rows: ReadonlyArray<readonly [trustProxy: FastifyServerOptions['trustProxy'], ours: TrustProxy | undefined, ip: string]> = [
    [false, ['loopback'], '198.51.100.7'],
    ['loopback', false, '127.0.0.1'],
    ['loopback', undefined, '198.51.100.7'],
    [(_address, hop) => hop < 1, undefined, '198.51.100.7'],
    [(_address, hop) => hop < 2, undefined, '203.0.113.1']
  ]
  for (const [trustProxy, ours, ip] of rows) {
    const { path, lines } = auditFile(t)
    const app = createApp(t, { trustProxy })
    await app.register(holdfast, {
      idp: { issuer: issuer.url, audience: AUDIENCE },
      audit: { to: path },
      server: { trustProxy: ours }
    })
    app.get('/', { onRequest: app.authenticate() }, () => null)
    await app.inject({ url: '/', headers: { 'x-forwarded-for': '203.0.113.1, 198.51.100.7' } })
    await app.close()
    t.strictSame(lines().map(line => line['ip']), [ip], `${trustProxy} ${ours}`)
  }
})

t.test('Audit: the plugin in an app of its own records too; an id, an address and a claim of odd form are left out', async t => {
  const { path, plain, lines } = auditFile(t)
  const issuer = await startIssuer(t)
  const app = createApp(t, { trustProxy: true, requestIdHeader: 'x-request-id' })
  await app.register(holdfast, { idp: { issuer: issuer.url, audience: AUDIENCE }, audit: { to: path } })
  app.get(
    '/',
    { onRequest: [app.authenticate(), app.require({ claims: { 'act.sub': 'agent-1' } })] },
    request => ({ actor: request.auth!.actor ?? null })
  )
  app.get('/optional', { onRequest: app.require({ optional: true }) }, () => null)
  app.get('/fault', {
    onRequest: app.require({
      claims: {
        tenant: () => {
          throw new Error('x')
        }
      }
    })
  }, () => null)
  app.get('/handler', async request => {
    await Promise.all([request.authenticate(), request.authenticate()])
    await request.requireScope('a')
  })
  const ask = (url: string, claims: object | undefined, headers: object = {}) =>
    app.inject({
      url,
      headers: { ...claims && { authorization: `Bearer ${issuer.token(claims as never)}` }, ...headers }
    })

  t.strictSame((await ask('/', { act: { sub: 'agent-1' } })).json(), { actor: 'agent-1' })
  t.equal((await ask('/', { act: { sub: 'agent-2', act: { sub: 'agent-1' } } })).statusCode, 403)
  await ask('/optional', undefined)
  t.equal((await ask('/fault', { tenant: 'x', jti: 5, client_id: ['x'] }, { 'x-request-id': 'a b' })).statusCode, 500)
  await ask('/handler', {}, { 'x-request-id': 'plain-1', 'x-forwarded-for': '198.51.100.7:4711' })
  for (
    const [given, expected] of [
      ['[2001:db8::1]:443', '2001:db8::1'],
      ['::ffff:198.51.100.8', '198.51.100.8'],
      ['fe80::1%words-of-a-client', 'fe80::1'],
      ['unknown', '127.0.0.1'],
      ['nonsense:80', '127.0.0.1']
    ] as const
  ) {
    await ask('/optional', {}, { 'x-forwarded-for': given })
    t.equal(lines().at(-1)!['ip'], expected, given)
  }
  t.strictSame(
    plain().slice(0, 5).map(({ decision, reason, route, actor, jti, client, ip }: Partial<Line>) => ({
      decision,
      reason,
      route,
      actor,
      jti,
      client,
      ip
    })),
    [
      { decision: 'admitted', reason: undefined, route: '/', actor: 'agent-1' },
      { decision: 'admitted', reason: undefined, route: '/', actor: 'agent-2' },
      { decision: 'refused', reason: 'claim_mismatch', route: '/', actor: 'agent-2' },
      { decision: 'refused', reason: 'fault', route: '/fault', actor: undefined },
      { decision: 'admitted', reason: undefined, route: '/handler', actor: undefined, ip: '198.51.100.7' }
    ].map(line => ({ jti: undefined, client: undefined, ip: '127.0.0.1', ...line })).map((
      { decision, reason, route, actor, jti, client, ip }
    ) => ({ decision, reason, route, actor, jti, client, ip })),
    'several guards that admit are one line; a guest is none'
  )
  t.strictSame(lines().slice(3, 6).map(({ id, reason }) => [id, reason]), [
    [undefined, 'fault'],
    ['plain-1', undefined],
    ['plain-1', 'scope_missing']
  ])
  const before = lines().length
  await ask('/handler', { aud: 'another' })
  t.strictSame(lines().slice(before).map(({ reason }) => reason), ['token_audience'], 'calls of one handler share a refusal')
})

t.test(
  'Audit: each door of a gate records: reverse proxy, forward auth, gRPC, and messages of the Model Context ' +
    'Protocol',
  async t => {
    const { path, lines } = auditFile(t)
    const issuer = await startIssuer(t)
    const upstream = await startUpstream(t)
    const rules = [
      { path: '/open/*', allow: 'anyone' },
      { path: '/orders/:id', scope: 'read:orders' },
      { path: '/mcp', mcp: { tools: ['read_*'] } },
      { path: '/mcp', mcp: { tools: ['drop'] }, scope: 'drop' }
    ]
    const site = await startApp(t, issuer, {
      AUDIT: path,
      GATE: { upstream: upstream.origin, rules, grpcPort: 0, bodyLimit: 200 },
      TRUST_PROXY: 'loopback'
    })
    while (!site.app.grpcAddress()) await new Promise(setImmediate)
    const grpc = await openGrpc(t, site.app.grpcAddress()!.port)
    const [good, poor] = [issuer.token({ scope: 'read:orders' }), issuer.token()]
    const last = () => {
      const { decision, reason, status, method, route, call, subject, ip, id } = lines().at(-1)!
      return { count: lines().length, decision, reason, status, method, route, call, subject, ip, id }
    }
    let count = 0
    const expect = (title: string, expected: object) => {
      const { count: seen, ...line } = last()
      t.equal(seen, ++count, title)
      t.hasStrict(line, {
        method: 'GET',
        ip: '127.0.0.1',
        decision: 'refused',
        call: undefined,
        subject: undefined,
        reason: undefined,
        status: undefined,
        ...expected
      }, title)
    }
    const expectNone = (title: string) => {
      t.equal(lines().length, count, title)
    }

    await call(site, { path: '/orders/7?x=1', lines: [...bearerLines(good), 'X-Request-Id: from-proxy'] })
    expect('admitted', { decision: 'admitted', route: '/orders/:id', subject: 'user-1', id: 'from-proxy' })
    await callBearer(site, poor, '/orders/7')
    expect('scope', { reason: 'scope_missing', status: 403, route: '/orders/:id', subject: 'user-1' })
    await callBearer(site, good, '/open/x')
    expectNone('anyone: no guard is asked')
    await call(site, { path: '/none' })
    expectNone('a path without a rule, without credentials')
    await callBearer(site, good, '/none')
    expect('a path without a rule', { reason: 'no_rule', status: 404, route: undefined })
    await call(site, { path: '/none', lines: ['DPoP: x'] })
    expect('a path without a rule, beside a proof', { reason: 'no_rule', status: 404, route: undefined })
    await call(site, { path: '/orders/%2e%2e/x' })
    expect('a path with dots', { reason: 'target_path', status: 400, route: undefined })
    await callBearer(site, good, '/orders/%zz')
    expect('a path that the router cannot read', { reason: 'target_path', status: 400, route: undefined })

    const asks = (lines: readonly string[]) => call(site, { path: '/verify/nginx', lines })
    const original = (
      target: string
    ) => ['X-Original-Method: PUT', `X-Original-URL: https://api.example${target}`, 'X-Forwarded-For: 198.51.100.7']
    await asks([...original('/orders/7'), ...bearerLines(good)])
    expect('forward auth', {
      decision: 'admitted',
      method: 'PUT',
      route: '/orders/:id',
      subject: 'user-1',
      ip: '198.51.100.7'
    })
    const families: ReadonlyArray<readonly [path: string, lines: readonly string[]]> = [
      ['/verify/haproxy', original('/orders/7')],
      ['/verify/forwarded', [
        'X-Forwarded-Method: PUT',
        'X-Forwarded-Proto: https',
        'X-Forwarded-Host: api.example',
        'X-Forwarded-Uri: /orders/7',
        'X-Forwarded-For: 198.51.100.7'
      ]],
      ['/verify/envoy/orders/7', [
        'X-Envoy-Internal: true',
        'X-Forwarded-Proto: https',
        'X-Forwarded-For: 198.51.100.7'
      ]]
    ]
    for (const [path, asked] of families) {
      await call(site, { method: 'PUT', path, lines: [...asked, ...bearerLines(good)] })
      expect(path, { decision: 'admitted', method: 'PUT', route: '/orders/:id', subject: 'user-1', ip: '198.51.100.7' })
      await call(site, { method: 'PUT', path, lines: asked })
      expect(`${path} refused`, {
        reason: 'credentials_missing',
        status: 401,
        method: 'PUT',
        route: '/orders/:id',
        ip: '198.51.100.7'
      })
    }
    await asks(original('/none'))
    const unruled = { status: 403, method: 'PUT', route: undefined, ip: '198.51.100.7' }
    expect('forward auth without a rule', { reason: 'no_rule', ...unruled })
    await asks(original('/orders//7'))
    expect('forward auth with a path that is read in two ways', { reason: 'target_path', ...unruled })
    await call(site, { path: '/verify/envoy/%zz', lines: ['X-Forwarded-For: 198.51.100.7'] })
    expect('forward auth with a path that the router cannot read', {
      reason: 'target_path',
      ...unruled,
      method: 'GET',
      ip: '198.51.100.7'
    })
    await asks(bearerLines(good))
    expect('forward auth without an original', { reason: 'question_refused', status: 403, route: undefined })

    const ask = (headers: Record<string, string>, path = '/orders/7') =>
      callGrpc(grpc, CHECK_PATH, checkRequest({ method: 'POST', path, headers }))
    await ask({ authorization: `Bearer ${good}`, 'x-request-id': 'of-envoy', 'x-forwarded-for': '198.51.100.9' })
    expect('gRPC', {
      decision: 'admitted',
      method: 'POST',
      route: '/orders/:id',
      subject: 'user-1',
      ip: '198.51.100.9',
      id: 'of-envoy'
    })
    await ask({})
    expect('gRPC refused', { reason: 'credentials_missing', status: 401, method: 'POST', route: '/orders/:id' })

    const post = (message: object | string, token: string | undefined) => {
      const body = typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', id: 1, ...message })
      return call(site, {
        method: 'POST',
        path: '/mcp',
        lines: [
          'Content-Type: application/json',
          `Content-Length: ${body.length}`,
          ...token === undefined ? [] : bearerLines(token),
          '',
          body
        ]
      })
    }
    const tool = (name: string) => ({ method: 'tools/call', params: { name } })
    const ofMcp = { method: 'POST', route: '/mcp' }
    await post(tool('read_order'), poor)
    expect('a tool', { ...ofMcp, decision: 'admitted', call: 'tools/call read_*', subject: 'user-1' })
    await post(tool('drop'), poor)
    expect('a tool without its scope', {
      ...ofMcp,
      reason: 'scope_missing',
      status: 403,
      call: 'tools/call drop',
      subject: 'user-1'
    })
    await post(tool('unheard-of'), poor)
    expect('a tool without a rule', { ...ofMcp, reason: 'no_rule', status: 404, subject: 'user-1' })
    await post('{', poor)
    expect('a body that is no message', { ...ofMcp, reason: 'message_refused', status: 400, subject: 'user-1' })
    await post(' '.repeat(201), poor)
    expect('a body that is too large', { ...ofMcp, reason: 'message_refused', status: 413, subject: 'user-1' })
    await post(tool('read_order'), undefined)
    expect('a stranger', { ...ofMcp, reason: 'credentials_missing', status: 401 })
    for (const word of ['Bearer ', 'x=1', 'unheard-of', '"x"']) t.notOk(readFileSync(path, 'utf8').includes(word), word)
  }
)

t.test('Audit: a revocation by an operator is a decision', async t => {
  const { path, lines } = auditFile(t)
  const issuer = await startIssuer(t)
  const site = await startApp(t, issuer, { AUDIT: path, REVOCATION: { operators: { scope: 'revoke' } } })
  const operate = (scope: string, subject: object = { format: 'opaque', id: 's1' }) =>
    fetch(`${site.url}/revocation/subjects`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${issuer.token({ scope, sub: 'operator-1' })}`,
        'content-type': 'application/json'
      },
      body: JSON.stringify({ sub_id: subject })
    })
  const foreign = { format: 'issuer', iss: 'https://other.example' }
  t.strictSame(
    [(await operate('revoke')).status, (await operate('read')).status, (await operate('revoke', foreign)).status],
    [204, 403, 403]
  )
  t.strictSame(
    lines().map(({ decision, reason, method, route, subject }) => [decision, reason, method, route, subject]),
    [
      ['admitted', undefined, 'POST', '/revocation/subjects', 'operator-1'],
      ['refused', 'scope_missing', 'POST', '/revocation/subjects', 'operator-1'],
      ['admitted', undefined, 'POST', '/revocation/subjects', 'operator-1'],
      ['refused', 'access_denied', 'POST', '/revocation/subjects', 'operator-1']
    ]
  )
})

t.test('Audit: with a key, who and what is named by a pseudonym, the same for the same', async t => {
  const { path, lines } = auditFile(t)
  const issuer = await startIssuer(t)
  writeFileSync(`${path}.key`, `${KEY}\n`)
  const site = await startApp(t, issuer, { AUDIT: { to: path, pseudonymKey: { file: `${path}.key` } } })
  const token = issuer.token({ client_id: 'app-1', jti: 'j1', act: { sub: 'agent-1' } })
  for (let i = 0; i < 2; i++) await callBearer(site, token)
  const of = (text: string) =>
    createHmac('sha256', Buffer.from(KEY, 'base64url')).update(text).digest('base64url')
  for (const line of lines()) {
    t.hasStrict(line, {
      issuer: issuer.url,
      subject: of('user-1'),
      client: of('app-1'),
      actor: of('agent-1'),
      jti: of('j1')
    })
  }
  await callBearer(site, issuer.token())
  t.strictSame(['subject', 'client', 'actor', 'jti'].map(name => lines()[2]![name]), [
    of('user-1'),
    undefined,
    undefined,
    undefined
  ], 'what a token does not name has none')
  t.equal(lines().length, 3)
})

t.test('Audit: a peer on a unix socket has no address', async t => {
  const { path, plain } = auditFile(t)
  const issuer = await startIssuer(t)
  const app = createApp(t)
  await app.register(holdfast, { idp: { issuer: issuer.url, audience: AUDIENCE }, audit: path })
  app.get('/', { onRequest: app.authenticate() }, () => null)
  // Such a name has at most 107 bytes, and a clone may be deep.
  const folder = temporaryFolder(t, 'socket')
  const socketPath = join(folder, 's')
  await app.listen({ path: socketPath })
  const [response] = await once(
    get({ socketPath, headers: { authorization: `Bearer ${issuer.token()}` } }),
    'response'
  ) as [IncomingMessage]
  response.resume()
  t.equal(response.statusCode, 200)
  t.strictSame(plain(), [{
    decision: 'admitted',
    method: 'GET',
    route: '/',
    scheme: 'Bearer',
    issuer: issuer.url,
    subject: 'user-1'
  }])
})

t.test('Audit: a WebSocket of a test without a network has no address', async t => {
  const { path, plain } = auditFile(t)
  const { options, token } = await createTestIssuer()
  const app = createApp(t)
  await app.register(websocket)
  await app.register(holdfast, { ...options, audit: path } as HoldfastOptions)
  app.get('/live', { websocket: true, onRequest: app.authenticate() }, () => {})
  await app.ready()
  const socket = await app.injectWS('/live', { headers: { authorization: `Bearer ${await token({ jti: 'j1' })}` } })
  t.teardown(() => socket.terminate())
  t.strictSame(plain(), [{
    decision: 'admitted',
    method: 'GET',
    route: '/live',
    scheme: 'Bearer',
    issuer: options.idp.issuer,
    subject: 'user-1',
    jti: 'j1'
  }])
})

t.test('Audit: who leaves before the decision is named by address like who stays', async t => {
  const issuer = await startIssuer(t)
  const { path, lines } = auditFile(t)
  const options = { idp: { issuer: issuer.url, audience: AUDIENCE }, audit: path }
  const app = Fastify({ forceCloseConnections: true })
  await app.register(holdfast, options)
  const guard = await createGuard(options)
  t.teardown(() => Promise.all([app.close(), guard.close()]))
  let arrived: (socket: Socket) => void
  let decide: ((isMet: boolean) => void) | undefined
  const sub = (): Promise<boolean> =>
    new Promise(resolve => {
      decide = resolve
    })
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    arrived(raw.socket)
    done()
  })
  app.get('/plugin', { onRequest: app.require({ claims: { sub } }) }, () => 'ok')
  app.get('/guard', async ({ raw }) => (await guard.check(raw, { claims: { sub } })).admitted)
  const origin = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))

  for (const route of ['/plugin', '/guard']) {
    for (const leaves of [true, false]) {
      const before = lines().length
      decide = undefined
      const arrival = new Promise<Socket>(resolve => {
        arrived = resolve
      })
      const request = get(new URL(route, origin), { headers: { authorization: `Bearer ${issuer.token()}` } })
      request.on('error', () => {})
      const socket = await arrival
      await until('the predicate is asked', () => decide !== undefined)
      if (leaves) {
        request.destroy()
        await once(socket, 'close')
      }
      decide!(true)
      await until('the decision is written', () => lines().length > before)
      const { decision, ip } = lines().at(-1)!
      t.strictSame([decision, ip], ['admitted', '127.0.0.1'], `${route} ${leaves}`)
      request.destroy()
    }
  }
})

t.test('Audit: settings that cannot be used stop the start', async t => {
  const issuer = await startIssuer(t)
  const folder = t.testdir({ short: 'c2hvcnQ', empty: '' })
  const rows: ReadonlyArray<{ audit: unknown, problem: string }> = [
    {
      audit: join(folder, 'no', 'audit.log'),
      problem: `AUDIT (audit.to) is ${JSON.stringify(join(folder, 'no', 'audit.log'))}, which cannot be written ` +
        '(ENOENT); allowed: off, log, or the path of a file'
    },
    {
      audit: folder,
      problem:
        `AUDIT (audit.to) is ${JSON.stringify(folder)}, which cannot be written (EISDIR); allowed: off, log, or ` +
        'the path of a file'
    },
    {
      audit: { to: 'log', pseudonymKey: { file: join(folder, 'short') } },
      problem: 'audit.pseudonymKey is not usable (its value is not shown); allowed: 32 bytes or more in base64url'
    },
    {
      audit: { to: 'log', pseudonymKey: { env: 'NO_SUCH_VARIABLE' } },
      problem:
        'audit.pseudonymKey is not usable: the variable NO_SUCH_VARIABLE is not set; allowed: 32 bytes or more in ' +
        'base64url'
    },
    {
      audit: { to: 'log', pseudonymKey: KEY },
      problem: 'audit.pseudonymKey is not usable (its value is not shown); allowed: { file: PATH } or { env: NAME }'
    },
    {
      audit: {},
      problem: 'audit lacks to; allowed: off, log, the path of a file, or a section with to and pseudonymKey'
    },
    {
      audit: { to: 'log', pseudonymkey: KEY },
      problem: 'audit.pseudonymkey is unknown; did you mean audit.pseudonymKey?'
    },
    { audit: true, problem: 'AUDIT (audit.to) is true; allowed: off, log, or the path of a file' },
    { audit: 'on', problem: 'AUDIT (audit.to) is "on"; allowed: off, log, or the path of a file' },
    {
      audit: ['log'],
      problem:
        'AUDIT (audit) is ["log"]; allowed: off, log, the path of a file, or a section with to and pseudonymKey'
    }
  ]
  for (const { audit, problem } of rows) {
    const app = createApp(t)
    await t.rejects(
      Promise.resolve(
        app.register(holdfast, { idp: { issuer: issuer.url, audience: AUDIENCE }, audit: audit as string })
      ),
      { name: 'SettingsError', problems: [problem] },
      problem
    )
  }
  for (
    const [given, expected] of [['off', undefined], ['', undefined], [undefined, undefined], ['log', { to: 'log' }], [7, { to: '7' }]] as const
  ) {
    t.strictSame(
      (await readSettings({ IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, AUDIT: given })).audit,
      expected,
      String(given)
    )
  }
})

t.test('Audit: while no line can be written it is counted, logged once, named in readiness and tried again', async t => {
  const { path, lines } = auditFile(t)
  const issuer = await startIssuer(t)
  const site = await startApp(t, issuer, { AUDIT: path })
  const ask = async () => (await callBearer(site, issuer.token())).status
  const readiness = async () => {
    const answer = await fetch(`${site.url}/health/ready`)
    return [answer.status, (await answer.json() as { checks: { audit: string } }).checks.audit]
  }
  await until('ready', async () => (await readiness())[0] === 200)
  t.strictSame(await readiness(), [200, 'ok'])
  t.equal(await ask(), 200)
  renameSync(path, `${path}.1`)
  mkdirSync(path)
  await until('the fault is seen', async () => (await readiness())[1] !== 'ok')
  t.strictSame(await readiness(), [200, 'losing_lines'])
  t.equal(await ask(), 200)
  t.equal((await callBearer(site, 'forged')).status, 401)
  t.equal((await call(site)).status, 401)
  t.equal((await call(site, { path: '/api/public' })).status, 200)
  await untilMetric(site, 'holdfast_audit_lines_total{outcome="lost"} 3')
  await untilMetric(site, 'holdfast_audit_writable 0')
  rmSync(path, { recursive: true })
  await until('it is opened again', () => existsSync(path))
  t.strictSame(await readiness(), [200, 'losing_lines'], 'no line has been written yet')
  t.equal(await ask(), 200)
  t.strictSame(await readiness(), [200, 'ok'])
  t.strictSame([linesOf(`${path}.1`).length, lines().length], [1, 1])
  const events = site.log.filter(({ event }) => String(event).startsWith('audit_')).map(({ event, code, lost }) => [
    event,
    code,
    lost
  ])
  t.strictSame(events, [['audit_unwritable', 'EISDIR', undefined], ['audit_writable', undefined, 3]])
})

t.test('Audit: a refused request has the names of its token if that was verified, and none of any other', async t => {
  const { path, lines } = auditFile(t)
  const issuer = await startIssuer(t)
  const site = await startApp(t, issuer, { AUDIT: path, REVOCATION: { operators: { scope: 'revoke' } } })
  const client = await createDpopClient()
  const token = issuer.token({ jti: 'j1', client_id: 'app-1', cnf: client.cnf })
  const url = `${site.url}/api/private`
  const plainProof = client.proof({ token, url })
  const rows: ReadonlyArray<{ reason: string, lines: readonly string[], isVerified: boolean }> = [
    { reason: 'htu_mismatch', lines: dpopLines(token, client.proof({ token, url: `${url}/x` })), isVerified: true },
    { reason: 'proof_malformed', lines: dpopLines(token, 'x'), isVerified: true },
    { reason: 'proof_missing', lines: [`Authorization: DPoP ${token}`], isVerified: true },
    { reason: 'token_bound', lines: bearerLines(token), isVerified: true },
    { reason: 'token_signature', lines: dpopLines(`${token.slice(0, -4)}AAAA`, plainProof), isVerified: false },
    { reason: 'token_audience', lines: bearerLines(issuer.token({ aud: 'another' })), isVerified: false }
  ]
  const named = (line: Line) => ['issuer', 'subject', 'client', 'jti', 'jkt'].map(name => line[name])
  const names = [issuer.url, 'user-1', 'app-1', 'j1', client.jkt]
  for (const { reason, lines: sent, isVerified } of rows) {
    await call(site, { lines: sent })
    const line = lines().at(-1)!
    t.equal(line['reason'], reason)
    t.strictSame(named(line), isVerified ? names : names.map(() => undefined), reason)
  }
  await fetch(`${site.url}/revocation/subjects`, {
    method: 'POST',
    headers: { authorization: `Bearer ${issuer.token({ scope: 'revoke' })}`, 'content-type': 'application/json' },
    body: JSON.stringify({ sub_id: { format: 'jwt_id', iss: issuer.url, jti: 'j1' } })
  })
  const answer = await callDpop(site, token, plainProof)
  t.equal(answer.reason, 'token_revoked')
  t.strictSame(named(lines().at(-1)!), names, 'a revoked one')
})

t.test('Audit: SIGHUP opens the file anew, and ends neither the service nor what others listen to', async t => {
  const { path, lines } = auditFile(t)
  const issuer = await startIssuer(t)
  const others: string[] = []
  const onSignal = () => {
    others.push('fastify-cli')
  }
  const other = {
    onSignal () {
      others.push('another')
    }
  }
  process.on('SIGTERM', onSignal).on('SIGHUP', onSignal).on('SIGHUP', other.onSignal)
  t.teardown(() => {
    process.off('SIGTERM', onSignal).off('SIGHUP', onSignal).off('SIGHUP', other.onSignal)
  })
  const site = await startApp(t, issuer, { AUDIT: path })
  await callBearer(site, issuer.token())
  renameSync(path, `${path}.1`)
  process.emit('SIGHUP')
  t.strictSame(others, ['another'])
  t.strictSame(lines(), [], 'at once')
  await callBearer(site, issuer.token())
  t.strictSame([linesOf(`${path}.1`).length, lines().length], [1, 1])
  await site.app.close()
  t.strictSame(process.listeners('SIGHUP').filter(listener => listener.name === 'reopen'), [])
})

t.test('Audit: off, nobody listens to decisions', async t => {
  const issuer = await startIssuer(t)
  const { app, log, ...site } = await startApp(t, issuer, { AUDIT: 'off' })
  t.strictSame([app.guardAudit, app.holdfastGuard.decisions.listeners], [undefined, []])
  t.equal((await callBearer({ app, log, ...site }, issuer.token())).status, 200)
  t.notOk(log.some(({ event }) => event === 'decision'))
  t.notOk((await (await fetch(`${site.url}/metrics`)).text()).includes('\nholdfast_audit_'))
})
