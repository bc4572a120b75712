import { generateKeyPairSync, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { exactly } from '../helpers/containing.ts'
import { readSettings } from '../../holdfast.ts'
import { arrivedRequest } from '../../lib/guard/guard.ts'
import { ANY_TOKEN } from '../../lib/guard/requirement/requirement.ts'
import type { Refusal, RefusalReason } from '../../lib/refusal.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, callDpop, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import { advanceClock, stopClock, stopTimers, nowSeconds } from '../helpers/clock.ts'
import { startConnectProxy } from '../helpers/connect-proxy.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import {
  cutShort,
  endless,
  gzipBomb,
  html,
  json,
  redirect,
  reset,
  text,
  type Behaviour
} from '../helpers/hostile-provider.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { startOpaqueTenant, type OpaqueTenant } from '../helpers/opaque-tenant.ts'
import { rowsOf } from '../helpers/rows.ts'
import { takeRsaKey } from '../helpers/rsa-keys.ts'
import { until } from '../helpers/until.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { listen } from '../helpers/listen.ts'

type Answer = object | ((issuer: Issuer) => string | object) | number

interface Asked extends RunningApp {
  issuer: Issuer
  /** The forms that the endpoint received. */
  forms: URLSearchParams[]
  requests: IncomingMessage[]
  /** What the endpoint says next: claims, a text, or a status. */
  answer: Answer
  /** How it says something else. */
  behaviour?: Behaviour
}

const CLIENT = { IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'secret' }

/** The service with an introspection endpoint beside its issuer. */
async function start (t: Test, values: Variables, prepare?: (app: FastifyInstance) => void) {
  const issuer = await startIssuer(t)
  const forms: URLSearchParams[] = []
  const requests: IncomingMessage[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    forms.push(new URLSearchParams(body))
    requests.push(request)
    const { answer, behaviour } = asked
    if (behaviour) return behaviour(request, response)
    if (typeof answer === 'number') return response.writeHead(answer).end()
    const said = typeof answer === 'function' ? answer(issuer) : answer
    response.end(typeof said === 'string' ? said : JSON.stringify(said))
  })
  // A call after a long stall must not meet a connection that is just being closed.
  server.keepAliveTimeout = 0
  const port = await listen(t, server)
  const endpoint = `http://127.0.0.1:${port}/introspect`
  const running = await startApp(t, issuer, { ...CLIENT, IDP_INTROSPECTION_ENDPOINT: endpoint, ...values }, prepare)
  const asked: Asked = { ...running, issuer, forms, requests, answer: {} }
  return asked
}

const later = () => nowSeconds() + 600
/** An answer about an opaque token that passes. */
const active = (more: object = {}) => ({
  active: true,
  sub: 'user-1',
  aud: AUDIENCE,
  exp: later(),
  scope: 'read:messages',
  ...more
})

t.test('An opaque token passes with the claims of the answer, and each fault of the answer has its reason', async t => {
  const asked = await start(t, { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  const rows = rowsOf<RefusalReason | 'accepted', Answer>({
    accepted: {
      'all claims': active(),
      'the audience in a list': active({ aud: ['other', AUDIENCE] }),
      'the issuer': ({ url }) => active({ iss: url }),
      'the issuer without its last slash': ({ url }) => active({ iss: url.slice(0, -1) }),
      'no expiry': active({ exp: undefined }),
      'a client that acts for itself': active({ sub: undefined, client_id: 'user-1' }),
      'a member that we do not know': active({ token_type: 'Bearer', jti: 7 }),
      'a token use and a typ of access tokens': active({ token_type: 'bearer', token_use: 'access_token', typ: 'Bearer' })
    },
    token_inactive: { 'not active': { ...active(), active: false } },
    token_claim_invalid: {
      'no audience': active({ aud: undefined }),
      'an audience that is a number': active({ aud: 7 }),
      'an issuer in a list': ({ url }) => active({ iss: [url] }),
      'no caller': active({ sub: undefined }),
      'an empty caller': active({ sub: '' }),
      'a caller that is a number': active({ sub: 7 }),
      'an expiry in words': active({ exp: 'soon' }),
      'an issue time in words': active({ iat: 'now' })
    },
    token_audience: { 'another audience': active({ aud: 'other' }) },
    token_issuer: { 'another issuer': active({ iss: 'https://other.example/' }) },
    token_expired: { 'an expiry in the past': active({ exp: 1 }) },
    token_not_yet_valid: { 'a time before which it does not count': active({ nbf: later() }) },
    token_binding_unusable: {
      'a binding that cannot be checked': active({ cnf: { kid: 'k' } }),
      'a binding that is a text': active({ cnf: 'jkt' }),
      'a type of bound tokens without a key': active({ token_type: 'DPoP' })
    },
    token_bound: {
      'bound to a key': active({ cnf: { jkt: 'k' } }),
      'a type of bound tokens with a key': active({ token_type: 'dpop', cnf: { jkt: 'k' } })
    },
    token_kind: {
      'a refresh token by its use': active({ token_use: 'refresh_token' }),
      'a refresh token by its typ': active({ typ: 'Refresh' }),
      'an offline token': active({ typ: 'Offline' }),
      'an ID token': active({ token_use: 'id' }),
      'a security event': active({ events: { 'https://schemas.openid.net/secevent/caep/event-type/session-revoked': {} } }),
      'a type of no token': active({ token_type: 'N_A' }),
      'a type that is null': active({ token_type: null })
    },
    introspection_unavailable: {
      'active in words': active({ active: 'true' }),
      'nothing about active': { sub: 'user-1' },
      'a fault of the provider': 500,
      'our credentials are refused': 401,
      'no JSON': () => 'active'
    }
  })
  for (const [index, { title, value, outcome: reason }] of rows.entries()) {
    asked.answer = value
    const outcome = await callBearer(asked, `opaque-${index}`, '/api/private-scoped')
    if (reason !== 'accepted') expectRefusal(t, outcome, reason, 'Bearer', title)
    else t.hasStrict(outcome, { status: 200, body: { user_id: 'user-1' } }, title)
    if (reason === 'introspection_unavailable') t.equal(outcome.headers['retry-after'], '1', title)
  }
  t.hasStrict(Object.fromEntries(asked.forms[0]!), { token: 'opaque-0', token_type_hint: 'access_token' })
  t.equal(asked.requests[0]!.headers.authorization, `Basic ${Buffer.from('api:secret').toString('base64')}`)
  t.notMatch(JSON.stringify(asked.log), /opaque-|secret/, 'no token and no secret is in the log')
  asked.answer = active({ scope: 'other' })
  expectRefusal(
    t,
    await callBearer(asked, 'opaque', '/api/private-scoped'),
    'scope_missing',
    'Bearer'
  )
})

t.test('An answer may leave out the audience only if the settings say so', async t => {
  const asked = await start(t, { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_AUDIENCE_OPTIONAL: true })
  asked.answer = active({ aud: undefined, token_type: 'Bearer' })
  t.equal((await callBearer(asked, 'a')).status, 200)
  asked.answer = active({ aud: undefined })
  await expectBearerRefusal(t, asked, 'c', 'token_kind', 'without an audience the type must be there')
  asked.answer = active({ aud: 'other', token_type: 'Bearer' })
  await expectBearerRefusal(t, asked, 'b', 'token_audience', 'a present one must match')
})

t.test('A refusal is kept only for those who would give it, too: not for those with another audience or resource', async t => {
  const upstream = await startUpstream(t)
  const resource = 'https://resource.example'
  const rules = [
    { path: '/service' },
    { path: '/audience', audience: AUDIENCE },
    { path: '/two', audience: ['a', 'b'] },
    { path: '/one', audience: 'a b' }
  ]
  const asked = await start(t, {
    IDP_INTROSPECTION: 'opaque',
    RESOURCE: resource,
    GATE: { upstream: upstream.origin, rules }
  })
  for (const [aud, refusing, accepting] of [[resource, '/audience', '/service'], ['a b', '/two', '/one']] as const) {
    asked.answer = active({ aud })
    expectRefusal(t, await callBearer(asked, aud.slice(-1), refusing), 'token_audience', 'Bearer')
    const { reason } = await callBearer(asked, aud.slice(-1), accepting)
    t.equal(reason, undefined, accepting)
  }
})

t.test('An opaque token is not taken for a JWT, nor a JWT for an opaque token', async t => {
  const asked = await start(t, { IDP_INTROSPECTION: 'opaque' })
  asked.answer = active()
  t.equal((await callBearer(asked, asked.issuer.token())).status, 200)
  const { issuer } = asked
  await expectBearerRefusal(t, asked, issuer.token({ aud: 'other' }), 'token_audience')
  await expectBearerRefusal(t, asked, issuer.token({}, { alg: 'none' }), 'token_algorithm')
  await expectBearerRefusal(t, asked, `${issuer.token().split('.', 2).join('.')}.AAAA`, 'token_signature')
  t.equal(asked.forms.length, 0, 'a JWT is not introspected')
  t.equal((await callBearer(asked, 'a.b.c')).status, 200, 'three words are no JWT')
  t.equal(asked.forms.length, 1)
})

t.test('One changed character does not make a JWT opaque: it is refused without a call', async t => {
  const asked = await start(t, { IDP_INTROSPECTION: 'all', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  const client = await createDpopClient()
  // As from a provider that decodes leniently and leaves the binding out.
  asked.answer = active()
  const bound = asked.issuer.token({ cnf: client.cnf })
  const [header, payload, signature] = bound.split('.') as [string, string, string]
  const spellings: ReadonlyArray<{ title: string, token: string }> = [
    { title: 'padding', token: `${bound}==` },
    { title: 'half of the padding', token: `${bound}=` },
    {
      title: 'a spare bit in the last character of the signature',
      token: bound.slice(0, -1) + 'BRhx'['AQgw'.indexOf(bound.at(-1)!)]
    },
    { title: 'a tilde in the signature', token: `${bound}~` },
    { title: 'the other alphabet', token: `${header}.${payload}.${signature.slice(0, -4)}++//` },
    { title: 'a tilde in the header', token: `~${bound}` },
    { title: 'a dot before it', token: `.${bound}` },
    { title: 'an empty segment after it', token: `${bound}.` },
    { title: 'two of them', token: `${bound}..` },
    { title: 'a tilde after the claims', token: `${header}.${payload}~.${signature}` }
  ]
  for (const { title, token } of spellings) {
    await expectBearerRefusal(t, asked, token, 'token_malformed', title)
    expectRefusal(
      t,
      await callDpop(asked, token, client.proof({ url: `${asked.url}/api/private`, token })),
      'token_malformed',
      'DPoP',
      title
    )
  }
  await expectBearerRefusal(t, asked, bound, 'token_bound', 'and as it was issued it is bound')
  t.equal(asked.forms.length, 1, 'only the well-formed one is introspected')
  const encrypted = `${Buffer.from('{"alg":"dir","enc":"A256GCM"}').toString('base64url')}..AAAA.AAAA.AAAA`
  t.equal((await callBearer(asked, encrypted)).status, 200, 'an encrypted JWT is opaque')
  await expectBearerRefusal(t, asked, `${encrypted}.AAAA`, 'token_malformed', 'unless it has six segments')
  t.equal(asked.forms.length, 2)
})

t.test('No answer outlives the exp of the token or its own: within the tolerance each request is introspected', async t => {
  const now = nowSeconds()
  const settings = { IDP_CLOCK_TOLERANCE_SECONDS: 60, IDP_INTROSPECTION_CACHE_SECONDS: 300 }
  const jwtSigned = (claims: object) => ({ url, keys: [key] }: Issuer) =>
    encodeJws({ alg: 'RS256', typ: 'token-introspection+jwt', kid: key!.kid }, {
      iss: url,
      aud: 'api',
      token_introspection: active({ exp: undefined }),
      ...claims
    }, input => sign('sha256', input, key!.privateKey))
  const rows: ReadonlyArray<
    {
      title: string,
      covers: string,
      isSigned?: boolean,
      answer: Answer,
      token?: (issuer: Issuer) => string,
      calls: number
    }
  > = [
    { title: 'an opaque token in its life', covers: 'opaque', answer: active({ exp: now + 600 }), calls: 1 },
    { title: 'an opaque token 6 s past its exp', covers: 'opaque', answer: active({ exp: now - 6 }), calls: 3 },
    {
      title: 'a JWT in its life',
      covers: 'jwt',
      answer: { active: true, exp: now + 600 },
      token: issuer => issuer.token(),
      calls: 1
    },
    {
      title: 'a JWT 6 s past its exp',
      covers: 'jwt',
      answer: { active: true },
      token: issuer => issuer.token({ exp: now - 6 }),
      calls: 3
    },
    {
      title: 'a JWT whose answer names an exp 6 s ago',
      covers: 'jwt',
      answer: { active: true, exp: now - 6 },
      token: issuer => issuer.token(),
      calls: 3
    },
    {
      title: 'a signed answer in its life',
      covers: 'opaque',
      isSigned: true,
      answer: jwtSigned({ exp: now + 600 }),
      calls: 1
    },
    {
      title: 'a signed answer 6 s past its own exp',
      covers: 'opaque',
      isSigned: true,
      answer: jwtSigned({ exp: now - 6 }),
      calls: 3
    }
  ]
  for (const { title, covers, isSigned = false, answer, token = () => 'opaque', calls } of rows) {
    const asked = await start(t, { ...settings, IDP_INTROSPECTION: covers, IDP_INTROSPECTION_SIGNED: isSigned })
    asked.answer = answer
    const lines = bearerLines(token(asked.issuer))
    for (let turn = 0; turn < 3; turn++) t.equal((await call(asked, { lines })).status, 200, title)
    t.equal(asked.forms.length, calls, title)
    asked.answer = isSigned ? jwtSigned({ token_introspection: { active: false } }) : { active: false }
    if (calls > 1) expectRefusal(t, await call(asked, { lines }), 'token_inactive', 'Bearer', `${title}, and revoked`)
  }
})

t.test('A JWT that was revoked is refused, and so is one that the answer contradicts', async t => {
  const asked = await start(t, { IDP_INTROSPECTION: 'jwt', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  const { issuer } = asked
  const client = await createDpopClient()
  const rows = rowsOf<RefusalReason | 'accepted', Answer>({
    accepted: {
      'active and nothing else': { active: true },
      'the same claims': ({ url }) => ({ active: true, iss: url, sub: 'user-1', aud: AUDIENCE, exp: 1 }),
      'only our audience of several': { active: true, aud: [AUDIENCE] },
      'a type of access tokens': { active: true, token_type: 'bearer' }
    },
    token_inactive: { revoked: { active: false } },
    token_contradicted: {
      'another issuer': { active: true, iss: 'https://other.example/' },
      'another caller': { active: true, sub: 'user-2' },
      'another audience': { active: true, aud: 'other' },
      'a binding that the token does not have': { active: true, cnf: client.cnf },
      'a binding that is none': { active: true, cnf: null }
    },
    token_kind: {
      'a type of no token': { active: true, token_type: 'N_A' },
      'a refresh token': { active: true, token_use: 'refresh_token' },
      'a logout token': { active: true, events: {} }
    },
    token_binding_unusable: { 'a type of bound tokens': { active: true, token_type: 'DPoP' } },
    introspection_unavailable: { 'active in words': { active: 'true' } }
  })
  for (const [index, { title, value, outcome: reason }] of rows.entries()) {
    asked.answer = value
    const outcome = await callBearer(asked, issuer.token({ jti: String(index) }))
    if (reason !== 'accepted') expectRefusal(t, outcome, reason, 'Bearer', title)
    else t.equal(outcome.status, 200, title)
  }
  const before = asked.forms.length
  await expectBearerRefusal(t, asked, issuer.token({ aud: 'other' }), 'token_audience', 'its own checks come first')
  await expectBearerRefusal(t, asked, 'opaque', 'token_malformed', 'an opaque token is none here')
  t.equal(asked.forms.length, before)
  const bound = issuer.token({ cnf: client.cnf })
  const proof = () => client.proof({ url: `${asked.url}/api/private`, token: bound })
  for (const more of [{ cnf: client.cnf }, { token_type: 'DPoP' }]) {
    asked.answer = { active: true, ...more }
    t.equal((await callDpop(asked, bound, proof())).status, 200, 'the binding of the token')
  }
  for (const cnf of [{ jkt: (await createDpopClient()).jkt }, {}, null, 'jkt']) {
    // Another token each time: a refusal is kept.
    const other = issuer.token({ jti: JSON.stringify(cnf), cnf: client.cnf })
    asked.answer = { active: true, cnf }
    expectRefusal(
      t,
      await callDpop(asked, other, client.proof({ url: `${asked.url}/api/private`, token: other })),
      'token_contradicted',
      'DPoP',
      `another binding: ${JSON.stringify(cnf)}`
    )
    t.hasStrict(asked.log.filter(({ reason }) => reason).at(-1), { claim: 'cnf' })
  }
})

t.test('An opaque token is known to be good until it expires, or until it is introspected again', async t => {
  const asked = await start(
    t,
    { IDP_INTROSPECTION: 'opaque' },
    app => app.get('/caller', { onRequest: app.authenticate() }, ({ auth }) => auth)
  )
  const exp = later()
  asked.answer = active({ exp })
  t.equal((await callBearer(asked, 'a', '/caller')).body.expiresAt, exp)
  asked.answer = active({ exp: undefined })
  const before = nowSeconds()
  const { expiresAt } = (await callBearer(asked, 'b', '/caller')).body
  t.ok(expiresAt >= before + 10 && expiresAt <= Date.now() / 1000 + 10, 'the ten seconds of its answer')
})

t.test('What the answers about opaque tokens hold counts towards the memory of verified tokens', async t => {
  const asked = await start(t, { IDP_INTROSPECTION: 'opaque' })
  asked.answer = active({ photo: 'x'.repeat(1e6) })
  for (let n = 0; n < 40; n++) t.equal((await callBearer(asked, `photo-${n}`)).status, 200)
  t.equal(asked.app.holdfastGuard.parts.verified.state().entries, 33, 'of 128 MiB, at four bytes for each character')
})

t.test('Opaque tokens go by the mode of their issuer', async t => {
  const issuers = [{ issuer: 'https://a.example/', dpopMode: 'REQUIRED', introspection: { for: 'opaque' } }, {
    issuer: 'https://b.example/'
  }]
  const asked = await start(t, { IDP_ISSUER: undefined, IDP_ISSUERS: issuers, NO_PROXY: '*' })
  t.hasStrict(await callBearer(asked, 'opaque'), { status: 401, reason: 'scheme_not_offered' })
  t.equal(asked.forms.length, 0)
})

t.test('A signed answer is read only if it is one of the issuer, for us', async t => {
  const asked = await start(t, {
    IDP_INTROSPECTION: 'opaque',
    IDP_INTROSPECTION_SIGNED: true,
    IDP_INTROSPECTION_CACHE_SECONDS: 0
  })
  const key = asked.issuer.keys[0]!
  const other = takeRsaKey()
  const signed = (claims: object = {}, header: object = {}, privateKey = key.privateKey) => ({ url }: Issuer) =>
    encodeJws({ alg: 'RS256', typ: 'token-introspection+jwt', kid: key.kid, ...header }, {
      iss: url,
      aud: 'api',
      iat: 1,
      token_introspection: active(),
      ...claims
    }, input => sign('sha256', input, privateKey))
  const rows = rowsOf<RefusalReason | 'accepted', Answer>({
    accepted: {
      'signed by the issuer': signed(),
      'without kid, for several': signed({ aud: ['x', 'api'] }, { kid: undefined }),
      'with a line break after it': issuer => `${signed()(issuer)}\n`,
      'that expires later': signed({ exp: later() }),
      'that is valid from a minute ago': signed({ nbf: nowSeconds() - 60 }),
      'by the long name of its type': signed({}, { typ: 'application/Token-Introspection+JWT' })
    },
    token_inactive: { 'not active': signed({ token_introspection: { active: false } }) },
    introspection_unavailable: {
      'that has expired': signed({ exp: nowSeconds() - 60 }),
      'that is not valid yet': signed({ nbf: later() }),
      'by another key': signed({}, {}, other.privateKey),
      'by an unknown key': signed({}, { kid: 'unknown' }),
      'for another client': signed({ aud: 'other' }),
      'by another issuer': signed({ iss: 'https://other.example/' }),
      'of another type': signed({}, { typ: 'at+jwt' }),
      'without type': signed({}, { typ: undefined }),
      'with another algorithm': signed({}, { alg: 'none' }),
      'with a critical header': signed({}, { crit: ['x'] }),
      'with an unencoded payload': signed({}, { b64: false }),
      'with a kid that is a number': signed({}, { kid: 7 }),
      'without an answer in it': signed({ token_introspection: undefined }),
      'with a list in it': signed({ token_introspection: [] }),
      'with null in it': signed({ token_introspection: null }),
      'plain JSON': active(),
      'for a client whose name holds ours': signed({ aud: ['api2'] }),
      'without an audience': signed({ aud: undefined }),
      'without an issuer': signed({ iss: undefined }),
      'with an expiry in words': signed({ exp: 'soon' }),
      'of two parts': issuer => signed()(issuer).split('.', 2).join('.')
    }
  })
  for (const [index, { title, value, outcome: reason }] of rows.entries()) {
    asked.answer = value
    const outcome = await callBearer(asked, `opaque-${index}`)
    if (reason !== 'accepted') expectRefusal(t, outcome, reason, 'Bearer', title)
    else t.equal(outcome.status, 200, title)
  }
  t.equal(asked.requests[0]!.headers.accept, 'application/token-introspection+jwt')

  const keyless = await start(t, {
    IDP_INTROSPECTION: 'opaque',
    IDP_INTROSPECTION_SIGNED: true,
    IDP_JWKS_URI: 'http://127.0.0.1:9/keys'
  })
  keyless.answer = signed()
  expectRefusal(t, await callBearer(keyless, 'opaque'), 'introspection_unavailable', 'Bearer')
  t.hasStrict(keyless.log.filter(({ reason }) => reason), [{ failure: 'keys_unavailable' }])
})

t.test('The endpoint is found by discovery', async t => {
  const issuer = await startIssuer(t)
  const server = createServer((request, response) => {
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': { issuer: url, jwks_uri: `${url}keys`, ...discovered },
      '/keys': { keys: [issuer.keys[0]!.jwk] },
      '/introspect': active()
    }
    request.resume()
    asked.push(request.url!)
    response.statusCode = discovered === undefined ? 404 : 200
    response.end(JSON.stringify(documents[request.url!]))
  })
  const asked: string[] = []
  let discovered: object | undefined
  const port = await listen(t, server)
  const url = `http://127.0.0.1:${port}/`
  const app = await startApp(t, { ...issuer, url }, {
    ...CLIENT,
    IDP_INTROSPECTION: 'opaque',
    IDP_INTROSPECTION_CACHE_SECONDS: 0
  })
  const advance = stopClock(t)
  // One that it begins later by itself would be taken for that of a request.
  await until('it looks by itself, once', () => asked.length > 0)
  stopTimers(t, 1000)
  for (
    const bad of [undefined, {}, { introspection_endpoint: 7 }, {
      introspection_endpoint: 'http://tenant.example/introspect'
    }]
  ) {
    discovered = bad
    advance(1000)
    await expectBearerRefusal(t, app, 'opaque', 'introspection_unavailable', String(JSON.stringify(bad)))
  }
  discovered = { introspection_endpoint: `${url}introspect` }
  advance(1000)
  t.equal((await callBearer(app, 'opaque')).status, 200)
  asked.length = 0
  t.equal((await callBearer(app, 'opaque')).status, 200)
  t.strictSame(asked.filter(path => path !== '/keys'), ['/introspect'], 'and remembered, whenever the keys are fetched')
})

t.test('The settings of proxies apply to introspection', async t => {
  const proxy = await startConnectProxy()
  t.teardown(proxy.close)
  proxy.mode = 'refuse'
  for (
    const [settings, tunnels] of [
      [{ HTTPS_PROXY: proxy.url, NO_PROXY: 'idp.test' }, []],
      [{ HTTP_PROXY: proxy.url }, ['idp.test:443']],
      [{ HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: proxy.url }, ['idp.test:443']]
    ] as const
  ) {
    proxy.tunnels.length = 0
    const asked = await start(t, {
      IDP_INTROSPECTION: 'opaque',
      IDP_INTROSPECTION_ENDPOINT: 'https://idp.test/introspect',
      ...settings
    })
    expectRefusal(t, await callBearer(asked, 'opaque'), 'introspection_unavailable')
    t.strictSame(proxy.tunnels, tunnels, 'it refuses, so that the one tunnel is all')
  }
})

t.test('This service authenticates with a private key', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const directory = t.testdir({
    'key.pem': privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    broken: 'key',
    other: generateKeyPairSync('x25519').privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  })
  const asked = await start(t, {
    IDP_INTROSPECTION: 'opaque',
    IDP_CLIENT_AUTH: 'private_key_jwt',
    IDP_CLIENT_KEY_FILE: join(directory, 'key.pem')
  })
  asked.answer = active()
  t.equal((await callBearer(asked, 'opaque')).status, 200)
  t.match(asked.forms[0]!.get('client_assertion'), /^ey[\w-]+\.ey[\w-]+\.[\w-]{86}$/)
  const [, payload] = asked.forms[0]!.get('client_assertion')!.split('.')
  const { iat, exp, iss, sub, jti } = JSON.parse(String(Buffer.from(payload!, 'base64url')))
  t.ok(Math.abs(iat - Date.now() / 1000) < 60, 'in seconds')
  t.match({ iss, sub, jti, seconds: exp - iat }, {
    iss: exactly('api'),
    sub: exactly('api'),
    jti: /^[\w-]{22,}$/,
    seconds: 60
  })
  writeFileSync(join(directory, 'empty'), '')
  writeFileSync(join(directory, 'key.der'), privateKey.export({ type: 'pkcs8', format: 'der' }))
  for (
    const [file, code] of [
      ['missing', 'ENOENT'],
      ['broken', 'ERR_OSSL_UNSUPPORTED'],
      ['empty', 'ERR_OSSL_UNSUPPORTED'],
      ['other', 'not a private key'],
      ['key.der', 'NOT_UTF8']
    ] as const
  ) {
    const path = join(directory, file)
    const starting = startApp(t, asked.issuer, {
      ...CLIENT,
      IDP_INTROSPECTION: 'opaque',
      IDP_CLIENT_AUTH: 'private_key_jwt',
      IDP_CLIENT_KEY_FILE: path
    })
    await t.rejects(starting, {
      name: 'SettingsError',
      problems: [
        `IDP_CLIENT_KEY_FILE (idp.introspection.keyFile) is ${JSON.stringify(path)}, which is not usable ` +
        `(${code}); allowed: path of a file with a private key`
      ]
    }, file)
  }
  const written = startApp(t, asked.issuer, {
    ...CLIENT,
    IDP_INTROSPECTION: 'opaque',
    IDP_CLIENT_AUTH: 'private_key_jwt',
    IDP_CLIENT_KEY_FILE: '{"kty":"OKP","d":"AAAA"}'
  })
  await t.rejects(written, {
    name: 'SettingsError',
    message: /IDP_CLIENT_KEY_FILE \(idp\.introspection\.keyFile\) is a key itself \(not shown\), which [^A]+$/
  }, 'in place of its path')
})

t.test('Incomplete or contradictory settings of introspection stop the start', async t => {
  const one = { IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: AUDIENCE, IDP_INTROSPECTION: 'opaque' }
  const rows: ReadonlyArray<{ values: Variables, problems: readonly string[] }> = [
    {
      values: one,
      problems: [
        'IDP_CLIENT_ID (idp.introspection.clientId) is not set; required for introspection',
        'IDP_CLIENT_SECRET (idp.introspection.clientSecret) is not set; required for client_secret_basic and ' +
        'client_secret_post'
      ]
    },
    {
      values: { ...one, IDP_CLIENT_ID: 'api', IDP_CLIENT_AUTH: 'private_key_jwt' },
      problems: ['IDP_CLIENT_KEY_FILE (idp.introspection.keyFile) is not set; required for private_key_jwt']
    },
    {
      values: {
        ...CLIENT,
        IDP_AUDIENCE: AUDIENCE,
        IDP_ISSUERS: [{ domain: 'a.example', introspection: { for: 'opaque' } }, {
          domain: 'b.example',
          introspection: { for: 'all' }
        }]
      },
      problems: [
        'idp.issuers[1] and idp.issuers[0] both have introspection for opaque tokens ("all"): an opaque token ' +
        'does not name its issuer; allowed: opaque or all for one issuer'
      ]
    },
    {
      values: {
        ...CLIENT,
        IDP_AUDIENCE: AUDIENCE,
        IDP_INTROSPECTION: 'opaque',
        IDP_ISSUERS: [{ domain: 'a.example' }, { domain: 'b.example', introspection: { for: 'off' } }, {
          domain: 'c.example'
        }]
      },
      problems: [
        'idp.issuers[2] and idp.issuers[0] both have introspection for opaque tokens ("opaque"): an opaque token ' +
        'does not name its issuer; allowed: opaque or all for one issuer'
      ]
    },
    {
      values: {
        IDP_AUDIENCE: AUDIENCE,
        IDP_ISSUERS: [{ domain: 'a.example', introspection: { for: 'jwt', clientId: 'api' } }]
      },
      problems: [
        'idp.issuers[0].introspection.clientSecret is not set; required for client_secret_basic and client_secret_post'
      ]
    },
    {
      values: {
        IDP_AUDIENCE: AUDIENCE,
        IDP_ISSUERS: [{ domain: 'a.example', introspection: { clientSecret: ['s3cret'] } }]
      },
      problems: [
        'idp.issuers[0].introspection.clientSecret is not usable (its value is not shown); allowed: any ' +
        'non-empty string'
      ]
    }
  ]
  for (const { values, problems } of rows) {
    await t.rejects(readSettings(values), { name: 'SettingsError', problems }, problems[0]!)
  }
})

const tenant = await startOpaqueTenant(t)

const startFor = (t: Test, client: string, values: Variables) =>
  startApp(t, { url: tenant.issuer } as Issuer, {
    IDP_CLIENT_ID: client,
    IDP_CLIENT_SECRET: tenant.clientSecret,
    ...values
  })

/** Each way in which the service may prove itself, with plain or signed answers. */
function clientsOf (t: Test, { clientKey }: OpaqueTenant) {
  const directory = t.testdir({ 'key.pem': clientKey.export({ type: 'pkcs8', format: 'pem' }) as string })
  return [
    { client: 'client_secret_basic', values: {} },
    { client: 'client_secret_post', values: { IDP_CLIENT_AUTH: 'client_secret_post' } },
    {
      client: 'private_key_jwt',
      values: {
        IDP_CLIENT_AUTH: 'private_key_jwt',
        IDP_CLIENT_SECRET: undefined,
        IDP_CLIENT_KEY_FILE: join(directory, 'key.pem')
      }
    },
    { client: 'signed', values: { IDP_INTROSPECTION_SIGNED: true } }
  ]
}

const KINDS = [
  { covers: 'opaque', formats: ['opaque'] },
  { covers: 'jwt', formats: ['jwt'] },
  { covers: 'all', formats: ['opaque', 'jwt'] }
] as const

t.test('A provider introspects its tokens, by each way in which the service authenticates', async t => {
  for (const { client, values } of clientsOf(t, tenant)) {
    for (const { covers, formats } of KINDS) {
      const running = await startFor(t, client, { ...values, IDP_INTROSPECTION: covers })
      for (const format of formats) {
        const title = `${format} by ${covers} and ${client}`
        const token = await tenant.token(format)
        t.hasStrict(await callBearer(running, token, '/api/private-scoped'), {
          status: 200,
          body: { user_id: format }
        }, title)
        t.equal(tenant.asked.at(-1), token, title)
        await expectBearerRefusal(t, running, await tenant.token(format, { resource: 'https://other.example' }), 'token_audience', `${title}, for another API`)
      }
      if (covers !== 'jwt') {
        await expectBearerRefusal(t, running, 'made-up', 'token_inactive', client)
      }
    }
  }
})

t.test('A token that was revoked is refused once the answer about it is too old', async t => {
  for (const { covers, formats } of KINDS) {
    const running = await startFor(t, 'client_secret_basic', { IDP_INTROSPECTION: covers })
    for (const format of formats) {
      const [token, twin] = [await tenant.token(format), await tenant.token(format)]
      for (const each of [token, twin]) {
        t.equal((await callBearer(running, each)).status, 200, `${format} by ${covers}`)
      }
      await tenant.revoke(token)
      t.equal((await callBearer(running, token)).status, 200, 'the answer still holds')
      advanceClock(t, 10_000)
      await expectBearerRefusal(t, running, token, 'token_inactive', `${format} by ${covers}`)
      t.equal((await callBearer(running, twin)).status, 200, 'and the other one passes')
    }
  }
})

t.test('A token that the provider has bound to a key passes only with its proof', async t => {
  const client = await createDpopClient()
  for (const { covers, formats } of KINDS) {
    const running = await startFor(t, 'signed', { IDP_INTROSPECTION: covers, IDP_INTROSPECTION_SIGNED: true })
    const url = `${running.url}/api/private`
    for (const format of formats) {
      const token = await tenant.token(format, {
        headers: {
          dpop: client.proof({ token: '', url: `${tenant.issuer}/token`, method: 'POST', claims: { ath: undefined } })
        }
      })
      t.equal(
        (await callDpop(running, token, client.proof({ token, url }))).status,
        200,
        `${format} by ${covers}`
      )
      await expectBearerRefusal(t, running, token, 'token_bound')
      expectRefusal(
        t,
        await callDpop(running, token, (await createDpopClient()).proof({ token, url })),
        'jkt_mismatch',
        'DPoP'
      )
    }
  }
})

t.test('A refresh token of the provider is not an access token, even if an answer may leave out the audience', async t => {
  for (const IDP_INTROSPECTION_AUDIENCE_OPTIONAL of [true, false]) {
    const running = await startFor(t, 'client_secret_basic', {
      IDP_INTROSPECTION: 'opaque',
      IDP_INTROSPECTION_AUDIENCE_OPTIONAL
    })
    t.equal((await callBearer(running, await tenant.token('opaque'))).status, 200)
    const refused = await callBearer(running, await tenant.refreshToken())
    expectRefusal(t, refused, IDP_INTROSPECTION_AUDIENCE_OPTIONAL ? 'token_kind' : 'token_claim_invalid', 'Bearer')
  }
})

/** The same, without deadlines: no call meets its own on a busy machine. */
function startHostile (t: Test, values: Variables) {
  stopTimers(t, 5000)
  return start(t, values)
}

const ACTIVE = { active: true, sub: 'user-1', aud: AUDIENCE }

t.test('No token passes if the endpoint lies, floods, redirects or compresses, and one passes with a good answer', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  /** By the failure in the log. */
  const rows = rowsOf<string, Behaviour>({
    too_large: { 'no end': endless(), 'a length of a gigabyte': endless(2 ** 30) },
    content_encoding: { 'a bomb of gzip': gzipBomb() },
    redirect: {
      'a redirect to a good answer': redirect('/good'),
      'a redirect that keeps the method': redirect('/good', 307)
    },
    unreachable: { 'a reset connection': reset(), 'a connection that breaks': cutShort() },
    not_json: { 'a page': html(), nothing: text('') },
    status: { 'a good answer with 201': json(ACTIVE, 201) },
    introspection_malformed: {
      'a number': text('1'),
      null: text('null'),
      'a text': text('"active"'),
      ...Object.fromEntries(
        [{ active: 'true' }, { active: 1 }, { active: null }, { active: [true] }, { active: {} }, {}].map(answer =>
          [JSON.stringify(answer), json({ ...ACTIVE, active: undefined, ...answer })]
        )
      )
    },
    '': { 'a good answer after all': json(ACTIVE) }
  })
  for (const [index, { title, value, outcome: failure }] of rows.entries()) {
    hostile.behaviour = value
    const outcome = await callBearer(hostile, `opaque-${index}`)
    if (failure === '') t.equal(outcome.status, 200, title)
    else {
      expectRefusal(t, outcome, 'introspection_unavailable', 'Bearer', title)
      const expected = { not_json: 'JSON', content_encoding: 'identity' }[failure]
      t.hasStrict(hostile.log.filter(({ reason }) => reason).at(-1), { failure, ...expected && { expected } }, title)
      t.match(outcome.headers['retry-after'], /^\d+$/, title)
    }
  }
  t.notMatch(JSON.stringify(hostile.log), /opaque-\d|secret/)
})

t.test('A member of a wrong type is a refusal, and never a fault', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  const wrong = [null, true, 7, '', [], {}, [7], ['x', null], { x: 1 }]
  const members = ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'cnf', 'client_id', 'token_type', 'token_use', 'typ']
  const fits: Record<string, readonly unknown[]> = {
    exp: [],
    nbf: [7],
    iat: [7],
    client_id: wrong,
    token_use: wrong,
    typ: wrong
  }
  let serial = 0
  for (const member of members) {
    for (const value of wrong) {
      const title = `${member} is ${JSON.stringify(value)}`
      hostile.behaviour = json({ ...ACTIVE, [member]: value })
      const outcome = await callBearer(hostile, `opaque-${serial++}`)
      t.equal(outcome.status, fits[member]?.includes(value) ? 200 : 401, title)
    }
  }
  // These grant nothing, and are no faults either.
  for (const member of ['scope', 'username', 'jti', '__proto__', 'toString']) {
    for (const value of wrong) {
      hostile.behaviour = text(
        `{"active":true,"sub":"user-1","aud":"${AUDIENCE}","${member}":${JSON.stringify(value)}}`
      )
      const lines = bearerLines(`opaque-${serial++}`)
      t.equal((await call(hostile, { lines })).status, 200, member)
      t.equal((await call(hostile, { lines, path: '/api/private-scoped' })).status, 403, member)
    }
  }
})

async function reasonOf ({ app }: RunningApp, token: string) {
  const headers = { host: 'localhost', authorization: `Bearer ${token}` }
  const arrived = arrivedRequest({
    method: 'GET',
    url: '/',
    headers,
    rawHeaders: Object.entries(headers).flat(),
    socket: {}
  })
  const parts = { headers, raw: { headers }, routeOptions: { config: {} }, log: { info () {} } }
  const request = parts as unknown as FastifyRequest
  return app.holdfastGuard.admissionOf(() => arrived, undefined).identify(request, () => ANY_TOKEN).then(
    () => undefined,
    ({ reason }: Refusal) => reason
  )
}

const FLOOD = 2000

t.test('A flood of made-up tokens costs few calls, and good tokens go on being answered', async t => {
  // So many refusals may take longer than an answer is kept.
  const advance = stopClock(t)
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'all' })
  const held: Array<() => void> = []
  let isHeld = false
  hostile.behaviour = (request, response) => {
    const token = hostile.forms.at(-1)!.get('token')!
    const answer = () =>
      json(token.startsWith('good') || token.includes('.') ? ACTIVE : { active: false })(request, response)
    if (isHeld) held.push(answer)
    else answer()
  }
  const statusOf = async (token: string) => {
    const answer = await fetch(`${hostile.url}/api/private`, { headers: { authorization: `Bearer ${token}` } })
    await answer.arrayBuffer()
    return answer.status
  }
  const introspection = () => hostile.app.holdfastGuard.parts.issuers!.all()[0]!.introspection!.inquiry.state()
  const good = ['good-1', 'good-2']
  for (const token of good) t.equal(await statusOf(token), 200)
  isHeld = true
  // So many requests over sockets would take longer than the deadline of a call, so the guard gets these by itself.
  const ended: unknown[] = []
  const flood = Array.from({ length: FLOOD }, async (_, index) => {
    const reason = await reasonOf(hostile, `made-up-${index}`)
    ended.push(reason)
    return reason
  })
  // If one of the calls fails, fewer than 64 are left that can be held.
  while (held.length < 64 && ended.length <= FLOOD - 64) await delay(5)
  t.equal(held.length, 64)
  for (const token of good) t.equal(await statusOf(token), 200, 'from the answers that are kept')
  t.hasStrict(introspection(), { inFlight: 64 })

  // The answers about the good tokens are too old now, and all 64 calls are under way.
  advance(10_000)
  const signed = hostile.issuer.token()
  const renewed = Promise.all([...good, signed].map(statusOf))
  // All three wait for their turn, however long they took to come.
  while (introspection().cache.misses < 2 + FLOOD + 3) await delay(5)
  isHeld = false
  for (const answer of held.splice(0)) answer()
  t.strictSame(
    await renewed,
    [200, 200, 200],
    'tokens that were good before, and a JWT that is signed, have the next turn'
  )
  const reasons = await Promise.all(flood)
  t.strictSame([...new Set(reasons)].sort(), ['introspection_unavailable', 'token_inactive'])
  t.equal(reasons.filter(reason => reason === 'token_inactive').length, 64)
  t.hasStrict(introspection(), {
    active: 5,
    inactive: 64,
    turnedAway: FLOOD - 64,
    inFlight: 0,
    cache: { entries: 64 }
  })
  t.equal(hostile.forms.length, 2 + 64 + 3)
  t.equal(await statusOf('good-new'), 200, 'and afterwards there is room')

  for (let round = 0; round < 5; round++) {
    t.strictSame(await Promise.all([0, 1, 63].map(index => statusOf(`made-up-${index}`))), [401, 401, 401])
  }
  t.equal(hostile.forms.length, 2 + 64 + 3 + 1, 'a refusal is kept')
})

t.test('Requests that wait for one answer each have a log line and an answer of their own', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque', ERROR_BODY: 'detailed' })
  hostile.behaviour = async (request, response) => {
    const { open } = hostile.app.connections
    await until('all have arrived', () => [...open].filter(({ bytesRead }) => bytesRead > 0).length >= 5)
    json({}, 500)(request, response)
  }
  const answers = await Promise.all(
    Array.from(
      { length: 5 },
      () => fetch(`${hostile.url}/api/private`, { headers: { authorization: 'Bearer opaque' } })
    )
  )
  t.strictSame(answers.map(({ status }) => status), Array(5).fill(503))
  t.equal(hostile.forms.length, 1)
  t.match(
    hostile.log.filter(({ reason }) => reason),
    Array(5).fill({ reason: 'introspection_unavailable', issuer: hostile.issuer.url, failure: 'status' })
  )
})

t.test('A token that was active stays cached while the endpoint is down, and is forgotten when it is refused', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque' })
  const { verified } = hostile.app.holdfastGuard.parts
  hostile.behaviour = json(ACTIVE)
  t.equal((await callBearer(hostile, 'good')).status, 200)
  advanceClock(t, 10_000)
  hostile.behaviour = json({}, 500)
  await expectBearerRefusal(t, hostile, 'good', 'introspection_unavailable')
  t.equal(verified.state().entries, 1)
  hostile.behaviour = json({ active: false })
  await expectBearerRefusal(t, hostile, 'good', 'token_inactive')
  t.equal(verified.state().entries, 0)
})
