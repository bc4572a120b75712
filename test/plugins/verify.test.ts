import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import t, { type Test } from 'tap'
import { startApp } from '../helpers/app.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startScoped } from '../helpers/proxied-site.ts'
import { sendRaw } from '../helpers/wire.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

const RULES = [
  { path: '/open/*', allow: 'anyone' },
  { path: '/orders/:id', methods: ['GET'], scope: 'read:orders' },
  { path: '/any/*' }
]

async function startGate (t: Test, gate: object = {}, values: object = {}) {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { GATE: { rules: RULES, ...gate }, TRUST_PROXY: 'loopback', ...values })
  const { host } = new URL(running.url)
  const ask = (target: string, lines: readonly string[] = [], method = 'GET', asked = host) =>
    sendRaw(running.url, [`${method} ${target} HTTP/1.1`, `Host: ${asked}`, 'Connection: close', ...lines])
  return { ...running, issuer, ask }
}

/** How Envoy sends the scheme. */
const ENVOY = 'X-Forwarded-Proto: https'

/** How each family describes a request of a client to https://api.example. */
const FAMILIES: Record<
  string,
  (method: string, target: string) => { target: string, method: string, lines: string[], host?: string }
> = {
  nginx: (method, target) => ({
    target: '/verify/nginx',
    method: 'GET',
    lines: [`X-Original-Method: ${method}`, `X-Original-URL: https://api.example${target}`]
  }),
  haproxy: (method, target) => ({
    target: '/verify/haproxy',
    method: 'HEAD',
    lines: [`X-Original-Method: ${method}`, `X-Original-URL: https://api.example${target}`]
  }),
  forwarded: (method, target) => ({
    target: '/verify/forwarded',
    method: 'GET',
    lines: [
      `X-Forwarded-Method: ${method}`,
      'X-Forwarded-Proto: https',
      'X-Forwarded-Host: api.example',
      `X-Forwarded-Uri: ${target}`
    ]
  }),
  envoy: (method, target) => ({ target: `/verify/envoy${target}`, method, lines: [ENVOY], host: 'api.example' })
}

for (const [family, describe] of Object.entries(FAMILIES)) {
  t.test(`${family} sends authorization requests, and gets the answers of the guard.`, async t => {
    const { ask, issuer, reasons } = await startGate(t)
    const put = (method: string, target: string, lines: readonly string[] = []) => {
      const request = describe(method, target)
      return ask(request.target, [...request.lines, ...lines], request.method, request.host)
    }
    const client = await createDpopClient()
    const token = issuer.token({ cnf: client.cnf, scope: 'read:orders' })
    const proof = (url: string, method = 'GET') => dpopLines(token, client.proof({ token, url, method }))
    const lines = proof('https://api.example/orders/7')

    const passed = await put('GET', '/orders/7?allow=anyone', lines)
    t.hasStrict(passed, {
      status: 200,
      body: '',
      headers: {
        'x-auth-subject': 'user-1',
        'x-auth-scope': 'read:orders',
        'x-auth-client': '',
        'cache-control': 'no-store'
      }
    })
    t.notOk('www-authenticate' in passed.headers)
    t.equal((await put('GET', '/orders/7', lines)).status, 401, 'the same proof again')
    t.equal(reasons().at(-1), 'proof_replayed')
    t.equal(
      (await put('GET', '/any/7', proof('https://api.example/orders/7'))).status,
      401,
      'the proof of another path'
    )
    t.equal(
      (await put('GET', '/any/7', proof('https://api.example/any/7', 'POST'))).status,
      401,
      'the proof of another method'
    )
    t.equal(reasons().at(-1), 'htm_mismatch')
    t.equal((await put('POST', '/any/7', proof('https://api.example/any/7', 'POST'))).status, 200)

    t.hasStrict(
      await put('GET', '/open/x', bearerLines('x')),
      { status: 200, headers: { 'x-auth-subject': '' } },
      'anyone'
    )
    const refused = await put('GET', '/any/x')
    t.match(refused, { status: 401, headers: { 'www-authenticate': /^Bearer, DPoP algs=/ } })
    const forbidden = await put('GET', '/orders/7', bearerLines(issuer.token()))
    t.match(forbidden, { status: 403, headers: { 'www-authenticate': /error="insufficient_scope"/ } })
    t.equal((await put('GET', '/elsewhere', bearerLines(issuer.token()))).status, 403, 'a path without a rule')
    t.equal(
      (await put('DELETE', '/orders/7', bearerLines(issuer.token({ scope: 'read:orders' })))).status,
      403,
      'a method without a rule'
    )
    const bearer = bearerLines(issuer.token({ scope: 'read:orders' }))
    t.equal((await put('PROPFIND', '/any/7', bearer)).status, 200, 'a method that Fastify has to be told of')
    t.equal((await put('PROPFIND', '/orders/7', bearer)).status, 403, 'the same without a rule')
    for (
      const target of [
        '/any/../open/x',
        '/open/%2e%2e/any',
        '/open/..;/any',
        '/open%2fx',
        '/open//x',
        '/open/\\x',
        '/open/x#y',
        '/open/%ff'
      ]
    ) {
      t.equal((await put('GET', target)).status, 403, target)
    }
  })
}

t.test(
  'With CORS on, a proxy that passes on the method of its client gets no yes to a preflight that no rule lets ' +
    'through.',
  async t => {
    const { ask } = await startGate(t, {}, { CORS_ORIGINS: ['https://app.example'] })
    const preflight = ['Origin: https://app.example', 'Access-Control-Request-Method: GET']
    for (const [family, describe] of Object.entries(FAMILIES)) {
      const put = async (target: string, lines: string[]) => {
        const request = describe('OPTIONS', target)
        return (await ask(request.target, [...request.lines, ...lines], 'OPTIONS', request.host)).status
      }
      t.strictSame(
        [await put('/any/x', preflight), await put('/orders/7', preflight), await put('/open/x', preflight)],
        [
          401,
          403,
          200
        ],
        family
      )
      t.strictSame(
        [await put('/any/x', []), await put('/orders/7', []), await put('/open/x', [])],
        [401, 403, 200],
        `${family}, no preflight`
      )
    }
    const untrusted = await startGate(t, {}, { CORS_ORIGINS: ['https://app.example'], TRUST_PROXY: '192.0.2.1' })
    t.equal(
      (await untrusted.ask('/verify/envoy/open/x', [ENVOY, ...preflight], 'OPTIONS')).status,
      403,
      'from a peer that is not trusted'
    )
  }
)

t.test('An authorization request that does not describe exactly one request in the headers of its family gets 403.', async t => {
  const { ask, reasons } = await startGate(t)
  const nginx = ['X-Original-Method: GET', 'X-Original-URL: https://api.example/open/x']
  const forwarded = [
    'X-Forwarded-Method: GET',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Host: api.example',
    'X-Forwarded-Uri: /open/x'
  ]
  const without = (lines: readonly string[], name: string) =>
    lines.filter(line => !line.startsWith(`${name}:`))
  const replaced = (
    lines: readonly string[],
    line: string
  ) => [...without(lines, line.split(':', 1)[0]!), line]
  const rows: Array<[title: string, target: string, lines: readonly string[], status: number]> = [
    ['nginx', '/verify/nginx', nginx, 200],
    ['nginx with a query of its own', '/verify/nginx?x=1', nginx, 200],
    ['haproxy', '/verify/haproxy', nginx, 200],
    ['forwarded', '/verify/forwarded', forwarded, 200],
    ['envoy', '/verify/envoy/open/x', [ENVOY], 200],
    ['no method', '/verify/nginx', without(nginx, 'X-Original-Method'), 403],
    ['no URL', '/verify/nginx', without(nginx, 'X-Original-URL'), 403],
    ['an empty URL', '/verify/nginx', replaced(nginx, 'X-Original-URL:'), 403],
    ['two URLs', '/verify/nginx', [...nginx, nginx[1]!], 403],
    ['two methods', '/verify/nginx', [...nginx, nginx[0]!], 403],
    [
      'two URLs in one line',
      '/verify/nginx',
      replaced(nginx, 'X-Original-URL: https://api.example/open/x?a, https://api.example/open/x'),
      403
    ],
    ['a relative URL', '/verify/nginx', replaced(nginx, 'X-Original-URL: /open/x'), 403],
    ['a URL with user info', '/verify/nginx', replaced(nginx, 'X-Original-URL: https://a@api.example/open/x'), 403],
    ['an unknown method', '/verify/nginx', replaced(nginx, 'X-Original-Method: get'), 403],
    ['names with _', '/verify/nginx', ['X_Original_Method: GET', 'X_Original_URL: https://api.example/open/x'], 403],
    [
      'names with _ beside the right ones',
      '/verify/nginx',
      [...nginx, 'X_Original_URL: https://api.example/any/x'],
      200
    ],
    ['another family beside it', '/verify/nginx', [...nginx, 'X-Forwarded-Uri: /open/x'], 403],
    ['another family instead', '/verify/nginx', forwarded, 403],
    ['forwarded without a host', '/verify/forwarded', without(forwarded, 'X-Forwarded-Host'), 403],
    ['forwarded without a scheme', '/verify/forwarded', without(forwarded, 'X-Forwarded-Proto'), 403],
    ['forwarded with two schemes', '/verify/forwarded', replaced(forwarded, 'X-Forwarded-Proto: https, http'), 403],
    [
      'forwarded with a host that is a path',
      '/verify/forwarded',
      replaced(forwarded, 'X-Forwarded-Host: api.example/any'),
      403
    ],
    [
      'forwarded with an absolute target',
      '/verify/forwarded',
      replaced(forwarded, 'X-Forwarded-Uri: https://api.example/open/x'),
      403
    ],
    ['forwarded with two targets', '/verify/forwarded', [...forwarded, 'X-Forwarded-Uri: /open/y'], 403],
    ['forwarded beside nginx', '/verify/forwarded', [...forwarded, nginx[0]!], 403],
    ['envoy without a scheme, which is then that of the authorization request', '/verify/envoy/open/x', [], 200],
    ['envoy with two schemes', '/verify/envoy/open/x', [ENVOY, ENVOY], 403],
    ['envoy beside nginx', '/verify/envoy/open/x', [ENVOY, nginx[1]!], 403],
    ['envoy with two hosts', '/verify/envoy/open/x', [ENVOY, 'Host: elsewhere.example'], 403],
    ['envoy with a target that is absolute', '/verify/envoy//open/x', [ENVOY], 403],
    ['envoy with a path of the endpoint in other letters', '/verify/%65nvoy/open/x', [ENVOY], 403],
    ['envoy with an absolute target', 'http://a/verify/envoy/open/x', [ENVOY], 403],
    ['no such family', '/verify/other', nginx, 404]
  ]
  for (const [title, target, lines, status] of rows) t.equal((await ask(target, lines)).status, status, title)
  t.ok(reasons().includes('question_refused'))
  t.ok(reasons().includes('target_path'))
  t.equal(
    (await ask('/verify/envoy/open/x', [ENVOY, 'Content-Length: 3', 'Content-Type: no type', '', 'abc'], 'POST'))
      .status,
    200,
    'a body is not looked at'
  )
  t.match(await ask('/verify/envoy/open/x', [ENVOY, 'Expect: 100-continue', 'Content-Length: 3', '', 'abc'], 'POST'), {
    status: 100,
    body: /^HTTP\/1.1 200 /
  })
})

t.test('The log and the answer say what was wrong with an authorization request.', async t => {
  const { ask, log } = await startGate(t, { rules: [{ path: '/*', allow: 'anyone' }] })
  const method = 'X-Original-Method: GET'
  const url = 'X-Original-URL: https://api.example/x'
  const forwarded = [
    'X-Forwarded-Method: GET',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Host: api.example',
    'X-Forwarded-Uri: /x'
  ]
  const withHost = (host: string) => forwarded.map(line => line.replace('api.example', host))
  const rows: ReadonlyArray<{ target?: string, lines: readonly string[], fault: string }> = [
    { lines: [url], fault: 'The authorization request lacks the header x-original-method.' },
    { lines: [method], fault: 'The authorization request lacks the header x-original-url.' },
    { lines: [method, 'X-Original-URL:'], fault: 'The authorization request lacks the header x-original-url.' },
    { lines: [method, url, url], fault: 'The authorization request has the header x-original-url more than once.' },
    {
      lines: [method, url, 'X-Forwarded-Uri: /x'],
      fault: 'The authorization request has the header x-forwarded-uri, which another kind of proxy sends.'
    },
    {
      lines: [method, url, 'X-Forwarded-Method: GET'],
      fault: 'The authorization request has the header x-forwarded-method, which another kind of proxy sends.'
    },
    { lines: ['X-Original-Method: get', url], fault: 'The original method is unknown.' },
    { lines: ['X-Original-Method: CONNECT', url], fault: 'The original request asks for a tunnel.' },
    {
      target: '/verify/forwarded',
      lines: ['X-Forwarded-Method: CONNECT', ...forwarded.slice(1)],
      fault: 'The original request asks for a tunnel.'
    },
    {
      lines: [method, url, 'X-Auth-Claim-Team: root'],
      fault: 'The original request has a header of a claim that the gate does not set.'
    },
    {
      target: '/verify/forwarded',
      lines: [...forwarded, method],
      fault: 'The authorization request has the header x-original-method, which another kind of proxy sends.'
    },
    {
      target: '/verify/forwarded',
      lines: [...forwarded, url],
      fault: 'The authorization request has the header x-original-url, which another kind of proxy sends.'
    },
    {
      target: '/verify/forwarded',
      lines: forwarded.map(line => line.replace('/x', 'x')),
      fault: 'The original request has no path.'
    },
    {
      target: '/verify/forwarded',
      lines: [...forwarded.slice(2), forwarded[0]!],
      fault: 'The authorization request lacks the header x-forwarded-proto.'
    },
    {
      target: '/verify/forwarded',
      lines: forwarded.map(line => line.replace('https', 'ftp')),
      fault: 'The header x-forwarded-proto holds no scheme.'
    },
    { lines: [method, 'X-Original-URL: /x'], fault: 'The header x-original-url holds no absolute URL.' },
    { lines: [method, 'X-Original-URL: http://a@b/x'], fault: 'The header x-original-url holds no host.' },
    { lines: [method, 'X-Original-URL: http://a?/x'], fault: 'The original request has no path.' },
    ...[
      'api.example/a',
      'api.example?a',
      'api.example#a',
      'a\\api.example',
      'a@api.example',
      'a,api.example',
      'a api.example',
      'a\tapi.example'
    ].map(host => ({
      target: '/verify/forwarded',
      lines: withHost(host),
      fault: 'The header x-forwarded-host holds no host.'
    })),
    { target: '/verify/%65nvoy/x', lines: [ENVOY], fault: 'The original request has no path.' }
  ]
  for (const { target = '/verify/nginx', lines, fault } of rows) {
    const answer = await ask(target, lines)
    t.equal(answer.status, 403, fault)
    t.equal(JSON.parse(answer.body).message, fault)
    t.hasStrict(log.filter(({ msg }) => msg === 'request refused').at(-1), {
      reason: 'question_refused',
      fault,
      route: undefined
    })
  }
  t.equal((await ask('/verify/forwarded', forwarded)).status, 200, 'the twin')
  t.equal((await ask('/verify/nginx', [method, url])).status, 200)
  t.equal((await ask('/verify/envoy/x', [ENVOY])).status, 200)
})

t.test('The line of a refusal names the rule, whether a proxy asks or the gate forwards.', async t => {
  const { ask, log, issuer } = await startGate(t, {
    upstream: 'http://127.0.0.1:1',
    rules: [{ path: '/orders/:id', scope: 'read' }]
  })
  const asking = ['X-Original-Method: GET', 'X-Original-URL: https://api.example/orders/7']
  const user = bearerLines(issuer.token())
  for (
    const [target, lines, status] of [['/verify/nginx', asking, 401], ['/verify/nginx', [...asking, ...user], 403], [
      '/orders/7',
      [],
      401
    ], ['/orders/7', user, 403]] as const
  ) {
    t.equal((await ask(target, lines)).status, status)
    t.hasStrict(log.filter(({ msg }) => msg === 'request refused').at(-1), {
      route: '/orders/:id',
      reason: status === 401 ? 'credentials_missing' : 'scope_missing'
    }, target)
  }
})

const HOSTILE_AUTHORITIES = [
  'api.example?',
  'api.example?x',
  'api.example/open/x?',
  'api.example#',
  'api.example/',
  'api.example\\',
  'a@api.example',
  'api.example:x',
  'api.example:0',
  'api.example:80:80',
  'api.example,b',
  'api.example b',
  'http://api.example',
  '[::1',
  '',
  ':80'
]

/** A host with a query would make another path of what follows it. Each has a twin that differs only in this. */
for (
  const [family, describe] of Object.entries<
    (
    parts: { scheme?: string, host?: string, target?: string }
    ) => Parameters<Awaited<ReturnType<typeof startGate>>['ask']>
      >({
        nginx: (
          { scheme = 'https', host = 'api.example', target = '/any/x' }
        ) => ['/verify/nginx', ['X-Original-Method: GET', `X-Original-URL: ${scheme}://${host}${target}`]],
        haproxy: (
          { scheme = 'https', host = 'api.example', target = '/any/x' }
        ) => ['/verify/haproxy', ['X-Original-Method: GET', `X-Original-URL: ${scheme}://${host}${target}`]],
        forwarded: (
          { scheme = 'https', host = 'api.example', target = '/any/x' }
        ) => ['/verify/forwarded', [
          'X-Forwarded-Method: GET',
      `X-Forwarded-Proto: ${scheme}`,
      `X-Forwarded-Host: ${host}`,
      `X-Forwarded-Uri: ${target}`
        ]],
        envoy: (
          { scheme = 'https', host = 'api.example', target = '/any/x' }
        ) => [`/verify/envoy${target}`, [`X-Forwarded-Proto: ${scheme}`], 'GET', host]
      })
) {
  t.test(`${family}: scheme, authority and path are each read by their own grammar, and nothing is completed.`, async t => {
    const { ask } = await startGate(t, {
      rules: [{ path: '/', allow: 'anyone' }, { path: '/any/*', allow: 'anyone' }, { path: '/guarded' }]
    })
    const statusOf = async (parts: Parameters<typeof describe>[0]) =>
      (await ask(...describe(parts))).status
    t.equal(await statusOf({}), 200)
    t.equal(await statusOf({ target: '/' }), 200, 'the root, which is open')
    t.equal(await statusOf({ target: '/guarded' }), 401, 'the twin of those below')
    for (
      const host of ['API.example', 'api.example:8443', 'api.example:', '[::1]:80', '127.0.0.1', 'b\xc3\xbcro.example']
    ) t.equal(await statusOf({ host }), 200, host)
    // What these two have joined can be a good URL, but another one. That is why their files compare Host themselves.
    const isJoined = family === 'nginx' || family === 'haproxy'
    for (const host of HOSTILE_AUTHORITIES) {
      if (!isJoined || !host.includes('/')) {
        t.equal(await statusOf({ host, target: '/guarded' }), 403, JSON.stringify(host))
      }
    }
    for (const scheme of ['http', 'HTTPS']) t.equal(await statusOf({ scheme }), 200, scheme)
    for (
      const scheme of [
        'http://a.test/any/x?',
        'ftp',
        'javascript',
        'https:',
        'http, https',
        'https://api.example/any/x#',
        ''
      ]
    ) {
      if (!isJoined || !scheme.includes('/')) {
        t.equal(await statusOf({ scheme, target: '/guarded' }), 403, JSON.stringify(scheme))
      }
    }
    for (const target of ['', '?/any/x', '?', '#/any/x', 'any/x']) {
      t.equal(await statusOf({ target }), family === 'envoy' ? 404 : 403, JSON.stringify(target))
    }
  })
}

t.test('With PUBLIC_URL an original of another scheme or authority is refused, in all families.', async t => {
  const { ask, issuer } = await startGate(t, {}, { PUBLIC_URL: 'https://api.example/base' })
  const token = bearerLines(issuer.token())
  const origins: ReadonlyArray<readonly [scheme: string, host: string, status: number]> = [
    ['https', 'api.example', 200],
    ['https', 'API.EXAMPLE:443', 200],
    ['http', 'api.example', 403],
    ['https', 'evil.example', 403],
    ['https', 'api.example:8443', 403],
    ['http', 'api.example:443', 403]
  ]
  for (const [scheme, host, status] of origins) {
    const requests: Record<string, Parameters<typeof ask>> = {
      nginx: ['/verify/nginx', ['X-Original-Method: GET', `X-Original-URL: ${scheme}://${host}/any/x`, ...token]],
      haproxy: ['/verify/haproxy', ['X-Original-Method: GET', `X-Original-URL: ${scheme}://${host}/any/x`, ...token]],
      forwarded: ['/verify/forwarded', [
        'X-Forwarded-Method: GET',
        `X-Forwarded-Proto: ${scheme}`,
        `X-Forwarded-Host: ${host}`,
        'X-Forwarded-Uri: /any/x',
        ...token
      ]],
      envoy: ['/verify/envoy/any/x', [`X-Forwarded-Proto: ${scheme}`, ...token], 'GET', host]
    }
    for (const [family, request] of Object.entries(requests)) {
      t.equal((await ask(...request)).status, status, `${family}: ${scheme}://${host}`)
    }
  }
})

t.test('For Envoy only Host and the scheme are read, and no other forwarded header.', async t => {
  const { ask, issuer, reasons, url: service } = await startGate(t)
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const forged = [
    'X-Forwarded-Host: evil.example',
    'X-Forwarded-Port: 1234',
    'X-Forwarded-Prefix: /evil',
    'Forwarded: proto=http;host=evil.example'
  ]
  const put = async (url: string, lines: readonly string[]) =>
    (await ask(
      '/verify/envoy/any/x',
      [ENVOY, ...lines, ...dpopLines(token, client.proof({ token, url }))],
      'GET',
      'api.example'
    )).status
  for (const lines of [[], forged, ...forged.map(line => [line])]) {
    t.equal(await put('https://api.example/any/x', lines), 200, lines.join())
  }
  for (
    const url of [
      'https://evil.example/any/x',
      'https://evil.example/evil/any/x',
      'https://api.example/evil/any/x',
      'https://api.example:1234/any/x',
      'http://api.example/any/x'
    ]
  ) t.equal(await put(url, forged), 401, url)
  t.strictSame(reasons(), Array(5).fill('htu_mismatch'))
  t.equal(
    (await sendRaw(service, ['GET /verify/envoy/open/x HTTP/1.0', ENVOY, 'X-Forwarded-Host: api.example'])).status,
    403,
    'without a Host, although there is a forwarded one'
  )
  t.equal((await sendRaw(service, ['GET /verify/envoy/open/x HTTP/1.0', ENVOY, 'Host: api.example'])).status, 200)
})

t.test('A forged claim header is refused behind nginx, which could not remove it.', async t => {
  const { ask, reasons } = await startGate(t, { claims: ['role'] })
  const nginx = ['X-Original-Method: GET', 'X-Original-URL: https://api.example/open/x']
  t.hasStrict(await ask('/verify/nginx', [...nginx, 'X-Auth-Claim-Role: root']), {
    status: 200,
    headers: { 'x-auth-claim-role': '' }
  }, 'nginx replaces it')
  t.equal((await ask('/verify/nginx', [...nginx, 'X-Auth-Claim-Team: root'])).status, 403)
  t.strictSame(reasons(), ['question_refused'])
  t.equal(
    (await ask('/verify/haproxy', [...nginx, 'X-Auth-Claim-Team: root'])).status,
    200,
    'the agent of HAProxy takes it away'
  )
})

t.test('An authorization request about an upgrade is like any other, and its connection goes on.', async t => {
  const { url } = await startGate(t, { rules: [{ path: '/socket', allow: 'anyone', upgrade: true }] })
  const request = (...lines: string[]) =>
    `${['GET /verify/envoy/socket HTTP/1.1', 'Host: x', ENVOY, ...lines].join('\r\n')}\r\n\r\n`
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => {
    socket.destroy()
  })
  for (const lines of [['Connection: Upgrade', 'Upgrade: x'], ['Connection: close']]) {
    socket.write(request(...lines))
    t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 200 /)
  }
})

t.test('Only trusted peers get a verdict.', async t => {
  const nginx = ['X-Original-Method: GET', 'X-Original-URL: https://api.example/open/x']
  for (const [trust, status] of [['loopback', 200], ['10.0.0.0/8', 403], ['false', 403]] as const) {
    const { ask, log } = await startGate(t, {}, { TRUST_PROXY: trust })
    t.equal((await ask('/verify/nginx', nginx)).status, status, trust)
    t.equal((await ask('/verify/envoy/open/x', [ENVOY])).status, status, trust)
    t.equal(log.some(({ msg }) => /TRUST_PROXY trusts no peer/.test(msg)), trust === 'false')
    const peers = log.filter(({ reason }) => reason === 'question_refused').map(({ peer }) => peer)
    t.strictSame(peers, status === 200 ? [] : ['127.0.0.1', '127.0.0.1'], 'the line names whom TRUST_PROXY lacks')
  }
})

t.test('A peer on a unix socket is trusted only if every peer is.', async t => {
  const issuer = await startIssuer(t)
  // Such a name has at most 107 bytes, and a clone may be deep.
  const folder = temporaryFolder(t, 'verify')
  const headers = { 'x-original-method': 'GET', 'x-original-url': 'https://api.example/open/x' }
  for (const [trust, status] of [['loopback', 403], ['true', 200]] as const) {
    const socketPath = join(folder, trust)
    const values = { GATE: { rules: RULES }, TRUST_PROXY: trust }
    const { log } = await startScoped(t, issuer, values, { path: socketPath })
    const [response] = await once(get({ socketPath, path: '/verify/nginx', headers }), 'response')
    t.equal(response.resume().statusCode, status, trust)
    const peers = log.filter(({ reason }) => reason === 'question_refused').map(({ peer }) => peer)
    t.strictSame(peers, status === 200 ? [] : ['a unix socket'])
  }
})

t.test('A nonce comes through as it is.', async t => {
  const { ask, issuer } = await startGate(t, {}, { DPOP_NONCE: 'required' })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const original = ['X-Original-Method: GET', 'X-Original-URL: https://api.example/any/x']
  const proof = (nonce?: string) =>
    dpopLines(token, client.proof({ token, url: 'https://api.example/any/x', claims: { nonce } }))
  const first = await ask('/verify/nginx', [...original, ...proof()])
  t.match(first, { status: 401, headers: { 'www-authenticate': /^DPoP error="use_dpop_nonce"/ } })
  const nonce = first.headers['dpop-nonce']
  t.equal((await ask('/verify/nginx', [...original, ...proof(nonce)])).status, 200)
})

t.test('The statement names the configured audience, and the original request.', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const statementKey = join(t.testdir(), 'key.pem')
  writeFileSync(statementKey, privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const { ask, issuer } = await startGate(t, { statementKey, statementAudience: 'https://orders.internal' })
  const { headers } = await ask('/verify/nginx', [
    'X-Original-Method: PUT',
    'X-Original-URL: https://api.example/any/x?y',
    ...bearerLines(issuer.token())
  ])
  t.hasStrict(decodeJwt(headers['x-auth-statement']!), {
    iss: 'https://api.example',
    aud: 'https://orders.internal',
    method: 'PUT',
    path: '/any/x'
  })
})

t.test('A fault of our own is 500, not a verdict.', async t => {
  const { ask, app } = await startGate(t)
  app.gate!.execute = (_request, _door, done) => done(new Error('broken'))
  t.equal((await ask('/verify/envoy/open/x', [ENVOY])).status, 500)
})
