import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import t from 'tap'
import type { Test } from 'tap'
import { createNonces } from '../../lib/dpop/nonces.ts'
import { isToldName } from '../../lib/gate/told.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { GATE_PROXIES } from '../helpers/gate-proxies.ts'
import { expectRefused, openGatedSite } from '../helpers/gated-site.ts'
import type { GatedSite } from '../helpers/gated-site.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { PROOF_ROWS } from '../helpers/proof-rows.ts'
import { expectedOf, PROOFS, SCHEMES, TOKENS } from '../helpers/scheme-cases.ts'
import { sendRaw } from '../helpers/wire.ts'

const NONCES = { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: [Buffer.alloc(32, 7).toString('base64url')] }

/** What a client could send to pass for somebody else, or for somewhere else. */
const FORGED = ['X-Auth-Subject: root', 'X_Auth_Subject: root', 'X-Auth_Subject: root', 'x_auth-subject: root', 'X-AUTH-SCOPE: admin', 'X-Auth-Client: root', 'X-Auth-Issuer: root', 'X-Auth-Statement: root', 'X_Auth_Claim_Role: root',
  'X-Forwarded-Uri: /open/x', 'X-Forwarded-Method: PUT', 'X-Forwarded-Proto: https', 'X-Forwarded-Host: evil.example', 'X-Forwarded-Port: 1234', 'X-Forwarded-Prefix: /evil', 'Forwarded: proto=https;host=evil.example',
  'X-Original-URL: http://a/open/x', 'X-Original-Method: PUT', 'X-Original-Uri: /open/x', 'X-Rewrite-URL: /open/x', 'X-Envoy-Original-Path: /open/x', 'X-Envoy-Auth-Headers-To-Remove: dpop', 'X-HTTP-Method-Override: PUT']

/** Paths that two parties could read in two ways, and requests for another site. */
const UNCLEAR = ['/open/../api/x', '/open/./x', '/open/%2e%2e/api/x', '/open/%2E./api/x', '/open/..;/api/x', '/open/..%3b/x', '/open%2fx', '/open/..%2fapi/x', '/open/x%5Cy', '/open//x', '//open/x', '/open/\\..\\api', '/open/%00', '/open/%0a', '/open/%ff', '/open/%c0%ae', '/open/%zz', '/open/x%']

const told = (headers: readonly string[]): Array<[string, string]> => headers.flatMap((name, at) => at % 2 === 0 && isToldName(name) ? [[name.toLowerCase(), headers[at + 1]!] as [string, string]] : []).sort()
const CALLER = [['x-auth-client', ''], ['x-auth-scope', 'read:orders'], ['x-auth-subject', 'user-1']]

async function tryTables (t: Test, site: GatedSite): Promise<void> {
  const { url, client, token, issuer, upstream, send } = site
  const { reasons } = await site.replaceGate()
  const target = `${url}/api/private`
  const bench = { client, token, running: { url }, target, proof: (overrides = {}) => client.proof({ token, url: target, ...overrides }) }
  const expect = async (lines: readonly string[], expected: ReturnType<typeof expectedOf>, scheme: string, title: string): Promise<void> => {
    const [logged, arrived] = [reasons().length, upstream.arrived.length]
    const answer = await send('/api/private', lines)
    if (expected === 'accepted') {
      t.same([answer.status, answer.headers['www-authenticate'], upstream.arrived.length], [200, undefined, arrived + 1], title)
      return
    }
    expectRefused(t, site, answer, expected, scheme, title)
    t.same([reasons().slice(logged), upstream.arrived.length], [[expected], arrived], title)
  }
  for (const { check, title, proof, expected } of PROOF_ROWS) await expect(dpopLines(token, proof(bench)), expected, 'DPoP', `${check}: ${title}`)
  const tokens = { unbound: issuer.token(), bound: token, unusable: issuer.token({ cnf: {} }), expired: issuer.token({ cnf: { jkt: client.jkt }, exp: 1 }) }
  for (const scheme of SCHEMES) {
    for (const key of TOKENS) {
      for (const kind of PROOFS) {
        const make = (method = 'GET'): string => client.proof({ token: tokens[key], url: target, method })
        const proofs = { none: [], good: [make()], bad: [make('POST')], two: [make(), make()], joined: [`${make()}, ${make()}`], empty: [''] }[kind]
        const lines = [...scheme === 'none' ? [] : [`Authorization: ${scheme} ${tokens[key]}`], ...proofs.map(proof => `DPoP: ${proof}`)]
        await expect(lines, expectedOf({ mode: 'ALLOWED', scheme, token: key, proof: kind }), scheme, `${scheme} scheme, ${key} token, ${kind} proof`)
      }
    }
  }
}

async function tryRefusals (t: Test, site: GatedSite): Promise<void> {
  const { issuer, upstream, send, proofLines } = site
  const gate = await site.replaceGate({ RATE_LIMIT: 12 })
  const seen = upstream.arrived.length
  const lines = proofLines('/api/private')
  t.equal((await send('/api/private', lines)).status, 200)
  expectRefused(t, site, await send('/api/private', lines), 'proof_replayed', 'DPoP', 'the same proof again')
  const copied = proofLines('/api/private')
  t.equal((await Promise.all(Array.from({ length: 5 }, () => send('/api/private', copied)))).filter(({ status }) => status === 200).length, 1, 'a proof at the same time')
  expectRefused(t, site, await send('/orders/7', bearerLines(issuer.token())), 'scope_missing', 'Bearer', 'no scope')
  t.equal((await send('/orders/7', proofLines('/orders/7'))).status, 200)
  expectRefused(t, site, await send('/svc/api/private', proofLines('/api/private')), 'htu_mismatch', 'DPoP', 'a proof without the prefix')
  t.equal((await send('/svc/api/private', proofLines('/svc/api/private'))).status, 200)
  t.equal((await send('/elsewhere', bearerLines(issuer.token()))).status, 403, 'no rule')
  t.equal(upstream.arrived.length, seen + 4)

  const limited = { answer: await send('/api/x', bearerLines(issuer.token())) }
  for (let left = 12; limited.answer.status === 200 && left > 0; left--) limited.answer = await send('/api/x', bearerLines(issuer.token()))
  t.match(limited.answer, { status: 429, headers: { 'retry-after': /^\d+$/, 'www-authenticate': undefined } }, 'too many requests')
  t.equal(gate.reasons().at(-1), 'rate_limited')
  const before = upstream.arrived.length
  await site.replaceGate({ DPOP_REPLAY: 'redis://127.0.0.1:1' })
  t.match(await send('/api/x', proofLines('/api/x')), { status: 503, headers: { 'retry-after': /^\d+$/, 'www-authenticate': undefined } }, 'the store is down')
  const dark = await startIssuer(t)
  dark.outage = 500
  await site.replaceGate({}, dark)
  t.match(await send('/api/x', bearerLines(dark.token())), { status: 503, headers: { 'retry-after': /^\d+$/, 'www-authenticate': undefined } }, 'the provider is down')
  t.equal(upstream.arrived.length, before)
}

async function tryNonces (t: Test, site: GatedSite): Promise<void> {
  const { url, issuer, send, proofLines } = site
  const gate = await site.replaceGate(NONCES)
  const first = await send('/api/x', proofLines('/api/x'))
  expectRefused(t, site, first, 'nonce_missing', 'DPoP', 'a nonce is asked for')
  t.match(first.headers['dpop-nonce'], /^[\w-]{22}$/)
  t.equal(first.lines.filter(([name]) => name === 'dpop-nonce').length, 1)
  const passed = await send('/api/x', proofLines('/api/x', { claims: { nonce: first.headers['dpop-nonce'] } }))
  t.same([passed.status, passed.headers['dpop-nonce']], [200, undefined])
  const older = createNonces([Buffer.alloc(32, 7)]).current(Math.floor(Date.now() / 1000) - 120)
  const renewed = await send('/api/x', [...proofLines('/api/x', { claims: { nonce: older } }), 'DPoP-Nonce: forged'])
  t.match(renewed, { status: 200, headers: { 'dpop-nonce': /^[\w-]{22}$/ } }, 'the newest nonce comes with the answer')

  const boundTo = async ({ publicKey }: Pick<oauth.CryptoKeyPair, 'publicKey'>): Promise<string> => issuer.token({ cnf: { jkt: await calculateJwkThumbprint(await exportJWK(publicKey)) } })
  const before = gate.reasons().length
  const pair = await oauth.generateKeyPair('ES256')
  const DPoP = oauth.DPoP({ client_id: 'client' } as oauth.Client, pair)
  const token = await boundTo(pair)
  const request = (): Promise<Response> => oauth.protectedResourceRequest(token, 'GET', new URL(`${url}/api/x?y`), undefined, null, { [oauth.allowInsecureRequests]: true, DPoP })
  const response = await request().catch(error => {
    if (oauth.isDPoPNonceError(error)) return request()
    throw error
  })
  t.equal(response.status, 200, 'oauth4webapi')
  const config = new openid.Configuration({ issuer: issuer.url }, 'client')
  openid.allowInsecureRequests(config)
  const other = await openid.randomDPoPKeyPair('ES256')
  t.equal((await openid.fetchProtectedResource(config, await boundTo(other), new URL(`${url}/api/x`), 'GET', undefined, undefined, { DPoP: openid.getDPoPHandle(config, other) })).status, 200, 'openid-client')
  t.same(gate.reasons().slice(before), ['nonce_missing', 'nonce_missing'])
}

async function tryHoles (t: Test, site: GatedSite): Promise<void> {
  const { url, upstream, send, proofLines } = site
  await site.replaceGate()
  const { host } = new URL(url)
  const arrivedWith = async (title: string, target: string, lines: readonly string[]): Promise<void> => {
    t.equal((await send(target, lines)).status, 200, title)
    const { target: arrived, rawHeaders, headers } = upstream.arrived.at(-1)!
    t.equal(arrived, target, `${title}: the bytes that came go on`)
    t.same(told(rawHeaders).filter(([name]) => name !== 'x-auth-issuer' && name !== 'x-auth-statement'), CALLER, `${title}: the caller`)
    t.same(['authorization', 'dpop'].filter(name => name in headers), [], `${title}: no credentials`)
  }
  await arrivedWith('all at once', '/api/a%2cb%7e;c%25?allow=anyone&path=/open/x', [...proofLines('/api/a%2Cb~;c%25'), ...FORGED])
  for (const line of FORGED) await arrivedWith(line, '/api/x', [...proofLines('/api/x'), line])
  const ofConnection = [...proofLines('/api/x'), 'Connection: X-Auth-Subject, X-Auth-Scope, X-Auth-Client, X-Forwarded-Host, X-Original-URL']
  // Envoy refuses it.
  if (site.proxy.program!.endsWith('envoy')) t.equal((await send('/api/x', ofConnection)).status, 400)
  else await arrivedWith('names of the connection', '/api/x', ofConnection)
  for (const base of ['https://evil.example', 'http://evil.example', 'http://evil.example:1234/evil', url.replace('http:', 'https:'), `${url}/evil`, 'http://a']) {
    t.equal((await send('/api/x', [...proofLines('/api/x', { url: `${base}/api/x` }), ...FORGED])).status, 401, `a proof for ${base}`)
  }
  // nginx cannot take away headers whose names it does not know.
  const claim = await send('/api/x', [...proofLines('/api/x'), 'X-Auth-Claim-Role: root'])
  if (claim.status === 200) t.same(told(upstream.arrived.at(-1)!.rawHeaders).filter(([name]) => /role/.test(name)), [])
  else t.equal(claim.status, 403)

  await send('/open/x', ['X-Auth-Subject: root'])
  t.same(told(upstream.arrived.at(-1)!.rawHeaders).map(([, value]) => value).join(''), '', 'with anyone, nobody is named')
  const before = upstream.arrived.length
  for (const target of UNCLEAR) t.match(await send(target), { status: /^40[034]$/ }, target)
  const fragment = await send('/open/x#/api')
  // For Caddy, this is no fragment: gate and application get the same path.
  if (fragment.status === 200) t.equal(upstream.arrived.pop()!.target, '/open/x%23/api')
  else t.match(fragment, { status: /^40[03]$/ }, 'a fragment')
  t.equal(upstream.arrived.length, before)
  for (const [title, lines] of [
    ['two Host lines', ['GET /open/x HTTP/1.1', `Host: ${host}`, 'Host: evil.example']],
    ['another authority in the target', ['GET http://evil.example/open/x HTTP/1.1', `Host: ${host}`, ...proofLines('/open/x')]],
    ['an asterisk', ['OPTIONS * HTTP/1.1', `Host: ${host}`]],
    ['CONNECT', [`CONNECT ${host} HTTP/1.1`, `Host: ${host}`]],
    ['a length beside chunks', ['POST /api/x HTTP/1.1', `Host: ${host}`, 'Content-Length: 3', 'Transfer-Encoding: chunked', '', '0']]
  ] as const) {
    await sendRaw(url, [...lines.slice(0, 2), 'Connection: close', ...lines.slice(2)])
    const { target, headers } = upstream.arrived.at(-1)!
    t.same([target, headers['x-auth-subject']], ['/open/x', ''], `${title}: at most what anyone may see`)
  }
  // The application has a way to answer it.
  const { status } = await sendRaw(url, ['GET /open/x HTTP/1.1', `Host: ${host}`, 'Connection: Upgrade, HTTP2-Settings, close', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'])
  t.ok(status === 200 || status === 403, `h2c: ${status}`)
}

async function tryTransport (t: Test, site: GatedSite): Promise<void> {
  const { url, tlsUrl, upstream, relay, token, client, issuer, send, proofLines } = site
  await site.replaceGate()
  const ca = readFileSync(join(import.meta.dirname, '..', 'fixtures', 'provider.cert.pem'))
  const overTls = async (htu: string, headers: Record<string, string> = {}): Promise<number> => {
    const request = httpsRequest(`${tlsUrl}/api/x`, { ca, agent: false, headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: htu }), ...headers } })
    const [response] = await once(request.end(), 'response')
    response.resume()
    return response.statusCode
  }
  t.equal(await overTls(`${tlsUrl}/api/x`), 200, 'the name that the client used, with its scheme')
  t.equal(await overTls(`${tlsUrl}/api/x`, { 'x-forwarded-proto': 'http', 'x-forwarded-host': 'evil.example', forwarded: 'proto=http' }), 200)
  t.equal(await overTls(`${tlsUrl.replace('https:', 'http:')}/api/x`), 401, 'another scheme')
  t.equal(await overTls(`${tlsUrl.replace('localhost', 'evil.example')}/api/x`), 401, 'another name')

  t.equal((await send('/api/x', [...proofLines('/api/x', { method: 'POST' }), 'Content-Length: 3', '', 'abc'], 'POST')).status, 200)
  t.equal(upstream.arrived.at(-1)!.body.slice(0, 3), 'abc')
  t.equal((await send('/api/x', [...proofLines('/api/x', { method: 'POST' }), 'Transfer-Encoding: chunked', '', '3', 'abc', '0'], 'POST')).status, 200)
  t.equal(upstream.arrived.at(-1)!.body, 'abc')

  const [size, asked] = [100 * 1024 * 1024, relay.bytes]
  const request = httpRequest(`${url}/api/upload`, { method: 'POST', agent: false, headers: { authorization: `Bearer ${issuer.token()}`, 'content-length': size } })
  const answered = once(request, 'response')
  const chunk = Buffer.alloc(1024 * 1024, 'x')
  for (let sent = 0; sent < size; sent += chunk.length) if (!request.write(chunk)) await once(request, 'drain')
  request.end()
  const [response] = await answered
  let text = ''
  for await (const part of response) text += part
  t.same([response.statusCode, text], [200, String(size)], 'a body of 100 MiB')
  t.ok(relay.bytes - asked < 10_000, 'and none of it came to the gate')

  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => { socket.destroy() })
  const head = (lines: readonly string[]): string => `${['GET /socket HTTP/1.1', `Host: ${new URL(url).host}`, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', ...lines].join('\r\n')}\r\n\r\n`
  let received = ''
  socket.on('data', chunk => { received += chunk })
  socket.write(head(proofLines('/socket')))
  while (!received.includes('\r\n\r\n')) await once(socket, 'data')
  t.match(received, /^HTTP\/1.1 101 /, 'a WebSocket')
  socket.write('hello;')
  while (!received.includes('hello;')) await once(socket, 'data')
  t.match(received, /user-1;hello;$/)
  socket.destroy()
  const refused = connect(Number(new URL(url).port), '127.0.0.1')
  refused.write(head(['X-Auth-Subject: root']))
  t.match(String((await once(refused, 'data'))[0]), /^HTTP\/1.1 401 [^]*www-authenticate: Bearer/i, 'and its twin without a token')
  refused.destroy()
}

for (const proxy of GATE_PROXIES) {
  t.test(`Behind ${proxy.name} the guard's answers reach the client, and its words the application.`, { skip: proxy.program === undefined && `${proxy.name} is not installed` }, async t => {
    const site = await openGatedSite(t, proxy)
    site.upstream.server.on('upgrade', (request: { headers: Record<string, string> }, socket: Socket) => {
      socket.on('error', () => {})
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n${request.headers['x-auth-subject']};`)
      socket.pipe(socket)
    })
    await t.test('The tables of proofs and schemes', t => tryTables(t, site))
    await t.test('Other refusals, each beside its twin', t => tryRefusals(t, site))
    await t.test('Nonces, also with the libraries of clients', t => tryNonces(t, site))
    await t.test('The holes of others', t => tryHoles(t, site))
    await t.test('TLS, bodies and WebSockets', t => tryTransport(t, site))
  })
}
