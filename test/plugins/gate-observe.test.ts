import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { checkRequest } from '../helpers/check-request.ts'
import { atAnotherTime, dayIn, nowSeconds } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { callGrpc, openGrpc } from '../helpers/grpc-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { listen } from '../helpers/listen.ts'
import { bytesOf, call, message } from '../helpers/mcp-site.ts'
import { startUpstream, type Answerer } from '../helpers/upstream.ts'
import { until } from '../helpers/until.ts'
import { sendRaw } from '../helpers/wire.ts'
import { CHECK_PATH } from '../../lib/gate/ext-authz.ts'
import { readFields } from '../../lib/gate/grpc-message.ts'

const RULES = [
  { path: '/open/*', allow: 'anyone' },
  { path: '/any/*' },
  { path: '/orders/:id', methods: ['GET'], scope: 'read:orders' },
  { path: '/guests', optional: true },
  { path: '/closed', observe: false },
  { path: '/mcp', mcp: { methods: ['tools/list'], onlyRuled: true }, scope: 'use' },
  { path: '/mcp', mcp: { tools: ['read_*'] }, scope: 'read' },
  { path: '/some', mcp: { tools: ['read_*'] }, scope: 'read' },
  { path: '/some', mcp: { tools: ['pick'], arguments: { region: 'eu' } }, scope: 'read' },
  { path: '/some', mcp: { tools: ['drop'] }, scope: 'drop', observe: false }
]

async function startGate (
  t: Test,
  { gate = {}, values = {}, answer }: { gate?: object, values?: object, answer?: Answerer } = {}
) {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const audit = join(t.testdir({}), 'audit.log')
  const running = await startApp(t, issuer, {
    GATE: { upstream: upstream.origin, rules: RULES, ...gate },
    OBSERVE: dayIn(3),
    LOG_LEVEL: 'info',
    AUDIT: audit,
    TRUST_PROXY: 'loopback',
    ...values
  })
  const { host } = new URL(running.url)
  const send = (target: string, lines: readonly string[] = [], method = 'GET') =>
    sendRaw(running.url, [`${method} ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...lines])
  return {
    ...running,
    issuer,
    upstream,
    send,
    post (path: string, body: unknown, lines: readonly string[] = []) {
      const bytes = bytesOf(body)
      return send(path, ['Content-Type: application/json', `Content-Length: ${bytes.length}`, ...lines, '', bytes], 'POST')
    },
    decisions: () => readFileSync(audit, 'utf8').split('\n').slice(0, -1).map(line => JSON.parse(line))
  }
}

const observedIn = ({ log }: RunningApp) => log.filter(({ enforced }) => enforced === false)

const IDENTITY = ['x-auth-subject', 'x-auth-issuer', 'x-auth-scope', 'x-auth-client']

t.test('A reverse proxy lets pass what it would refuse, as a request of nobody, and says each time what it would do', async t => {
  const site = await startGate(t)
  const { issuer, upstream, send } = site
  const other = await startIssuer(t)
  const good = bearerLines(issuer.token({ scope: 'read:orders' }))
  const rows: Array<
    [title: string, target: string, lines: string[], status: number, reason: string, method?: string]
  > = [
    ['without credentials', '/any/1', [], 401, 'credentials_missing'],
    ['a token of another issuer', '/any/1', bearerLines(other.token()), 401, 'token_issuer'],
    ['an old token', '/any/1', bearerLines(issuer.token({ exp: 1 })), 401, 'token_expired'],
    ['two lines', '/any/1', [...good, ...good], 401, 'authorization_repeated'],
    ['without its scope', '/orders/7', bearerLines(issuer.token({ scope: 'other' })), 403, 'scope_missing'],
    ['a bad token of a guest', '/guests', bearerLines('x.y.z'), 401, 'token_malformed'],
    ['without a rule', '/nowhere', good, 404, 'no_rule'],
    ['without a rule and credentials', '/nowhere', [], 404, 'no_rule'],
    ['a method without a rule', '/orders/7', good, 404, 'no_rule', 'DELETE']
  ]
  for (const [title, target, lines, status, reason, method] of rows) {
    const before = observedIn(site).length
    const forged = ['X-Auth-Observed: forged', 'x_auth-observed: forged', 'X-Auth-Subject: root']
    const answer = await send(target, [...forged, ...lines], method)
    t.equal(answer.status, 200, title)
    t.equal(answer.headers['x-upstream'], 'yes', 'the answer is the upstream\'s own')
    t.equal(answer.headers['www-authenticate'], undefined)
    const { headers, rawHeaders } = upstream.arrived.at(-1)!
    t.strictSame(IDENTITY.map(name => headers[name]), IDENTITY.map(() => ''), 'nobody is named')
    t.equal(headers['x-auth-observed'], reason)
    t.notOk(rawHeaders.includes('x_auth-observed'))
    t.equal(headers.authorization, lines.length === 0 ? undefined : lines.map(line => line.slice(15)).join(', '))
    const [line, ...more] = observedIn(site).slice(before)
    t.hasStrict(line, { reason, status, enforced: false })
    t.strictSame(more, [])
    t.hasStrict(site.decisions().at(-1), { decision: 'observed', reason, status })
  }
  t.strictSame(site.reasons(), [], 'nothing is refused')
  t.hasStrict(site.decisions().find(({ reason }) => reason === 'scope_missing'), { subject: 'user-1', route: '/orders/:id' })
  t.equal(site.decisions().filter(({ decision }) => decision === 'observed').length, rows.length)

  const admitted = await send('/orders/7', good)
  t.equal(admitted.status, 200)
  t.hasStrict(upstream.arrived.at(-1)!.headers, { 'x-auth-subject': 'user-1', 'x-auth-observed': '' }, 'who is admitted is named')
  t.equal((await send('/open/x')).status, 200)
  t.hasStrict(upstream.arrived.at(-1)!.headers, { 'x-auth-observed': '' })

  const arrived = upstream.arrived.length
  for (const [target, lines, status] of [
    ['/any/%2e%2e/x', [], 400],
    ['/any//x', good, 400],
    ['/health/nothing', [], 404],
    ['/any/1', ['Transfer-Encoding: gzip, chunked'], 501]
  ] as const) t.equal((await send(target, lines)).status, status, `${target} is refused all the same`)
  t.hasStrict(await send('/closed'), { status: 401 }, 'a rule may be enforced at once')
  t.equal((await send('/closed', good)).status, 200)
  t.equal(upstream.arrived.length, arrived + 1)

  const { body: metrics } = await send('/metrics')
  t.match(metrics, /holdfast_refusals_total\{reason="no_rule",enforced="false"\} 3/)
  t.match(metrics, /holdfast_refusals_total\{reason="credentials_missing"\} 1/)
  t.match(metrics, /holdfast_observing_seconds_left \d{6}/)

  await atAnotherTime(4 * 86_400, async () => {
    t.equal((await send('/any/1')).status, 401, 'after the last day it is enforced')
    t.equal((await send('/nowhere')).status, 404)
    await send('/open/x', ['X-Auth-Observed: forged', ...good])
    const { headers } = upstream.arrived.at(-1)!
    t.equal(headers['x-auth-observed'], undefined, 'and no client can send the name')
    t.equal(headers.authorization, undefined)
  })
})

t.test('A rule that is enforced holds for each path that frameworks serve alike', async t => {
  const drop = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'drop' } }
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket']
  for (const [exactPaths, expected] of [[false, 404], [true, 200]] as const) {
    const { send, post } = await startGate(t, { gate: { exactPaths } })
    for (const path of ['/CLOSED', '/closed/', '/clo%73ed.json']) {
      t.equal((await send(path)).status, expected, path)
      if (!exactPaths) t.equal((await send(path, upgrade)).status, 404, `${path}, and an upgrade`)
    }
    for (const path of ['/some/', '/Some']) t.equal((await post(path, drop)).status, expected, path)
    t.equal((await send('/closed-not')).status, 200, 'the twin: another path')
  }
})

t.test('A proof is recorded while requests are observed, and a nonce is told', async t => {
  const { issuer, upstream, send, url } = await startGate(t, { values: { DPOP_NONCE: 'required', IDP_DPOP_MODE: 'REQUIRED' } })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const proven = (claims: object) => dpopLines(token, client.proof({ token, url: `${url}/any/1`, claims: { ...claims } }))
  const first = await send('/any/1', proven({}))
  t.equal(first.status, 200)
  t.hasStrict(upstream.arrived.at(-1)!.headers, { 'x-auth-observed': 'nonce_missing', 'x-auth-subject': '' })
  const nonce = first.headers['dpop-nonce']!
  t.match(nonce, /^[\w-]{10,}$/)
  const lines = proven({ nonce })
  await send('/any/1', lines)
  t.hasStrict(upstream.arrived.at(-1)!.headers, { 'x-auth-observed': '', 'x-auth-subject': 'user-1', dpop: lines[1]!.slice(6) })
  await send('/any/1', lines)
  t.hasStrict(upstream.arrived.at(-1)!.headers, { 'x-auth-observed': 'proof_replayed', 'x-auth-subject': '' })
})

t.test('Messages are judged and pass; a rule that is enforced stands beside others', async t => {
  const tools = { jsonrpc: '2.0', id: 1, result: { tools: [{ name: 'read_a' }, { name: 'other' }] } }
  const bodies: string[] = []
  const seen: unknown[] = []
  const { issuer, post, decisions } = await startGate(t, {
    answer (request, response) {
      let text = ''
      request.setEncoding('latin1').on('data', part => { text += part }).on('end', () => {
        bodies.push(text)
        seen.push(request.headers['x-auth-observed'])
        response.setHeader('content-type', 'application/json').end(JSON.stringify(tools))
      })
    }
  })
  const holder = (scope: string) => bearerLines(issuer.token({ scope }))
  const passes = async (path: string, body: unknown, lines: string[], reason: string) => {
    const answer = await post(path, body, lines)
    t.equal(answer.status, 200, reason)
    t.strictSame(JSON.parse(answer.body), tools, 'the answer is whole')
    t.equal(bodies.at(-1), bytesOf(body), 'and so is the body')
    t.equal(seen.at(-1), reason)
  }
  await passes('/mcp', call('read_a'), [], 'credentials_missing')
  await passes('/mcp', 'no JSON at all', [], 'credentials_missing')
  await passes('/mcp', call('read_a'), holder('use'), 'scope_missing')
  await passes('/mcp', call('drop'), holder('use'), 'no_rule')
  await passes('/mcp', message('tools/list'), holder('use'), '')
  t.equal((await post('/mcp', 'no JSON at all', holder('use'))).status, 400, 'who is known is held to the form')

  await passes('/some', call('read_a'), [], 'credentials_missing')
  await passes('/some', call('read_a'), holder('drop'), 'scope_missing')
  await passes('/some', call('other'), holder('read'), 'no_rule')
  await passes('/some', call('other'), [], 'credentials_missing')
  const pick = (region: string) => message('tools/call', { name: 'pick', arguments: { region } })
  await passes('/some', pick('us'), holder('read'), 'argument_refused')
  await passes('/some', pick('eu'), holder('read'), '')
  await passes('/some', call('drop'), holder('drop'), '')
  const count = bodies.length
  t.equal((await post('/some', call('drop'))).status, 401)
  t.equal((await post('/some', call('drop'), holder('read'))).status, 403)
  t.equal((await post('/some', [call('other'), call('drop')], holder('read'))).status, 404, 'no batch leads past it')
  t.equal((await post('/some', [call('read_a'), call('drop')], ['Mcp-Method: tools/call'])).status, 401)
  t.equal(bodies.length, count)
  const before = decisions().length
  t.equal((await post('/some', 'no JSON at all')).status, 400)
  t.equal((await post('/some', call('read_a'))).status, 200, 'the twin: a message')
  t.strictSame(decisions().slice(before).map(({ decision, reason }) => [decision, reason]), [
    ['refused', 'message_refused'],
    ['observed', 'credentials_missing']
  ], 'one decision for each request')
})

t.test('Each family of proxies gets a yes without an identity, but not for a question that may not be asked', async t => {
  const { issuer, send } = await startGate(t)
  const forwarded = (path: string) => [
    'X-Forwarded-Method: GET',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Host: api.example',
    `X-Forwarded-Uri: ${path}`
  ]
  const original = (path: string) => ['X-Original-Method: GET', `X-Original-URL: https://api.example${path}`]
  const families: Array<[name: string, endpoint: (path: string) => string, ask: (path: string) => string[]]> = [
    ['nginx', () => '/verify/nginx', original],
    ['haproxy', () => '/verify/haproxy', original],
    ['forwarded', () => '/verify/forwarded', forwarded],
    ['envoy', path => `/verify/envoy${path}`, () => ['X-Forwarded-Proto: https']]
  ]
  for (const [name, endpoint, ask] of families) {
    for (const [path, lines, reason, subject] of [
      ['/any/1', [], 'credentials_missing', ''],
      ['/nowhere', [], 'no_rule', ''],
      ['/any/1', bearerLines(issuer.token()), '', 'user-1']
    ] as const) {
      const { status, headers } = await send(endpoint(path), [...ask(path), ...lines])
      t.hasStrict({ status, ...headers }, { status: 200, 'x-auth-observed': reason, 'x-auth-subject': subject }, `${name} ${path}`)
      t.equal(headers['www-authenticate'], undefined)
    }
    t.equal((await send(endpoint('/any//1'), ask('/any//1'))).status, 403, `${name}: a path that is read in two ways`)
    t.equal((await send(endpoint('/closed'), ask('/closed'))).status, 401)
  }
  t.equal((await send('/verify/nginx')).status, 403, 'a question without an original')
  t.equal((await send('/verify/nginx', ['X-Original-Method: CONNECT', 'X-Original-URL: https://api.example/x'])).status, 403)
})

t.test('Over gRPC too, and what a client writes is removed', async t => {
  const running = await startGate(t, { gate: { grpcPort: 0 } })
  await until('the port is open', () => running.app.grpcAddress() !== undefined)
  const client = await openGrpc(t, running.app.grpcAddress()!.port)
  const ask = async (headers: Record<string, string>) =>
    (await callGrpc(client, CHECK_PATH, checkRequest({ path: '/any/1', host: 'api.example', headers }))).message.toString('latin1')
  const passed = await ask({ 'x-auth.observed': 'forged', authorization: 'Bearer x' })
  t.ok(readFields(Buffer.from(passed, 'latin1'), { left: 1000 }).has(3), 'it passes')
  t.match(passed, /x-auth-observed[^a-z]+token_malformed/)
  t.ok(passed.includes('x-auth.observed'), 'and is named for removal')
  t.notOk(passed.includes('authorization'))
  await atAnotherTime(4 * 86_400, async () => t.ok((await ask({ authorization: 'Bearer x' })).includes('www-authenticate')))
})

t.test('Upgrades pass as such, without a rule too, and outlive the last day', async t => {
  const running = await startGate(t)
  running.upstream.server.on('upgrade', (request, socket) => {
    socket.on('error', () => {})
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nx-observed: ${request.headers['x-auth-observed']}\r\n\r\n`)
    socket.pipe(socket)
  })
  const { hostname, port, host } = new URL(running.url)
  const [good] = bearerLines(running.issuer.token({ exp: nowSeconds() + 60 }))
  for (const [path, line] of [['/nowhere', 'A: b'], ['/any/1', 'A: b'], ['/open/1', 'A: b'], ['/any/1', good]]) {
    const socket = connect(Number(port), hostname).setEncoding('latin1')
    let text = ''
    socket.on('data', part => { text += part })
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${line}\r\n\r\n`)
    await until('an answer', () => text.includes('\r\n\r\n'))
    t.match(text, / 101 /)
    // Tokens are looked at each 250 ms. Each that has expired is noticed while requests are observed.
    if (line === good) await atAnotherTime(86_400, () => new Promise(resolve => setTimeout(resolve, 600)))
    await atAnotherTime(4 * 86_400, async () => {
      socket.write('still here')
      await until('an echo', () => text.includes('still here'))
    })
    socket.destroy()
  }
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket']
  t.equal((await running.send('/closed', upgrade)).status, 401)
  t.equal((await running.send('/closed', [...upgrade, good!])).status, 200, 'without one of its own it is a plain request')
})

t.test('A stream of nobody outlives its token and the last day, that of a caller ends then, that of an enforced rule at once', async t => {
  const { issuer, url } = await startGate(t, {
    values: { REVOCATION: { operators: { scope: 'revoke' } }, IDP_CLOCK_TOLERANCE_SECONDS: 0 },
    answer (_request, response) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    }
  })
  const open = (path: string, seconds: number) => {
    const [authorization] = bearerLines(issuer.token({ exp: nowSeconds() + seconds }))
    return fetch(url + path, { headers: { authorization: authorization!.slice(15) } })
  }
  const [refused, admitted, enforced] = await Promise.all([open('/orders/7', 60), open('/any/1', 7200), open('/closed', 60)])
  const end = refused!.text().then(() => 'ended', () => 'ended')
  await atAnotherTime(3600, () => t.rejects(enforced!.text(), 'while others are observed'))
  await atAnotherTime(6 * 86_400, () => t.rejects(admitted!.text(), 'after the last day'))
  t.equal(await Promise.race([end, new Promise(resolve => setTimeout(resolve, 100, 'open'))]), 'open')
})

t.test('A token that its provider cannot read has no part in the verdicts about others', async t => {
  const provider = createServer(async (request, response) => {
    let form = ''
    for await (const part of request) form += part
    // Not before a look-up that is known to fail would be given up.
    await new Promise(resolve => setTimeout(resolve, 20))
    const { aud, sub, exp } = issuer.claims()
    response.writeHead(form.includes('broken') ? 400 : 200).end(JSON.stringify({ active: true, aud, sub, exp }))
  })
  const issuer = await startIssuer(t)
  const { upstream, send } = await startGate(t, {
    values: {
      IDP_INTROSPECTION: 'opaque',
      IDP_INTROSPECTION_ENDPOINT: `http://127.0.0.1:${await listen(t, provider)}/introspect`,
      IDP_CLIENT_ID: 'gate',
      IDP_CLIENT_SECRET: 'secret-secret-secret'
    }
  })
  const observed = async (token: string) => {
    await send('/any/1', bearerLines(token))
    return upstream.arrived.at(-1)!.headers['x-auth-observed']
  }
  let tried = 0
  // A slow machine may take longer than a look-up may.
  await until('a good token is admitted after a broken one', async () => {
    tried++
    // An answer that comes late would say that there are answers again.
    await new Promise(resolve => setTimeout(resolve, 100))
    t.equal(await observed(`broken-${tried}`), 'introspection_unavailable')
    return await observed(`good-${tried}`) === ''
  })
})

t.test('Who may not revoke is refused all the same', async t => {
  const { post, issuer } = await startGate(t, { values: { REVOCATION: { operators: { scope: 'revoke' } } } })
  const body = { sub_id: { format: 'opaque', id: 's1' } }
  t.equal((await post('/revocation/subjects', body)).status, 401)
  t.equal((await post('/revocation/subjects', body, bearerLines(issuer.token()))).status, 403)
  t.equal((await post('/revocation/subjects', body, bearerLines(issuer.token({ scope: 'revoke' })))).status, 204)
})

t.test('The service says that nothing is guarded, and is ready whatever is away', async t => {
  const { issuer, log, send, url } = await startGate(t, { values: { DPOP_REPLAY: 'redis://127.0.0.1:1' } })
  const warnings = log.filter(({ level, msg }) => level === 40 && msg.includes(`until the end of ${dayIn(3)}`))
  t.equal(warnings.length, 1)
  t.match(warnings[0]!.msg, /gate\.passCredentials is false/)
  await until('the store is away', async () => JSON.parse((await send('/health/ready')).body).checks.replay !== 'connecting')
  const ready = await send('/health/ready')
  t.equal(ready.status, 200)
  t.hasStrict(JSON.parse(ready.body), { observing: { until: dayIn(3) } })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  t.equal((await send('/any/1', dpopLines(token, client.proof({ token, url: `${url}/any/1` })))).status, 200)
  await atAnotherTime(4 * 86_400, async () => t.equal((await send('/health/ready')).status, 503))
})
