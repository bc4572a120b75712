import { generateKeyPairSync } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import t, { type Test } from 'tap'
import { containing, exactly } from '../helpers/containing.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { ownPathsOf } from '../../lib/gate/gate-settings.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer, type Issuer } from '../helpers/issuer.ts'
import { startUpstream, type Answerer, type TestUpstream } from '../helpers/upstream.ts'
import { sendRaw, type WireAnswer } from '../helpers/wire.ts'

interface Site extends RunningApp {
  issuer: Issuer
  upstream: TestUpstream
  /** One request. `Connection: close` is added. */
  send (target: string, lines?: readonly string[], method?: string): Promise<WireAnswer>
}

const RULES = [
  { path: '/open/*', allow: 'anyone' },
  { path: '/orders/:id', methods: ['GET'], scope: 'read:orders' },
  { path: '/orders/*', methods: ['POST', 'PUT'], anyScope: ['write:orders', 'admin'] },
  { path: '/orders/mine', methods: ['GET'] },
  { path: '/team', claims: { team: ['a', 'b'] } },
  { path: '/realm', claims: { 'realm_access.roles': 'admin' } },
  { path: '/other', audience: 'https://other.example' },
  { path: '/both', audience: ['https://first.example', 'https://other.example'] },
  { path: '/maybe', optional: true },
  { path: '/maybe/admin', optional: true, scope: 'admin' },
  { path: '/caf\u00e9/*' },
  { path: '/any/*' }
]

async function startSite (t: Test, gate: object = {}, values: object = {}, answer?: Answerer): Promise<Site> {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const running = await startApp(t, issuer, { GATE: { upstream: upstream.origin, rules: RULES, ...gate }, ...values })
  const { host } = new URL(running.url)
  return {
    ...running,
    issuer,
    upstream,
    send: (target, lines = [], method = 'GET') =>
      sendRaw(running.url, [`${method} ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...lines])
  }
}

t.test('A rule decides, and nothing passes without one.', async t => {
  const { send, issuer, upstream } = await startSite(t)
  const plain = bearerLines(issuer.token())
  const reader = bearerLines(issuer.token({ scope: 'read:orders' }))
  const rows: Array<[title: string, method: string, target: string, lines: string[], status: number]> = [
    ['anyone passes an open path', 'GET', '/open/x', [], 200],
    ['an invalid token changes nothing there', 'GET', '/open/x', bearerLines('x'), 200],
    ['a path without a rule', 'GET', '/elsewhere', plain, 404],
    ['a path that only begins as one with a rule', 'GET', '/orders', plain, 404],
    ['another case', 'GET', '/Open/x', plain, 404],
    ['a method without a rule', 'DELETE', '/orders/7', reader, 404],
    ['no token', 'GET', '/orders/7', [], 401],
    ['a token without the scope', 'GET', '/orders/7', plain, 403],
    ['a token with the scope', 'GET', '/orders/7', reader, 200],
    ['HEAD as GET', 'HEAD', '/orders/7', reader, 200],
    ['HEAD as GET, without the scope', 'HEAD', '/orders/7', plain, 403],
    ['the most specific path wins', 'GET', '/orders/mine', plain, 200],
    ['other methods have other rules', 'POST', '/orders/7', reader, 403],
    ['HEAD under a rule for other methods', 'HEAD', '/orders/7/8', bearerLines(issuer.token({ scope: 'admin' })), 404],
    ['any of the scopes', 'POST', '/orders/7', bearerLines(issuer.token({ scope: 'admin' })), 200],
    ['the claim', 'GET', '/team', bearerLines(issuer.token({ team: 'b' })), 200],
    ['another value of the claim', 'GET', '/team', bearerLines(issuer.token({ team: 'c' })), 403],
    [
      'the claim inside an object',
      'GET',
      '/realm',
      bearerLines(issuer.token({ realm_access: { roles: ['user', 'admin'] } })),
      200
    ],
    [
      'another value inside the object',
      'GET',
      '/realm',
      bearerLines(issuer.token({ realm_access: { roles: ['user'] } })),
      403
    ],
    ['no credentials where they are optional', 'GET', '/maybe', [], 200],
    ['a token where it is optional', 'GET', '/maybe', plain, 200],
    ['an invalid token where it is optional', 'GET', '/maybe', bearerLines('x'), 401],
    ['another scheme where credentials are optional', 'GET', '/maybe', ['Authorization: Basic eA=='], 401],
    ['a proof alone where credentials are optional', 'GET', '/maybe', ['DPoP: x'], 401],
    ['a guest beside an optional scope', 'GET', '/maybe/admin', [], 200],
    ['a token without an optional scope', 'GET', '/maybe/admin', plain, 403],
    ['a rule in another script', 'GET', '/caf%c3%a9/x', plain, 200],
    ['a method of another protocol', 'PROPFIND', '/any/x', plain, 200],
    ['a long parameter', 'GET', `/orders/${'7'.repeat(5000)}`, reader, 200],
    ['the sample routes are gone', 'GET', '/api/public', [], 404],
    ['an own path that does not exist', 'GET', '/health/elsewhere', plain, 404],
    ['an own path with another method', 'POST', '/health/live', plain, 404],
    ['an own path', 'GET', '/health/live', [], 200]
  ]
  for (const [title, method, target, lines, status] of rows) {
    const before = upstream.arrived.length
    const answer = await send(target, lines, method)
    t.equal(answer.status, status, title)
    t.equal(
      upstream.arrived.length - before,
      status === 200 && target !== '/health/live' ? 1 : 0,
      `${title}: the upstream`
    )
  }
  const { headers } = await send('/orders/7', plain)
  t.match(headers['www-authenticate'], /error="insufficient_scope".*scope="read:orders"/)
  t.hasStrict(JSON.parse((await send('/elsewhere')).body), { statusCode: 404, error: 'Not Found' })
  const metadata = JSON.parse((await send('/.well-known/oauth-protected-resource')).body)
  t.strictSame(
    metadata.scopes_supported,
    ['admin', 'read:orders', 'write:orders'],
    'the scopes of the rules are published'
  )
})

t.test('The audience of a rule takes the place of the configured one, in both directions.', async t => {
  const { send, issuer } = await startSite(t)
  const here = bearerLines(issuer.token())
  const other = bearerLines(issuer.token({ aud: 'https://other.example' }))
  // Twice: what was verified for one audience must not pass for another from memory either.
  for (const round of ['first', 'again']) {
    t.equal((await send('/other', other)).status, 200, round)
    t.equal((await send('/other', here)).status, 401)
    t.equal((await send('/any/x', here)).status, 200)
    t.equal((await send('/any/x', other)).status, 401)
    t.equal((await send('/both', other)).status, 200, 'one of several')
    t.equal((await send('/both', bearerLines(issuer.token({ aud: 'https://first.example' })))).status, 200)
    t.equal((await send('/both', here)).status, 401)
  }
})

t.test('A token that was verified under one rule is known under the others with the same audience.', async t => {
  const audience = 'https://other.example'
  const { send, issuer, app } = await startSite(t, {
    rules: [{ path: '/a', audience }, { path: '/b', audience }, { path: '/c', audience: 'https://third.example' }]
  })
  const token = bearerLines(issuer.token({ aud: [audience, 'https://third.example'] }))
  const verified = async (target: string) => {
    t.equal((await send(target, token)).status, 200)
    return app.holdfastGuard.tally!.tokens.samples('tokens').at(-1)!.value
  }
  t.strictSame([await verified('/a'), await verified('/b'), await verified('/c')], [1, 1, 2])
})

t.test('A proof is compared with the path that the rule saw, and passes once.', async t => {
  const { send, issuer, url, upstream, reasons } = await startSite(t)
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const proofFor = (target: string) => dpopLines(token, client.proof({ token, url: url + target }))
  const lines = proofFor('/any/a~b')
  t.equal((await send('/any/a%7eb?x=%2F..//', lines)).status, 200)
  t.equal(upstream.arrived.at(-1)!.target, '/any/a%7eb?x=%2F..//', 'the bytes that came go on')
  t.equal((await send('/any/a%7eb', lines)).status, 401)
  t.equal(reasons().at(-1), 'proof_replayed')
  t.equal((await send('/any/other', proofFor('/any/x'))).status, 401)
  t.equal(reasons().at(-1), 'htu_mismatch')
  t.equal(upstream.arrived.length, 1, 'a proof that passes once leads to one request')
})

t.test('A path that can be read in two ways is refused before any rule.', async t => {
  const { send, upstream, url } = await startSite(t, { rules: [{ path: '/*', allow: 'anyone' }] })
  const { host } = new URL(url)
  const refused = [
    '/a/../b',
    '/a/..',
    '/a/./b',
    '/a/%2e%2e/b',
    '/a/.%2E/b',
    '/a/%2e',
    '/a/..;/b',
    '/a/..;x=1/b',
    '/a/.;/b',
    '/a/..%3b/b',
    '/a/%2E%2e;/b',
    '/a%2fb',
    '/a%2Fb',
    '/a%5cb',
    '/a\\b',
    '//a',
    '/a//b',
    '/a%00',
    '/a%0d%0ab',
    '/a%1f',
    '/a%7f',
    '/a#b',
    '/a?b#c',
    '/a%',
    '/a%2',
    '/a%zz',
    '/a%ff',
    '/a%c0%af',
    '/a%ed%a0%80',
    '/a\u00e9',
    'http://elsewhere.example/a',
    `https://${host}/a`,
    'http:///a'
  ]
  for (const target of refused) t.equal((await send(target)).status, 400, target)
  t.equal((await send('/a', ['Host: elsewhere.example'])).status, 400, 'two Host lines')
  const named = await startSite(t, { upstream: upstream.origin, rules: [{ path: '/*', allow: 'anyone' }] }, {
    PUBLIC_URL: 'https://api.example'
  })
  const asHost = async (given: string) =>
    (await sendRaw(named.url, ['GET /a HTTP/1.1', `Host: ${given}`, 'Connection: close'])).status
  for (const given of ['a/admin?', 'a?', 'a#', 'a\\b', 'x@a', 'a b', '']) t.equal(await asHost(given), 400, `Host: ${given}`)
  t.strictSame(named.reasons(), Array(7).fill('host_invalid'))
  t.strictSame(upstream.arrived, [])
  t.equal(await asHost('elsewhere.example:8'), 200)
  const passed = [
    '/a/..b',
    '/a/...',
    '/a;x=1',
    '/a%3bx',
    '/a%25',
    '/a%252f',
    '/a%20b',
    '/a%C3%A9',
    '/a/',
    '/',
    '/a?b=//../%2F',
    '/.well-known/x',
    '/:a(b)*',
    '/*'
  ]
  for (const target of passed) {
    t.equal((await send(target)).status, 200, target)
    t.equal(upstream.arrived.at(-1)!.target, target)
  }
  t.equal((await send(`http://${host}/a?b`)).status, 200)
  t.equal(upstream.arrived.at(-1)!.target, '/a?b', 'an absolute target loses its authority')
  t.equal((await send(`http://${host}?b`)).status, 200)
  t.equal(upstream.arrived.at(-1)!.target, '/?b')
})

t.test('The upstream gets identity headers, and a client cannot forge them.', async t => {
  const gate = { claims: { team: 'https://id.example/team', level: 'level', roles: 'roles', gone: 'gone' } }
  const { send, issuer, upstream, url } = await startSite(t, gate)
  const { host } = new URL(url)
  const forged = [
    'X-Auth-Subject: root',
    'x-auth-subject: root',
    'X_Auth_Subject: root',
    'X-Auth_Issuer: root',
    'X.Auth.Scope: admin',
    'X-Auth-Claim-Team: root',
    'X_Auth_Claim_Other: root',
    'X-Auth-Statement: root',
    'X-Forwarded-For: 1.1.1.1',
    'X_Forwarded_Host: evil',
    'X-Forwarded-User: root',
    'Forwarded: host=evil',
    'DPoP_: x',
    'X-Auth-Token: mine',
    'Keep-Alive: x',
    'TE: trailers',
    'Proxy-Authorization: x',
    'Connection: close, X-Named',
    'X-Named: gone',
    'X-Stays: a',
    'X-Stays: b',
    'Cookie: a=1',
    'Cookie: b=2'
  ]
  const token = issuer.token({
    sub: 'Zo\u00eb %1',
    client_id: 'shop',
    scope: 'a b',
    'https://id.example/team': 'r\u00e9d',
    level: 3,
    roles: ['x', 'y']
  })
  await send('/any/x', [...bearerLines(token), ...forged])
  const { headers } = upstream.arrived[0]!
  t.hasStrict(headers, {
    host,
    'x-auth-subject': 'Zo%C3%AB%20%251',
    'x-auth-issuer': issuer.url,
    'x-auth-scope': 'a%20b',
    'x-auth-client': 'shop',
    'x-auth-claim-team': 'r%C3%A9d',
    'x-auth-claim-level': '3',
    'x-auth-claim-roles': '["x","y"]',
    'x-auth-claim-gone': '',
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-host': host,
    'x-forwarded-proto': 'http',
    forwarded: `for=127.0.0.1;host="${host}";proto=http`,
    'x-auth-token': 'mine',
    'x-stays': 'a, b',
    cookie: 'a=1, b=2'
  })
  const absent = [
    'authorization',
    'dpop',
    'x_auth_subject',
    'x-auth_issuer',
    'x.auth.scope',
    'x_auth_claim_other',
    'x-auth-statement',
    'x_forwarded_host',
    'x-forwarded-user',
    'keep-alive',
    'te',
    'proxy-authorization',
    'x-named',
    'upgrade'
  ]
  t.strictSame(absent.filter(name => name in headers), [])
  for (const name of ['x-auth-subject', 'x-auth-claim-team', 'x-forwarded-for']) {
    t.equal(
      upstream.arrived[0]!.rawHeaders.filter(entry => entry.toLowerCase() === name).length,
      1,
      `${name} arrives once`
    )
  }

  await send('/open/x', [...bearerLines(token), 'X-Auth-Subject: root'])
  const open = upstream.arrived[1]!.headers
  t.strictSame(['subject', 'issuer', 'scope', 'client', 'claim-team', 'claim-gone'].map(end => open[`x-auth-${end}`]), [
    '',
    '',
    '',
    '',
    '',
    ''
  ], 'under allow: anyone the identity headers are empty')
  t.notOk('authorization' in open)
})

t.test('The upstream gets exactly our own headers and the allowed ones of the client.', async t => {
  const { send, issuer, upstream, url, log } = await startSite(t, { claims: ['team'] })
  const { host } = new URL(url)
  const forged = [
    'X-Request-Id: mine',
    'X_Request_Id: mine',
    'Forwarded: for=1.1.1.1;host=evil;proto=https',
    'X-Forwarded-For: 1.1.1.1',
    'X-Forwarded-Host: evil',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Port: 1',
    'X-Forwarded-Prefix: /evil',
    'X-Auth-Subject: root',
    'X-Auth-Claim-Team: root'
  ]
  const rows: Array<[target: string, lines: string[], identity: string[]]> = [
    ['/any/x', bearerLines(issuer.token({ client_id: 'shop', scope: 'a', team: 'b' })), [
      'user-1',
      issuer.url,
      'a',
      'shop',
      'b'
    ]],
    ['/open/x', [], ['', '', '', '', '']]
  ]
  for (const [target, lines, identity] of rows) {
    await send(target, [...lines, ...forged, 'X-Own: mine'])
    const { rawHeaders } = upstream.arrived.at(-1)!
    t.strictSame(
      Array.from({ length: rawHeaders.length / 2 }, (_, at) => [rawHeaders[2 * at], rawHeaders[2 * at + 1]]),
      [
        ['host', host],
        ['connection', 'keep-alive'],
        ['X-Own', 'mine'],
        ...['x-auth-subject', 'x-auth-issuer', 'x-auth-scope', 'x-auth-client', 'x-auth-claim-team'].map((
          name,
          at
        ) => [name, identity[at]]),
        ['x-request-id', log.at(-1)!.reqId],
        ['x-forwarded-for', '127.0.0.1'],
        ['x-forwarded-host', host],
        ['x-forwarded-proto', 'http'],
        ['forwarded', `for=127.0.0.1;host="${host}";proto=http`]
      ],
      target
    )
  }
})

t.test('A cache learns that an answer depends on the token where a rule asks for one.', async t => {
  const { send, issuer } = await startSite(t, {}, {}, (request, response) => {
    response.writeHead(200, { ...request.url!.endsWith('/own') && { vary: 'Accept, authorization' }, 'dpop-nonce': 'theirs' })
    response.end('ok')
  })
  const lines = bearerLines(issuer.token())
  const rows: Array<[target: string, lines: string[], status: number, vary: string | undefined]> = [
    ['/any/x', lines, 200, 'Authorization'],
    ['/any/own', lines, 200, 'authorization, Accept'],
    ['/maybe', [], 200, 'Authorization'],
    ['/any/x', [], 401, 'Authorization'],
    ['/open/x', lines, 200, undefined],
    ['/open/own', [], 200, 'Accept, authorization'],
    ['/nowhere', lines, 404, undefined]
  ]
  for (const [target, lines, status, vary] of rows) {
    const answer = await send(target, lines)
    t.strictSame([answer.status, answer.headers.vary], [status, vary], target)
    t.notOk('dpop-nonce' in answer.headers, 'a nonce is the gate\'s to tell')
  }
})

t.test('A path with parameters passes if the path without them belongs to the same rule, and is refused otherwise.', async t => {
  const { send, upstream, reasons } = await startSite(t, {
    rules: [{ path: '/*', allow: 'anyone' }, { path: '/admin/*' }, { path: '/admin' }]
  })
  for (const target of ['/;/admin', '/admin;/x', '/admin%3b', '/admin;x', '/%3B/admin', '/open/;', '/open/..;/admin']) {
    const logged = reasons().length
    t.equal((await send(target)).status, 400, target)
    t.strictSame(reasons().slice(logged), ['target_path'], target)
  }
  t.equal((await send('/admin')).status, 401, 'the twin without a parameter')
  t.equal((await send('/admin/x;y')).status, 401)
  t.strictSame(upstream.arrived, [])
  for (const target of ['/open;x/y', '/open;x=1;y', '/open%3bx', '/x;/admin', '/a%253B']) {
    t.equal((await send(target)).status, 200, target)
    t.equal(upstream.arrived.at(-1)!.target, target)
  }
})

t.test('Headers that a client sends as trailers do not arrive, and neither does the body twice.', async t => {
  const { send, issuer, upstream } = await startSite(t)
  const lines = [
    ...bearerLines(issuer.token()),
    'Transfer-Encoding: chunked',
    'Trailer: X-Auth-Subject',
    '',
    '3',
    'abc',
    '0',
    'X-Auth-Subject: root'
  ]
  t.equal((await send('/any/x', lines, 'POST')).status, 200)
  t.hasStrict(upstream.arrived, [{ body: 'abc', trailers: [], headers: { 'x-auth-subject': 'user-1' } }])
  t.notOk('trailer' in upstream.arrived[0]!.headers)
  t.equal(
    (await send('/any/x', [
      ...bearerLines(issuer.token()),
      'Transfer-Encoding: chunked',
      'Content-Length: 3',
      '',
      '3',
      'abc',
      '0'
    ], 'POST')).status,
    400,
    'a length beside chunks'
  )
  t.equal(
    (await send('/any/x', [
      ...bearerLines(issuer.token()),
      'Content-Length: 3',
      'Content-Type: no type at all',
      '',
      'abc'
    ], 'POST')).status,
    200,
    'any content type'
  )
  t.equal(upstream.arrived.at(-1)!.body, 'abc\r\n\r\n'.slice(0, 3))
})

t.test('Credentials arrive if they are to be passed on.', async t => {
  const { send, issuer, upstream } = await startSite(t, { passCredentials: true })
  const token = issuer.token()
  await send('/any/x', bearerLines(token))
  t.equal(upstream.arrived[0]!.headers.authorization, `Bearer ${token}`)
})

t.test('A signed statement says the same as the identity headers.', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const statementKey = join(t.testdir(), 'key.pem')
  writeFileSync(statementKey, privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const { send, issuer, upstream } = await startSite(t, { statementKey }, { PUBLIC_URL: 'https://gate.example' })
  await send('/any/a%7e?q=1', [...bearerLines(issuer.token({ scope: 'a b' })), 'X-Auth-Statement: forged'])
  await send('/open/x')
  const published = await send('/.well-known/holdfast-jwks.json')
  t.equal(published.status, 200)
  t.notMatch(published.body, containing('"d"'))
  const keys = createLocalJWKSet(JSON.parse(published.body))
  const { payload, protectedHeader } = await jwtVerify(upstream.arrived[0]!.headers['x-auth-statement']!, keys, {
    issuer: 'https://gate.example',
    audience: upstream.origin,
    algorithms: ['ES256']
  })
  t.match(payload, {
    sub: exactly('user-1'),
    scope: exactly('a b'),
    method: exactly('GET'),
    path: exactly('/any/a%7e'),
    jti: /^[\w-]{22}$/
  })
  t.equal(payload.exp! - payload.iat!, 60)
  t.equal(protectedHeader.alg, 'ES256')
  t.strictSame(payload.sub_id, { format: 'iss_sub', iss: issuer.url, sub: 'user-1' }, 'whose subject it is')
  t.equal(upstream.arrived[1]!.headers['x-auth-statement'], '', 'without a caller the statement is empty')
  const unnamed = await startSite(t, { statementKey })
  await unnamed.send('/any/a?q', bearerLines(unnamed.issuer.token()))
  const { iss, path } = decodeJwt(unnamed.upstream.arrived[0]!.headers['x-auth-statement']!)
  t.strictSame(
    { iss, path },
    { iss: unnamed.url, path: '/any/a' },
    'without PUBLIC_URL by the address that the client used'
  )
})

t.test('A statement key that cannot be used stops the start.', async t => {
  const folder = t.testdir({
    'text.pem': 'x',
    'broken.pem': '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'
  })
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-384' })
  writeFileSync(join(folder, 'p384.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }))
  for (
    const [file, fault] of [
      ['none.pem', /: the file cannot be read \(ENOENT\); allowed: path of a file with a private key/],
      ...['text.pem', 'broken.pem', 'p384.pem'].map(file => [file, /: it is no private key [^(]+; allowed: /] as const)
    ] as const
  ) {
    const statementKey = join(folder, file)
    const error = await startSite(t, { statementKey }).catch(error => error)
    t.match(error, { name: exactly('SettingsError'), problems: [fault] }, file)
    t.ok(error.problems[0].startsWith(`gate.statementKey is ${JSON.stringify(statementKey)}: `), file)
  }
  const written = await startSite(t, { statementKey: '-----BEGIN PRIVATE KEY-----\nAAAA' }).catch(error => error)
  t.match(
    written.problems[0],
    /^gate\.statementKey is a key itself \(not shown\); allowed: path of a file/,
    'in place of its path'
  )
})

t.test('A new statement key is published before it signs, and the file is read again.', async t => {
  const pem = () =>
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const [old, next] = ['old.pem', 'next.pem'].map(name =>
    join(t.testdir({ 'old.pem': pem(), 'next.pem': pem() }), name)
  ) as [string, string]
  const timers: Array<() => void> = []
  const { setInterval } = globalThis
  globalThis.setInterval = ((run: () => void, ms: number) => {
    if (ms === 5000) timers.push(run)
    return setInterval(run, ms)
  }) as never
  t.teardown(() => {
    globalThis.setInterval = setInterval
  })
  const { send, issuer, upstream, log } = await startSite(t, { statementKey: [old, next] })
  const published = async (): Promise<string[]> =>
    JSON.parse((await send('/.well-known/holdfast-jwks.json')).body).keys.map(({ kid }: { kid: string }) => kid)
  const signed = async () => {
    await send('/any/x', bearerLines(issuer.token()))
    return decodeProtectedHeader(upstream.arrived.at(-1)!.headers['x-auth-statement']!).kid!
  }
  const [first, second] = await published()
  t.equal(await signed(), first)
  writeFileSync(old, readFileSync(next))
  for (const run of timers) run()
  while (!log.some(({ event }) => event === 'statement_keys_read')) await new Promise(setImmediate)
  t.strictSame([await published(), await signed()], [[second], second])
  writeFileSync(old, 'x')
  for (const run of timers) run()
  while (!log.some(({ event }) => event === 'statement_key_unusable')) {
    await new Promise(setImmediate)
  }
  t.hasStrict(log.find(({ event }) => event === 'statement_key_unusable'), { level: 40, path: old })
  t.equal(await signed(), second)
})

t.test('ownPrefix moves the own paths of the gate.', async t => {
  const { send, upstream } = await startSite(t, { ownPrefix: '/-', rules: [{ path: '/*', allow: 'anyone' }] })
  for (const path of ['/-/health/live', '/-/metrics', '/-/docs/json', '/.well-known/oauth-protected-resource']) {
    t.equal((await send(path)).status, 200, path)
  }
  t.equal((await send('/verify/x')).status, 404)
  t.strictSame(upstream.arrived, [])
  for (const path of ['/health/live', '/metrics', '/docs']) {
    t.equal((await send(path)).headers['x-upstream'], 'yes', path)
  }
})

t.test('Each path that a gate answers itself is one that no rule may have.', async t => {
  const issuer = await startIssuer(t)
  for (const ownPrefix of [undefined, '/-']) {
    const urls = new Set<string>()
    await startApp(
      t,
      issuer,
      {
        GATE: { upstream: 'http://127.0.0.1:9', ...ownPrefix && { ownPrefix } },
        REVOCATION: { operators: { scope: 'revoke' } }
      },
      undefined,
      app =>
        app.addHook('onRoute', ({ url }) => {
          urls.add(url)
        })
    )
    const own = ownPathsOf(ownPrefix ?? '')
    const isOwn = (url: string) => own.some(path => url === path || url.startsWith(`${path}/`))
    t.strictSame([...urls].filter(url => !isOwn(url)), ['/*'])
    // Without a key for statements nothing publishes one.
    const unused = own.filter(path => ![...urls].some(url => url.startsWith(path)))
    t.strictSame(unused, ['/.well-known/holdfast-jwks.json'])
  }
})

t.test('An answer that comes at once in several pieces arrives whole, like one in a single piece.', async t => {
  const { send, issuer } = await startSite(t, {}, {}, ({ url, socket }) => {
    const body = url === '/any/pieces' ? '1\r\na\r\n1\r\nb\r\n1\r\nc\r\n' : '3\r\nabc\r\n'
    socket.write(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`)
  })
  for (const path of ['/any/pieces', '/any/piece']) {
    const { status, headers, body } = await send(path, bearerLines(issuer.token()))
    t.strictSame([status, headers['content-length'], body], [200, '3', 'abc'], path)
  }
})

t.test('Every answer of the upstream is passed on, and each request is sent once.', async t => {
  let seen = 0
  const answers: Record<string, Answerer> = {
    '/any/401': (_request, response) =>
      response.writeHead(401, {
        'www-authenticate': 'Basic',
        connection: 'x-hop',
        'x-hop': '1',
        'set-cookie': ['a=1', 'b=2']
      }).end('no'),
    '/any/503': (_request, response) => response.writeHead(503, { 'retry-after': '1' }).end(),
    '/any/204': (_request, response) => response.writeHead(204).end(),
    '/any/garbage': ({ socket }) => socket.end('garbage\r\n\r\n'),
    '/any/reset': ({ socket }) => socket.destroy(),
    '/any/101': ({ socket }) =>
      socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
    '/any/hints': (_request, response) => {
      response.writeProcessing()
      response.writeEarlyHints({ link: '</a.css>; rel=preload' })
      response.end('after')
    },
    '/any/bad-hints': ({ socket }) =>
      socket.end(
        'HTTP/1.1 103 Early Hints\r\nLink: nonsense\r\n\r\nHTTP/1.1 104 Later\r\n\r\nHTTP/1.1 103 Early ' +
          'Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
      ),
    '/any/cut': (_request, response) => {
      response.writeHead(200, { 'content-length': '10' })
      response.write('half', () => response.destroy())
    },
    '/any/early': (_request, response) => response.writeHead(413).end('early')
  }
  const { send, issuer, url } = await startSite(t, {}, {}, (request, response) => {
    seen++
    answers[request.url!]!(request, response)
  })
  const lines = bearerLines(issuer.token())
  const refusal = await send('/any/401', lines)
  t.hasStrict(
    refusal,
    { status: 401, body: '2\r\nno\r\n0\r\n\r\n', headers: { 'www-authenticate': 'Basic' } },
    'in pieces, since its length is not known'
  )
  t.strictSame(refusal.lines.filter(([name]) => name === 'set-cookie').map(([, value]) => value), ['a=1', 'b=2'])
  t.notOk('x-hop' in refusal.headers)
  t.hasStrict(await send('/any/503', lines), { status: 503, headers: { 'retry-after': '1' } })
  t.equal((await send('/any/204', lines)).status, 204)
  for (const path of ['/any/garbage', '/any/reset', '/any/101']) {
    const answer = await send(path, lines)
    t.equal(answer.status, 502, path)
    t.strictSame(JSON.parse(answer.body), { statusCode: 502, error: 'Bad Gateway', message: 'Bad Gateway' })
  }
  const hints = await send('/any/hints', lines)
  t.equal(hints.status, 102, 'the first interim answer comes first')
  t.match(hints.body, /103 Early Hints[^]*link: <\/a.css>; rel=preload[^]*200 OK[^]*after/i)
  const old = await sendRaw(url, ['GET /any/hints HTTP/1.0', `Host: ${new URL(url).host}`, ...lines])
  t.hasStrict(old, { status: 200, body: 'after' }, 'a client of HTTP/1.0 gets no interim answer')
  t.equal((await send('/any/bad-hints', lines)).status, 200, 'hints that Node cannot write are left out')
  t.equal(
    (await send('/any/early', [...lines, 'Content-Length: 6', '', 'ab'], 'POST')).status,
    413,
    'an answer before the end of the body'
  )
  const cut = await send('/any/cut', lines)
  t.equal(cut.body, 'half', 'a broken answer stays broken')
  t.equal(seen, 11)
})
