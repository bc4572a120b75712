import { request as httpRequest } from 'node:http'
import { connect as connectHttp2, type OutgoingHttpHeaders } from 'node:http2'
import { request as httpsRequest } from 'node:https'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import t, { type Test } from 'tap'
import { isWithheldName } from '../../lib/gate/headers.ts'
import { isIdentityName } from '../../lib/gate/identity-headers.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { atAnotherTime, untilNonceStays } from '../helpers/clock.ts'
import { GATE_PROXIES } from '../helpers/gate-proxies.ts'
import { expectRefused, openGatedSite, RULES, type GatedSite } from '../helpers/gated-site.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { PROOF_ROWS, proofOf } from '../helpers/proof-rows.ts'
import { expectedOf, PROOFS, SCHEMES, TOKENS } from '../helpers/scheme-cases.ts'
import { sendRaw } from '../helpers/wire.ts'

const CA = readFileSync(join(import.meta.dirname, '..', 'fixtures', 'provider.cert.pem'))

const NONCES = { DPOP_NONCE: 'required' }

const FORGED_ADDRESS = '203.0.113.9'

/** What a client could send to pass for another caller or another address. */
const FORGED = [
  'X-Auth-Subject: root',
  'X_Auth_Subject: root',
  'X-Auth_Subject: root',
  'x_auth-subject: root',
  'X-AUTH-SCOPE: admin',
  'X-Auth-Client: root',
  'X-Auth-Issuer: root',
  'X-Auth-Statement: root',
  'X_Auth_Claim_Role: root',
  'X-Forwarded-Uri: /open/x',
  'X-Forwarded-Method: PUT',
  'X-Forwarded-Proto: https',
  'X-Forwarded-Host: evil.example',
  'X-Forwarded-Port: 1234',
  'X-Forwarded-Prefix: /evil',
  'Forwarded: proto=https;host=evil.example',
  'X-Original-URL: http://a/open/x',
  'X-Original-Method: PUT',
  'X-Original-Uri: /open/x',
  'X-Rewrite-URL: /open/x',
  'SCRIPT_NAME: /open',
  'Script-Name: /open',
  'X-Script-Name: /open',
  'PATH_INFO: /open/x',
  'Path-Info: /open/x',
  'X-Envoy-Original-Path: /open/x',
  'X-Envoy-Auth-Headers-To-Remove: dpop',
  'X-HTTP-Method-Override: PUT',
  'X.Auth.Subject: root',
  'X-Auth.Subject: root',
  'X~Auth~Subject: root',
  'X*Auth*Subject: root',
  'X.Original.URL: /open/x',
  'X_Rewrite_URL: /open/x',
  'X-HTTP-Method: PUT',
  'X-Method-Override: PUT',
  'X_HTTP_Method_Override: PUT',
  'Proxy: http://evil.example',
  'Client-Cert: :AAAA:',
  'X-SSL-Client-Cert: x',
  'X-SSL-Client-Verify: SUCCESS',
  'X-SSL-Client-S-DN: CN=root',
  'X-Forwarded-Client-Cert: Hash=x',
  'X-Forwarded-User: root',
  'X-Forwarded-Email: root',
  'X-Forwarded-Groups: admin',
  'X-Forwarded-Access-Token: x',
  'X-Forwarded-Preferred-Username: root',
  'X-Forwarded-Scheme: https',
  'X-Forwarded-Ssl: on',
  'X-Forwarded-Server: evil.example',
  'X-Forwarded-Tls-Client-Cert: x',
  'X-Forwarded-Tls-Client-Cert-Info: x',
  'Client-Cert-Chain: :AAAA:',
  'Remote-User: root',
  'Remote_User: root',
  'X-Request-Id: root',
  'X_Request_Id: root',
  'X-Remote-User: root',
  ...['X-Real-IP', 'X-Forwarded-For', 'X.Forwarded.For', 'X_Forwarded_For'].map(name => `${name}: ${FORGED_ADDRESS}`)
]

/** Paths that two parties could read in two ways, and requests for another site. */
const UNCLEAR = [
  '/open/../api/x',
  '/open/./x',
  '/open/%2e%2e/api/x',
  '/open/%2E./api/x',
  '/open/..;/api/x',
  '/open/..%3b/x',
  '/open/;',
  '/open/;/x',
  '/open/%3b/x',
  '/open%2fx',
  '/open/..%2fapi/x',
  '/open/x%5Cy',
  '/open//x',
  '//open/x',
  '/open/\\..\\api',
  '/open/%00',
  '/open/%0a',
  '/open/%ff',
  '/open/%c0%ae',
  '/open/%zz',
  '/open/x%'
]

const identityHeadersOf = (headers: readonly string[]) =>
  headers.flatMap((name, at) =>
    at % 2 === 0 && isIdentityName(name) ? [[name.toLowerCase(), headers[at + 1]!] as [string, string]] : []
  ).sort()
/** The headers that arrived and that a client may not write. */
const steering = (headers: readonly string[]) =>
  headers.flatMap((name, at) =>
    at % 2 === 0 && isWithheldName(name) && !isIdentityName(name)
      ? [[name.toLowerCase(), headers[at + 1]!] as [string, string]]
      : []
  )
const CALLER = [['x-auth-client', ''], ['x-auth-scope', 'read:orders'], ['x-auth-subject', 'user-1']]

async function tryTables (t: Test, site: GatedSite) {
  const { url, client, token, issuer, upstream, send } = site
  const { reasons } = await site.replaceGate()
  const target = `${url}/api/private`
  const bench = {
    client,
    token,
    running: { url },
    target,
    proof: (overrides = {}) => client.proof({ token, url: target, ...overrides })
  }
  const expect = async (
    lines: readonly string[],
    expected: ReturnType<typeof expectedOf>,
    scheme: string,
    title: string
  ) => {
    const [logged, arrived] = [reasons().length, upstream.arrived.length]
    const answer = await send('/api/private', lines)
    if (expected === 'accepted') {
      t.strictSame([answer.status, answer.headers['www-authenticate'], upstream.arrived.length], [
        200,
        undefined,
        arrived + 1
      ], title)
      return
    }
    expectRefused(t, site, answer, expected, scheme, title)
    t.strictSame([reasons().slice(logged), upstream.arrived.length], [[expected], arrived], title)
  }
  for (const row of PROOF_ROWS) {
    const { check, title, expected } = row
    await expect(dpopLines(token, proofOf(row, bench)), expected, 'DPoP', `${check}: ${title}`)
  }
  const tokens = {
    unbound: issuer.token(),
    bound: token,
    unusable: issuer.token({ cnf: {} }),
    expired: issuer.token({ cnf: { jkt: client.jkt }, exp: 1 })
  }
  for (const scheme of SCHEMES) {
    for (const key of TOKENS) {
      for (const kind of PROOFS) {
        const make = (method = 'GET') => client.proof({ token: tokens[key], url: target, method })
        const proofs = {
          none: [],
          good: [make()],
          bad: [make('POST')],
          two: [make(), make()],
          joined: [`${make()}, ${make()}`],
          empty: ['']
        }[kind]
        const lines = [
          ...scheme === 'none' ? [] : [`Authorization: ${scheme} ${tokens[key]}`],
          ...proofs.map(proof => `DPoP: ${proof}`)
        ]
        await expect(
          lines,
          expectedOf({ mode: 'ALLOWED', scheme, token: key, proof: kind }),
          scheme,
          `${scheme} scheme, ${key} token, ${kind} proof`
        )
      }
    }
  }
}

async function tryRefusals (t: Test, site: GatedSite) {
  const { issuer, upstream, send, proofLines } = site
  const gate = await site.replaceGate({ RATE_LIMIT: 12 })
  const seen = upstream.arrived.length
  const lines = proofLines('/api/private')
  t.equal((await send('/api/private', lines)).status, 200)
  expectRefused(t, site, await send('/api/private', lines), 'proof_replayed', 'DPoP', 'the same proof again')
  const copied = proofLines('/api/private')
  t.equal(
    (await Promise.all(Array.from({ length: 5 }, () => send('/api/private', copied)))).filter(({ status }) =>
      status === 200
    ).length,
    1,
    'a proof at the same time'
  )
  expectRefused(t, site, await send('/orders/7', bearerLines(issuer.token())), 'scope_missing', 'Bearer', 'no scope')
  t.equal((await send('/orders/7', proofLines('/orders/7'))).status, 200)
  expectRefused(
    t,
    site,
    await send('/svc/api/private', proofLines('/api/private')),
    'htu_mismatch',
    'DPoP',
    'a proof without the prefix'
  )
  t.equal((await send('/svc/api/private', proofLines('/svc/api/private'))).status, 200)
  t.equal((await send('/elsewhere', bearerLines(issuer.token()))).status, 403, 'no rule')
  t.equal(upstream.arrived.length, seen + 4)

  const limited = { answer: await send('/api/x', bearerLines(issuer.token())) }
  for (let left = 12; limited.answer.status === 200 && left > 0; left--) {
    limited.answer = await send('/api/x', bearerLines(issuer.token()))
  }
  t.match(
    limited.answer,
    { status: 429, headers: { 'retry-after': /^\d+$/, 'www-authenticate': undefined } },
    'too many requests'
  )
  t.equal(gate.reasons().at(-1), 'rate_limited')
  const before = upstream.arrived.length
  await site.replaceGate({ DPOP_REPLAY: 'redis://127.0.0.1:1' })
  t.match(await send('/api/x', proofLines('/api/x')), {
    status: 503,
    headers: { 'retry-after': /^\d+$/, 'www-authenticate': undefined }
  }, 'the store is down')
  const dark = await startIssuer(t)
  dark.outage = 500
  await site.replaceGate({}, dark)
  t.match(await send('/api/x', bearerLines(dark.token())), {
    status: 503,
    headers: { 'retry-after': /^\d+$/, 'www-authenticate': undefined }
  }, 'the provider is down')
  t.equal(upstream.arrived.length, before)
}

async function tryNonces (t: Test, site: GatedSite) {
  const { url, issuer, send, proofLines } = site
  const gate = await site.replaceGate(NONCES)
  await untilNonceStays()
  const first = await send('/api/x', proofLines('/api/x'))
  expectRefused(t, site, first, 'nonce_missing', 'DPoP', 'a nonce is required')
  t.match(first.headers['dpop-nonce'], /^[\w-]{26}$/)
  t.equal(first.lines.filter(([name]) => name === 'dpop-nonce').length, 1)
  const passed = await send('/api/x', proofLines('/api/x', { claims: { nonce: first.headers['dpop-nonce'] } }))
  t.strictSame([passed.status, passed.headers['dpop-nonce']], [200, undefined])
  const { headers: { 'dpop-nonce': older } } = await atAnotherTime(-120, () => send('/api/x', proofLines('/api/x')))
  const renewed = await send('/api/x', [...proofLines('/api/x', { claims: { nonce: older } }), 'DPoP-Nonce: forged'])
  t.equal(renewed.status, 200)
  if (site.proxy.passesNonces) {
    t.match(renewed.headers['dpop-nonce'], /^[\w-]{26}$/, 'the newest nonce comes with the answer')
  } else t.equal(renewed.headers['dpop-nonce'], undefined, 'the newest nonce comes with the next 401')

  const boundTo = async ({ publicKey }: Pick<oauth.CryptoKeyPair, 'publicKey'>) =>
    issuer.token({ cnf: { jkt: await calculateJwkThumbprint(await exportJWK(publicKey)) } })
  const before = gate.reasons().length
  const pair = await oauth.generateKeyPair('ES256')
  const DPoP = oauth.DPoP({ client_id: 'client' } as oauth.Client, pair)
  const token = await boundTo(pair)
  const request = () =>
    oauth.protectedResourceRequest(token, 'GET', new URL(`${url}/api/x?y`), undefined, null, {
      [oauth.allowInsecureRequests]: true,
      DPoP
    })
  const response = await request().catch(error => {
    if (oauth.isDPoPNonceError(error)) return request()
    throw error
  })
  t.equal(response.status, 200, 'oauth4webapi')
  const config = new openid.Configuration({ issuer: issuer.url }, 'client')
  openid.allowInsecureRequests(config)
  const other = await openid.randomDPoPKeyPair('ES256')
  t.equal(
    (await openid.fetchProtectedResource(
      config,
      await boundTo(other),
      new URL(`${url}/api/x`),
      'GET',
      undefined,
      undefined,
      { DPoP: openid.getDPoPHandle(config, other) }
    )).status,
    200,
    'openid-client'
  )
  t.strictSame(gate.reasons().slice(before), ['nonce_missing', 'nonce_missing'])
}

async function tryHoles (t: Test, site: GatedSite) {
  const { url, upstream, send, proofLines } = site
  const { log } = await site.replaceGate({ AUDIT: 'log' })
  const { host } = new URL(url)
  const { cleansPaths } = site.proxy
  const lines = ['GET /api/x HTTP/1.1', `Host: ${host}`, `X-Forwarded-For: ${FORGED_ADDRESS}`, 'Connection: close']
  t.equal((await sendRaw(url, lines, '127.0.0.2')).status, 401)
  t.equal(log.findLast(({ event }) => event === 'decision')!.ip, '127.0.0.2', 'the gate knows the address of the client')
  const { headers: { 'keep-alive': promise } } = await send('/open/x', [])
  t.equal(promise, undefined, 'the application promises nothing for the proxy')
  const arrivedWith = async (title: string, target: string, lines: readonly string[]) => {
    const answer = await send(target, lines)
    t.equal(answer.status, 200, title)
    t.notOk('dpop-nonce' in answer.headers, 'a nonce is the gate\'s to tell')
    const { target: arrived, rawHeaders, headers } = upstream.arrived.at(-1)!
    const { reqId } = log.findLast(({ msg }) => msg === 'request answered')!
    t.equal(arrived, cleansPaths ? target.replace('%2cb%7e', '%2Cb~') : target, `${title}: the bytes that came go on`)
    t.strictSame(
      identityHeadersOf(rawHeaders).filter(([name]) => name !== 'x-auth-issuer' && name !== 'x-auth-statement'),
      CALLER,
      `${title}: the caller`
    )
    t.strictSame(['authorization', 'dpop'].filter(name => name in headers), [], `${title}: no credentials`)
    const own: Record<string, unknown> = {
      'x-forwarded-proto': 'http',
      'x-forwarded-host': host,
      'x-request-id': reqId
    }
    t.ok('x-request-id' in headers, `${title}: the id of the log`)
    // Envoy takes an address of the machine for that of a client on loopback.
    const isOwn = (name: string, value: string) =>
      name === 'x-forwarded-for' || name === 'x-real-ip' ? !value.includes(FORGED_ADDRESS) : own[name] === value
    t.strictSame(
      steering(rawHeaders).filter(([name, value]) => !isOwn(name, value)),
      [],
      `${title}: nothing that steers`
    )
  }
  await arrivedWith('all at once', '/api/a%2cb%7e;c%25?allow=anyone&path=/open/x', [
    ...proofLines('/api/a%2Cb~;c%25'),
    ...FORGED
  ])
  // A few at a time: one may hide what another does.
  for (let at = 0; at < FORGED.length; at += 4) {
    await arrivedWith(FORGED.slice(at, at + 4).join(), '/api/x', [...proofLines('/api/x'), ...FORGED.slice(at, at + 4)])
  }
  const ofConnection = [
    ...proofLines('/api/x'),
    'Connection: X-Auth-Subject, X-Auth-Scope, X-Auth-Client, X-Forwarded-Host, X-Original-URL'
  ]
  // Envoy refuses it.
  if (site.proxy.program!.endsWith('envoy')) t.equal((await send('/api/x', ofConnection)).status, 400)
  else await arrivedWith('names of the connection', '/api/x', ofConnection)
  for (
    const base of [
      'https://evil.example',
      'http://evil.example',
      'http://evil.example:1234/evil',
      url.replace('http:', 'https:'),
      `${url}/evil`,
      'http://a'
    ]
  ) {
    t.equal(
      (await send('/api/x', [...proofLines('/api/x', { url: `${base}/api/x` }), ...FORGED])).status,
      401,
      `a proof for ${base}`
    )
  }
  // nginx cannot take away headers whose names it does not know.
  const claim = await send('/api/x', [...proofLines('/api/x'), 'X-Auth-Claim-Role: root'])
  if (claim.status === 200) {
    t.strictSame(identityHeadersOf(upstream.arrived.at(-1)!.rawHeaders).filter(([name]) => /role/.test(name)), [])
  } else t.equal(claim.status, 403)

  await send('/open/x', ['X-Auth-Subject: root'])
  t.strictSame(
    identityHeadersOf(upstream.arrived.at(-1)!.rawHeaders).map(([, value]) => value).join(''),
    '',
    'with allow: anyone, no caller is named'
  )
  const before = upstream.arrived.length
  for (const target of UNCLEAR) {
    const { status } = await send(target)
    if (!cleansPaths) t.match(String(status), /^40[034]$/, target)
    // The gate has judged the clean path.
    else if (status === 200) t.equal(upstream.arrived.pop()!.target, '/open/x', target)
    else t.match(String(status), /^40[0134]$/, target)
  }
  const fragment = await send('/open/x#/api')
  // For Caddy, this is no fragment: gate and application get the same path.
  if (fragment.status === 200) t.equal(upstream.arrived.pop()!.target, '/open/x%23/api')
  else t.match(fragment, { status: /^40[03]$/ }, 'a fragment')
  t.equal(upstream.arrived.length, before)
  for (
    const [title, lines] of [
      ['two Host lines', ['GET /open/x HTTP/1.1', `Host: ${host}`, 'Host: evil.example']],
      ['another authority in the target', [
        'GET http://evil.example/open/x HTTP/1.1',
        `Host: ${host}`,
        ...proofLines('/open/x')
      ]],
      ['an asterisk', ['OPTIONS * HTTP/1.1', `Host: ${host}`]],
      ['CONNECT', [`CONNECT ${host} HTTP/1.1`, `Host: ${host}`]],
      ['CONNECT with a path', ['CONNECT /api/x HTTP/1.1', `Host: ${host}`]],
      ['a target without a slash', ['GET api/x HTTP/1.1', `Host: ${host}`]],
      ['an opaque target', ['GET x:api/x HTTP/1.1', `Host: ${host}`]],
      ['an opaque target of http', ['GET http:/api/x HTTP/1.1', `Host: ${host}`]],
      ['HTTP/1.0 without a host', ['GET /api/x HTTP/1.0', 'X-Forwarded-Host: evil.example']],
      ['a method of its own', ['GETX /api/x HTTP/1.1', `Host: ${host}`]],
      ['a method in lower case', ['get /api/x HTTP/1.1', `Host: ${host}`]],
      ['a length beside chunks', [
        'POST /api/x HTTP/1.1',
        `Host: ${host}`,
        'Content-Length: 3',
        'Transfer-Encoding: chunked',
        '',
        '0'
      ]]
    ] as const
  ) {
    await sendRaw(url, [...lines.slice(0, 2), 'Connection: close', ...lines.slice(2)])
    const { target, headers } = upstream.arrived.at(-1)!
    t.strictSame([target, headers['x-auth-subject']], ['/open/x', ''], `${title}: at most what anyone may see`)
  }
  // The application has a way to answer it.
  const { status } = await sendRaw(url, [
    'GET /open/x HTTP/1.1',
    `Host: ${host}`,
    'Connection: Upgrade, HTTP2-Settings, close',
    'Upgrade: h2c',
    'HTTP2-Settings: AAMAAABkAAQAAP__'
  ])
  t.ok(status === 200 || status === 403, `h2c: ${status}`)
}

/** Bodies whose end two programs could see in two places. Each is followed by a request that the gate would refuse. */
async function tryBodies (t: Test, site: GatedSite) {
  const { url, upstream } = site
  await site.replaceGate()
  const { host } = new URL(url)
  const hidden = ['GET /api/x HTTP/1.1', `Host: ${host}`, 'X-Auth-Subject: root', '', ''].join('\r\n')
  const before = upstream.arrived.length
  await Promise.all([
    ['Content-Length: 3', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: chunked', 'Content-Length: 3'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
    ['Transfer-Encoding: identity', 'Content-Length: 3'],
    ['Transfer-Encoding: xchunked', 'Content-Length: 3'],
    ['Transfer-Encoding: chunked, identity', 'Content-Length: 3'],
    ['Transfer-Encoding : chunked', 'Content-Length: 3'],
    ['Transfer-Encoding:\x0bchunked', 'Content-Length: 3'],
    ['Transfer-Encoding: "chunked"', 'Content-Length: 3'],
    ['Transfer_Encoding: chunked', 'Content-Length: 3'],
    ['X: y\nTransfer-Encoding: chunked', 'Content-Length: 3'],
    [' Transfer-Encoding: chunked', 'Content-Length: 3'],
    ['Content-Length: 3', `Content-Length: ${hidden.length + 5}`],
    ['Content-Length: 3, 3'],
    ['Content-Length: +3'],
    ['Content-Length: 0x3'],
    ['Content-Length: 3', 'Connection: Content-Length'],
    ['Transfer-Encoding: chunked', 'Connection: Transfer-Encoding'],
    ['Content-Length: 3', 'Expect: 100-continue'],
    ['Content-Length: 3', 'Upgrade: h2c', 'Connection: Upgrade, HTTP2-Settings', 'HTTP2-Settings: AAMAAABkAAQAAP__']
  ].map(lines =>
    sendRaw(url, ['POST /open/x HTTP/1.1', `Host: ${host}`, ...lines, 'Connection: close', '', `0\r\n\r\n${hidden}`])
      .catch(() => undefined)
  ))
  t.strictSame(
    upstream.arrived.slice(before).filter(({ target, headers }) =>
      target !== '/open/x' || headers['x-auth-subject'] !== ''
    ),
    [],
    'at most what anyone may see'
  )
}

/**
 * Hosts that would make the gate judge another path or another authority, each with a twin that differs in nothing
 * else.
 */
async function tryHosts (t: Test, site: GatedSite) {
  const { url, upstream, client, token, proofLines } = site
  const gate = await site.replaceGate({
    GATE: { rules: [...RULES, { path: '/', allow: 'anyone' }], ...site.proxy.grpc && { grpcPort: 0 } }
  })
  const { host, port } = new URL(url)
  const ask = async (asked: string, lines: readonly string[] = []) =>
    (await sendRaw(url, ['GET /api/x HTTP/1.1', `Host: ${asked}`, 'Connection: close', ...lines])).status
  t.equal(await ask(host), 401, 'the twin')
  t.equal(await ask(host, proofLines('/api/x')), 200)
  const [asked, arrived] = [gate.log.filter(({ msg }) => msg === 'request answered').length, upstream.arrived.length]
  const hostiles = [
    `${host}?`,
    `${host}/open/x?`,
    `${host}/open/x#`,
    `${host}#`,
    `${host}/`,
    `a@${host}`,
    `${host},${host}`,
    `${host}\\`,
    'evil.example',
    `evil.example:${port}`,
    '127.0.0.1',
    '127.0.0.1:1',
    `${host}0`,
    `x.${host}`,
    ''
  ]
  // At once: Envoy waits for a second before it closes the connection of a request that it has refused itself.
  await Promise.all(
    hostiles.flatMap(hostile =>
      [[], dpopLines(token, client.proof({ token, url: `http://${hostile}/api/x` }))].map(async lines => {
        const status = await ask(hostile, lines)
        t.ok([400, site.proxy.elsewhere].includes(status), `Host: ${hostile}: ${status}`)
      })
    )
  )
  const elsewhere = await ask(
    'evil.example',
    dpopLines(token, client.proof({ token, url: 'http://evil.example/api/x' }))
  )
  t.equal(elsewhere, site.proxy.elsewhere, 'a token and an unused proof for another host')
  t.strictSame([gate.log.filter(({ msg }) => msg === 'request answered').length, upstream.arrived.length], [
    asked,
    arrived
  ], 'gate and application get no request')
}

async function tryTransport (t: Test, site: GatedSite) {
  const { url, tlsUrl, upstream, relay, token, client, issuer, send, proofLines } = site
  await site.replaceGate()
  const overTls = async (htu: string, headers: Record<string, string> = {}) => {
    const request = httpsRequest(`${tlsUrl}/api/x`, {
      ca: CA,
      agent: false,
      headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: htu }), ...headers }
    })
    const [response] = await once(request.end(), 'response')
    response.resume()
    return response.statusCode
  }
  t.equal(await overTls(`${tlsUrl}/api/x`), 200, 'the name that the client used, with its scheme')
  t.equal(
    await overTls(`${tlsUrl}/api/x`, {
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'evil.example',
      forwarded: 'proto=http'
    }),
    200
  )
  t.equal(await overTls(`${tlsUrl.replace('https:', 'http:')}/api/x`), 401, 'another scheme')
  t.equal(await overTls(`${tlsUrl.replace('localhost', 'evil.example')}/api/x`), 401, 'another name')

  t.equal(
    (await send('/api/x', [...proofLines('/api/x', { method: 'POST' }), 'Content-Length: 3', '', 'abc'], 'POST'))
      .status,
    200
  )
  t.equal(upstream.arrived.at(-1)!.body.slice(0, 3), 'abc')
  const before = upstream.arrived.length
  const chunked = await send('/api/x', [
    ...proofLines('/api/x', { method: 'POST' }),
    'Trailer: X-Auth-Subject',
    'Transfer-Encoding: chunked',
    '',
    '3',
    'abc',
    '0',
    'X-Auth-Subject: root',
    'X_Auth_Scope: admin'
  ], 'POST')
  const { takesChunks } = site.proxy
  t.strictSame([chunked.status, upstream.arrived.length - before], takesChunks ? [200, 1] : [411, 0], 'chunks')
  if (takesChunks) t.hasStrict(upstream.arrived.at(-1), { body: 'abc', trailers: [] }, 'without their trailers')

  const [size, asked] = [100 * 1024 * 1024, relay.bytes]
  const request = httpRequest(`${url}/api/upload`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${issuer.token()}`, 'content-length': size }
  })
  const answered = once(request, 'response')
  const chunk = Buffer.alloc(1024 * 1024, 'x')
  for (let sent = 0; sent < size; sent += chunk.length) if (!request.write(chunk)) await once(request, 'drain')
  request.end()
  const [response] = await answered
  let text = ''
  for await (const part of response) text += part
  t.strictSame([response.statusCode, text], [200, String(size)], 'a body of 100 MiB')
  t.ok(relay.bytes - asked < 10_000, 'and none of it came to the gate')

  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => {
    socket.destroy()
  })
  const head = (lines: readonly string[]) =>
    `${
      [
        'GET /socket HTTP/1.1',
        `Host: ${new URL(url).host}`,
        'Connection: Upgrade',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
        ...lines
      ].join('\r\n')
    }\r\n\r\n`
  let received = ''
  socket.on('data', chunk => {
    received += chunk
  })
  socket.write(head(proofLines('/socket')))
  while (!received.includes('\r\n\r\n')) await once(socket, 'data')
  t.match(received, /^HTTP\/1.1 101 /, 'a WebSocket')
  socket.write('hello;')
  while (!received.includes('hello;')) await once(socket, 'data')
  t.match(received, /user-1;hello;$/)
  socket.destroy()
  const refused = connect(Number(new URL(url).port), '127.0.0.1')
  refused.write(head(['X-Auth-Subject: root']))
  t.match(
    String((await once(refused, 'data'))[0]),
    /^HTTP\/1.1 401 [^]*www-authenticate: Bearer/i,
    'and its twin without a token'
  )
  refused.destroy()
}

/** What HTTP/2 says in other words than HTTP/1.1. Without a token, the application gets at most what anyone may see. */
async function tryHttp2 (t: Test, site: GatedSite) {
  const { upstream, token, client, proxy: { http2, grpc, takesChunks } } = site
  const seen = upstream.arrived.length
  const url = http2 === 'tls' ? site.tlsUrl : site.url
  await site.replaceGate({ GATE: { rules: [...RULES, { path: '/', allow: 'anyone' }], ...grpc && { grpcPort: 0 } } })
  let tunnels = 0
  const onConnect = (_: unknown, socket: Socket) => {
    tunnels++
    socket.end('HTTP/1.1 200 OK\r\n\r\n')
  }
  upstream.server.on('connect', onConnect)
  t.teardown(() => upstream.server.off('connect', onConnect))
  const { host, protocol } = new URL(url)
  /** On a connection of its own, which a proxy may end. 0 if there is no answer. */
  const ask = async (headers: OutgoingHttpHeaders, trailers?: OutgoingHttpHeaders) => {
    const session = connectHttp2(url, { ca: CA }).on('error', () => {})
    const hasBody = trailers !== undefined || headers[':method'] === 'CONNECT'
    const isTunnel = headers[':method'] === 'CONNECT' && !(':protocol' in headers)
    const stream = session.request({
      ':authority': host,
      ...!isTunnel && { ':scheme': protocol.slice(0, -1), ':path': '/api/x' },
      ...headers
    }, { endStream: !hasBody, waitForTrailers: trailers !== undefined })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers!))
    // In a tunnel, this would be a request that was not judged.
    if (hasBody) stream.end(isTunnel ? `GET /api/x HTTP/1.1\r\nHost: ${host}\r\nX-Auth-Subject: root\r\n\r\n` : 'abc')
    let status = 0
    stream.on('response', head => {
      status = head[':status']!
    }).on('error', () => {}).resume()
    await new Promise(resolve => stream.on('close', resolve))
    session.destroy()
    return status
  }
  const proved = (method = 'GET') => ({
    ':method': method,
    authorization: `DPoP ${token}`,
    dpop: client.proof({ token, url: `${url}/api/x`, method })
  })
  if (!takesChunks) {
    t.equal(await ask(proved()), 505, 'a proxy that cannot drop trailers takes no HTTP/2')
    t.equal((await sendRaw(site.url, ['PRI * HTTP/2.0', '', 'SM'])).status, 400, 'nor by prior knowledge')
    t.equal(upstream.arrived.length, seen)
    return
  }
  t.equal(await ask(proved()), 200, 'the twin')
  t.strictSame(
    identityHeadersOf(upstream.arrived.at(-1)!.rawHeaders).filter(([name]) =>
      name !== 'x-auth-issuer' && name !== 'x-auth-statement'
    ),
    CALLER
  )
  t.equal(await ask({}), 401)
  t.equal(await ask({ ...proved('POST'), 'x-auth-subject': 'root' }, {}), 200, 'a body without a length')
  const trailed = upstream.arrived.length
  // nginx takes no trailers.
  if (
    await ask({ ...proved('POST'), 'x-auth-subject': 'root' }, {
      'x-auth-subject': 'root',
      'x-auth-scope': 'admin'
    }) === 200
  ) t.equal(upstream.arrived.length, trailed + 1)
  t.strictSame(
    upstream.arrived.slice(-2).map(({ rawHeaders, trailers }) => [
      identityHeadersOf(rawHeaders).filter(([name]) => name === 'x-auth-subject'),
      trailers
    ]),
    Array(2).fill([[['x-auth-subject', 'user-1']], []]),
    'trailers'
  )

  const before = upstream.arrived.length
  for (
    const [title, headers] of Object.entries<OutgoingHttpHeaders>({
      'a tunnel': { ':method': 'CONNECT' },
      'a tunnel to elsewhere': { ':method': 'CONNECT', ':authority': 'evil.example:80' },
      'a tunnel with a protocol': { ':method': 'CONNECT', ':protocol': 'websocket' },
      'another authority': { ':authority': 'evil.example' },
      'another authority than in Host': { ':authority': 'evil.example', host },
      'an authority with a query': { ':authority': `${host}?` },
      'an authority with a path': { ':authority': `${host}/open/x?` },
      'an authority with a user': { ':authority': `a@${host}` },
      'another scheme': { ':scheme': protocol === 'https:' ? 'http' : 'https' },
      'a scheme with a path': { ':scheme': `${protocol}//${host}/open/x?` },
      'forwarded headers': { 'x-forwarded-uri': '/open/x', 'x-forwarded-method': 'PUT', 'x-original-url': '/open/x' },
      'a path without a slash': { ':path': 'api/x' },
      'a path with a host': { ':path': `//${host}/api/x` },
      'an absolute path': { ':path': `${protocol}//${host}/api/x` },
      'dot segments': { ':path': '/open/../api/x' },
      'dot segments that are escaped': { ':path': '/open/%2e%2e/api/x' },
      'a fragment': { ':path': '/api/x#/open/x' },
      'an asterisk': { ':path': '*' }
    })
  ) {
    const status = await ask(headers)
    t.strictSame([upstream.arrived.length, tunnels], [before, 0], `${title} does not arrive: ${status}`)
  }
  const mixed = await ask({ ...proved(), host: 'evil.example' })
  t.ok(mixed === 200 || mixed >= 400, `another Host than the authority: ${mixed}`)
  if (mixed === 200) {
    t.strictSame(
      [upstream.arrived.at(-1)!.headers.host, upstream.arrived.length],
      [host, before + 1],
      'the authority counts'
    )
  }
}

const MESSAGE_RULES = [
  { path: '/mcp', mcp: { methods: ['tools/list'] }, scope: 'use' },
  { path: '/mcp', mcp: { tools: ['read_*'] }, scope: 'read' },
  { path: '/mcp', mcp: { tools: ['delete_order'] }, scope: 'delete' },
  { path: '/other', mcp: { tools: ['read_*'] }, scope: 'read' },
  { path: '/mcp', methods: ['GET'] }
]

/** Rules that the body decides. Only Envoy sends it. */
async function tryMessages (t: Test, site: GatedSite) {
  const { upstream, issuer, send, proofLines, client } = site
  await site.replaceGate({ GATE: { rules: MESSAGE_RULES, ...site.proxy.grpc && { grpcPort: 0 } } })
  const isEnvoy = site.proxy.program!.endsWith('envoy')
  const bearer = (scope: string) => bearerLines(issuer.token({ scope }))
  const call = (name: string) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } })
  const sized = (size: number) => `{"method":"tools/list","params":{"x":"${'x'.repeat(size - 41)}"}}`
  const post = async (path: string, body: string, lines: readonly string[]) => {
    const before = upstream.arrived.length
    const { status } = await send(path, [
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      ...lines,
      '',
      body
    ], 'POST')
    t.strictSame(
      upstream.arrived.slice(before).map(({ body }) => body),
      status === 200 ? [body] : [],
      'only what passes goes on, as it came'
    )
    return status
  }
  const [user, reader] = [bearer('use read'), bearer('read')]
  const rows: Array<[title: string, envoy: number, body: string, lines: string[], path?: string]> = [
    ['a tool that may be called', 200, call('read_a'), reader],
    ['with a query', 200, call('read_a'), reader, '/mcp?tool=delete_order'],
    ['a tool without its scope', 403, call('delete_order'), user],
    ['a tool without a rule', 403, call('drop'), user],
    ['a stranger', 401, call('read_a'), []],
    ['a batch', 200, `[${call('read_a')},${sized(100)}]`, user],
    ['a batch with a tool that may not be called', 403, `[${call('read_a')},${call('delete_order')}]`, user],
    ['two spellings', 403, '{"method":"tools/call","params":{"name":"read_a","n\\u0061me":"delete_order"}}', user],
    ['a name that is no UTF-8', 403, '{"method":"tools/call","params":{"name":"read_\xff"}}', user],
    [
      'a member that is no UTF-8',
      403,
      '{"method":"tools/call","params":{"name":"read_a","na\xffme":"delete_order"}}',
      user
    ],
    ['UTF-16', 403, Buffer.from(call('read_a'), 'utf16le').toString('latin1'), user],
    ['a byte order mark', 403, `\xef\xbb\xbf${call('read_a')}`, user],
    ['what follows', 403, `${call('read_a')}${call('delete_order')}`, user],
    ['as large as it may be', 200, sized(1024 * 1024), user],
    ['too large', 413, sized(1024 * 1024 + 1), user],
    ['a body that the client calls whole', 200, call('read_a'), [...reader, 'X-Envoy-Auth-Partial-Body: true']],
    ['a header that says another tool', 403, call('read_a'), [...user, 'Mcp-Name: delete_order']],
    ['headers that say the same', 200, call('read_a'), [...reader, 'Mcp-Method: tools/call', 'Mcp-Name: read_a']],
    ['two content types', 403, call('read_a'), [...reader, 'Content-Type: text/plain']],
    ['a content coding', 403, call('read_a'), [...reader, 'Content-Encoding: gzip']],
    ['no body', 403, '', [...reader, 'X-Envoy-Auth-Partial-Body: false']],
    ['the path in another spelling, for which Envoy sends no body', 403, call('read_a'), reader, '/%6dcp'],
    [
      'a path for which Envoy sends no body',
      403,
      call('read_a'),
      [...reader, 'X-Envoy-Auth-Partial-Body: false'],
      '/other'
    ]
  ]
  for (const [title, expected, body, lines, path = '/mcp'] of rows) {
    const status = await post(path, body, lines)
    if (isEnvoy) t.equal(status, expected, title)
    else t.match(String(status), /^4(00|03|13)$/, title)
  }
  t.equal((await send('/mcp', user)).status, 200, 'another method is judged by the path')
  if (!isEnvoy) return
  const text = call('read_a')
  const chunked = [...text].flatMap(character => ['1', character])
  t.equal(
    (await send('/mcp', [
      ...reader,
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
      '',
      ...chunked,
      '0',
      ''
    ], 'POST')).status,
    200,
    'in chunks'
  )
  t.equal(upstream.arrived.at(-1)!.body, text)
  const bound = issuer.token({ scope: 'read', cnf: { jkt: client.jkt } })
  const proved = () =>
    dpopLines(bound, client.proof({ token: bound, url: `${site.url}/mcp`, method: 'POST' }))
  const lines = proved()
  t.strictSame([await post('/mcp', text, lines), await post('/mcp', text, lines), await post('/mcp', text, proved())], [
    200,
    401,
    200
  ], 'a proof is used once')
  t.equal(await post('/mcp', text, proofLines('/mcp', { method: 'POST' })), 403, 'without the scope')
  const refused = await send('/mcp', [
    ...bearer('use'),
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
    '',
    text
  ], 'POST')
  t.match(
    refused.headers['www-authenticate'],
    /error="insufficient_scope".*scope="read"/,
    'the client learns the scope to request'
  )
  const { id, error } = JSON.parse(refused.body)
  t.strictSame([id, error.code], [1, -32000], 'in an answer that its session survives')
  t.hasStrict(error.data, { reason: 'scope_missing', scope: 'read' })
}

/** What would be refused passes as a request of nobody, and no client can say otherwise. */
async function tryObserving (t: Test, site: GatedSite) {
  const { send, upstream, issuer, proxy } = site
  await site.replaceGate({ OBSERVE: new Date(Date.now() + 86_400_000).toISOString().slice(0, 10) })
  // Caddy may copy only what the gate always says, so its file leaves this name to the operator. nginx cannot tell an
  // empty header from none.
  const told = (reason: string) =>
    proxy.name === 'caddy' || (proxy.name === 'nginx' && reason === '') ? undefined : reason
  for (const [target, lines, reason, subject] of [
    ['/api/x', [], 'credentials_missing', ''],
    ['/nowhere', [], 'no_rule', ''],
    ['/orders/7', bearerLines(issuer.token()), 'scope_missing', ''],
    ['/api/x', bearerLines(issuer.token()), '', 'user-1']
  ] as const) {
    const answer = await send(target, [...lines, 'X-Auth-Observed: root', 'X_Auth-Observed: root', 'X-Auth-Subject: root'])
    t.equal(answer.status, 200, `${target} ${reason}`)
    t.equal(answer.headers['www-authenticate'], undefined)
    const { headers, rawHeaders } = upstream.arrived.at(-1)!
    t.equal(headers['x-auth-subject'], subject)
    t.equal(headers['x-auth-observed'], told(reason))
    t.notOk(rawHeaders.includes('root'))
  }
}

for (const proxy of GATE_PROXIES) {
  t.test(`Behind ${proxy.name} the guard's answers reach the client, and the identity headers the application.`, {
    skip: proxy.program === undefined && `${proxy.name} is not installed`
  }, async t => {
    const site = await openGatedSite(t, proxy)
    site.upstream.server.prependListener('request', (_request, response) => response.setHeader('dpop-nonce', 'theirs'))
    site.upstream.server.on('upgrade', (request: { headers: Record<string, string> }, socket: Socket) => {
      socket.on('error', () => {})
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' +
          `s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n${request.headers['x-auth-subject']};`
      )
      socket.pipe(socket)
    })
    await t.test('The tables of proofs and schemes', t => tryTables(t, site))
    await t.test('Other refusals, each beside its twin', t => tryRefusals(t, site))
    await t.test('Nonces, also with the libraries of clients', t => tryNonces(t, site))
    await t.test('Known holes of other gates', t => tryHoles(t, site))
    await t.test('Bodies that end in two places', t => tryBodies(t, site))
    await t.test('Hosts that would move the border between host and path', t => tryHosts(t, site))
    await t.test('Pseudo-headers of HTTP/2', t => tryHttp2(t, site))
    await t.test('Messages that the body decides', t => tryMessages(t, site))
    await t.test('Requests that are only observed', t => tryObserving(t, site))
    await t.test('TLS, bodies and WebSockets', t => tryTransport(t, site))
  })
}
