import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:http2'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import auth from '../../plugins/auth.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { SettingsError } from '../../lib/base/settings-error.ts'
import type { Variables } from '../helpers/variables.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, callDpop, dpopLines, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import { createDpopClient, type DpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { createTokenKey, makeToken, startTokenProvider } from '../helpers/token-issuer.ts'
import { listen } from '../helpers/listen.ts'

const fixture = (name: string) => readFileSync(join(import.meta.dirname, '..', 'fixtures', name), 'utf8')
const PEM = { a: fixture('client-a.cert.pem'), b: fixture('client-b.cert.pem') }
const KEY = { a: fixture('client-a.key.pem'), b: fixture('client-b.key.pem') }
const x509 = new X509Certificate(PEM.a)
const hexOf = (pem: string) => new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()
const thumbprintOf = (pem: string) => Buffer.from(hexOf(pem), 'hex').toString('base64url')
const A = thumbprintOf(PEM.a)

/** How each proxy passes a certificate on. */
const HEADERS = {
  'client-cert': (pem: string) => `Client-Cert: :${new X509Certificate(pem).raw.toString('base64')}:`,
  nginx: (pem: string) => `X-SSL-Client-Cert: ${encodeURIComponent(pem)}`,
  xfcc: (pem: string) => `X-Forwarded-Client-Cert: By=spiffe://x/y;Hash=${hexOf(pem)};Subject="CN=a"`
} as const

const MODES = ['DISABLED', 'ALLOWED', 'REQUIRED'] as const
const BOUND = ['certificate', 'both', 'key', 'nothing'] as const
const SHOWN = ['own', 'other', 'broken', 'none'] as const

/**
 * What the rules say about a token that is sent without a proof (Bearer) or with one (DPoP), written in another way
 * than the guard has them.
 */
function expected (
  mode: typeof MODES[number],
  bound: typeof BOUND[number],
  scheme: 'Bearer' | 'DPoP',
  shown: typeof SHOWN[number]
) {
  const isOffered = scheme === 'Bearer' ? mode !== 'REQUIRED' : mode !== 'DISABLED'
  if (!isOffered) return 'scheme_not_offered'
  if (bound === 'certificate' || bound === 'both') {
    const refusal = {
      own: undefined,
      other: 'certificate_mismatch',
      broken: 'certificate_unreadable',
      none: 'certificate_missing'
    }[shown]
    if (refusal) return refusal
  }
  const hasKey = bound === 'both' || bound === 'key'
  if (scheme === 'DPoP') return hasKey ? 'accepted' : 'token_unbound'
  return hasKey && mode !== 'DISABLED' ? 'token_bound' : 'accepted'
}

function tokensOf (issuer: Issuer, client: DpopClient) {
  return {
    certificate: issuer.token({ cnf: { 'x5t#S256': A } }),
    both: issuer.token({ cnf: { jkt: client.jkt, 'x5t#S256': A } }),
    key: issuer.token({ cnf: client.cnf }),
    nothing: issuer.token()
  }
}

t.test('Every mode with every binding, scheme and certificate, from the header of a trusted proxy', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const tokens = tokensOf(issuer, client)
  const lines = {
    own: [HEADERS.nginx(PEM.a)],
    other: [HEADERS.nginx(PEM.b)],
    broken: [`${HEADERS.nginx(PEM.a)}%`],
    none: []
  }
  for (const mode of MODES) {
    const running = await startApp(t, issuer, {
      IDP_DPOP_MODE: mode,
      CLIENT_CERTIFICATE: 'nginx',
      TRUST_PROXY: 'loopback'
    })
    for (const bound of BOUND) {
      for (const scheme of ['Bearer', 'DPoP'] as const) {
        for (const shown of SHOWN) {
          const token = tokens[bound]
          const credentials = scheme === 'Bearer'
            ? bearerLines(token)
            : dpopLines(token, client.proof({ token, url: `${running.url}/api/private` }))
          const outcome = await call(running, { lines: [...credentials, ...lines[shown]] })
          const reason = expected(mode, bound, scheme, shown)
          const title = `${mode}: ${bound} bound, ${scheme} scheme, ${shown} certificate`
          if (reason === 'accepted') t.equal(outcome.status, 200, title)
          else expectRefusal(t, outcome, reason as keyof typeof REFUSALS, scheme, title)
        }
      }
    }
  }
})

t.test('A certificate in a header is accepted only from a trusted proxy, and only in the header of the setting', async t => {
  const issuer = await startIssuer(t)
  const token = issuer.token({ cnf: { 'x5t#S256': A } })
  for (const source of ['client-cert', 'nginx', 'xfcc'] as const) {
    const trusted = await startApp(t, issuer, { CLIENT_CERTIFICATE: source, TRUST_PROXY: 'loopback' })
    const untrusted = await startApp(t, issuer, { CLIENT_CERTIFICATE: source, TRUST_PROXY: '192.0.2.1' })
    t.equal((await call(trusted, { lines: [...bearerLines(token), HEADERS[source](PEM.a)] })).status, 200, source)
    expectRefusal(
      t,
      await call(untrusted, { lines: [...bearerLines(token), HEADERS[source](PEM.a)] }),
      'certificate_missing',
      'Bearer',
      `${source}: another peer`
    )
    expectRefusal(
      t,
      await call(trusted, { lines: [...bearerLines(token), HEADERS[source](PEM.b)] }),
      'certificate_mismatch',
      'Bearer',
      `${source}: another certificate`
    )
    for (const other of (['client-cert', 'nginx', 'xfcc'] as const).filter(name => name !== source)) {
      expectRefusal(
        t,
        await call(trusted, { lines: [...bearerLines(token), HEADERS[other](PEM.a)] }),
        'certificate_missing',
        'Bearer',
        `${source}: the header ${other}`
      )
    }
    const forged = Object.values(HEADERS).map(header => header(PEM.b))
    t.equal(
      (await call(untrusted, { lines: [...bearerLines(issuer.token()), ...forged] })).status,
      200,
      `${source}: a token that is not bound`
    )
    t.equal(
      (await call(untrusted, { path: '/api/public', lines: [...bearerLines(token), ...forged] })).status,
      200,
      `${source}: a public route`
    )
  }
})

t.test('A binding that is not exactly one of text is refused, and so is any by certificate while certificates are off', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const running = await startApp(t, issuer, {
    IDP_DPOP_MODE: 'DISABLED',
    CLIENT_CERTIFICATE: 'nginx',
    TRUST_PROXY: 'loopback'
  })
  const off = await startApp(t, issuer, { IDP_DPOP_MODE: 'DISABLED', TRUST_PROXY: 'loopback' })
  const send = (service: typeof running, cnf: unknown) =>
    call(service, { lines: [...bearerLines(issuer.token({ cnf })), HEADERS.nginx(PEM.a)] })
  for (const cnf of [{ 'x5t#S256': A }, { 'x5t#S256': A, jkt: client.jkt }, { 'x5t#S256': A, jwk: {} }]) {
    t.equal((await send(running, cnf)).status, 200, JSON.stringify(cnf))
    expectRefusal(t, await send(off, cnf), 'token_binding_unusable', 'Bearer', `off: ${JSON.stringify(cnf)}`)
  }
  const unusable = [
    {},
    [],
    null,
    'x',
    1,
    { jwk: {} },
    { 'x5t#S256': '' },
    { 'x5t#S256': [A] },
    { 'x5t#S256': null },
    { 'x5t#S256': A, jkt: '' },
    { 'x5t#S256': A, jkt: null },
    { 'x5t#S256': '', jkt: client.jkt },
    { x5t: A },
    { 'X5T#S256': A }
  ]
  for (const cnf of unusable) {
    expectRefusal(t, await send(running, cnf), 'token_binding_unusable', 'Bearer', JSON.stringify(cnf))
  }
  const near = [`${A}=`, A.toLowerCase(), A.slice(0, -1), Buffer.from(x509.fingerprint256).toString('base64url')]
  for (const thumbprint of near) {
    expectRefusal(t, await send(running, { 'x5t#S256': thumbprint }), 'certificate_mismatch', 'Bearer', thumbprint)
  }
})

/** What a provider answers about a token, by its text. */
async function startIntrospection (t: Test, answers: Record<string, object>) {
  const server = createServer(async (request, response) => {
    let form = ''
    for await (const chunk of request) form += chunk
    response.setHeader('content-type', 'application/json').end(
      JSON.stringify(answers[new URLSearchParams(form).get('token')!] ?? { active: false })
    )
  })
  const port = await listen(t, server)
  return `http://127.0.0.1:${port}/introspect`
}

t.test('A certificate binding from introspection works as in a JWT', async t => {
  const issuer = await startIssuer(t)
  const active = { active: true, sub: 'user-1', aud: AUDIENCE }
  const jwt = issuer.token({ cnf: { 'x5t#S256': A } })
  const contradicted = issuer.token({ cnf: { 'x5t#S256': A }, jti: '2' })
  const endpoint = await startIntrospection(t, {
    opaque: { ...active, cnf: { 'x5t#S256': A } },
    unbound: active,
    odd: { ...active, cnf: { 'x5t#S256': 1 } },
    [jwt]: { active: true, cnf: { 'x5t#S256': A } },
    [contradicted]: { active: true, cnf: { 'x5t#S256': thumbprintOf(PEM.b) } }
  })
  const values = {
    IDP_INTROSPECTION: 'all',
    IDP_INTROSPECTION_ENDPOINT: endpoint,
    IDP_CLIENT_ID: 'api',
    IDP_CLIENT_SECRET: 'secret',
    TRUST_PROXY: 'loopback'
  }
  const on = await startApp(t, issuer, { ...values, CLIENT_CERTIFICATE: 'nginx' })
  const off = await startApp(t, issuer, values)
  const send = (service: typeof on, token: string, ...lines: string[]) =>
    call(service, { lines: [...bearerLines(token), ...lines] })
  t.equal((await send(on, 'opaque', HEADERS.nginx(PEM.a))).status, 200)
  expectRefusal(t, await send(on, 'opaque', HEADERS.nginx(PEM.b)), 'certificate_mismatch', 'Bearer')
  expectRefusal(t, await send(on, 'opaque'), 'certificate_missing', 'Bearer')
  expectRefusal(t, await send(off, 'opaque', HEADERS.nginx(PEM.a)), 'token_binding_unusable', 'Bearer')
  expectRefusal(t, await send(on, 'odd', HEADERS.nginx(PEM.a)), 'token_binding_unusable', 'Bearer')
  t.equal((await send(on, 'unbound')).status, 200)
  t.equal((await send(on, jwt, HEADERS.nginx(PEM.a))).status, 200)
  expectRefusal(t, await send(on, contradicted, HEADERS.nginx(PEM.a)), 'token_contradicted', 'Bearer')

  const fapi = await startApp(t, issuer, { ...values, CLIENT_CERTIFICATE: 'nginx', SECURITY_PROFILE: 'fapi2' })
  t.equal((await send(fapi, 'opaque', HEADERS.nginx(PEM.a))).status, 200)
  expectRefusal(t, await send(fapi, 'unbound', HEADERS.nginx(PEM.a)), 'token_not_sender_constrained', 'Bearer')
})

t.test('The FAPI profile holds for a function that names issuers too', async t => {
  const key = await createTokenKey('ES256')
  const provider = await startTokenProvider(t, key.jwk)
  const client = await createDpopClient()
  let more: object = {}
  const app = createApp(t)
  await app.register(auth, {
    idp: { audience: AUDIENCE, issuers: async issuer => ({ issuer, ...more }) },
    server: { securityProfile: 'fapi2', publicUrl: 'https://api.example' }
  })
  app.get('/', { onRequest: app.authenticate() }, async () => 'ok')
  const ask = async (cnf?: object) => {
    const token = makeToken(provider.url, key, { claims: { cnf } })
    const { statusCode, body } = await app.inject({
      url: '/',
      headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: 'https://api.example/' }) }
    })
    return [statusCode, JSON.parse(statusCode === 200 ? '{}' : body).message]
  }
  t.strictSame(await ask({ jkt: client.jkt }), [200, undefined])
  t.strictSame(await ask(), [401, REFUSALS.token_not_sender_constrained.description])
  const other = createApp(t)
  more = { dpopMode: 'DISABLED' }
  await other.register(auth, {
    idp: { audience: AUDIENCE, issuers: async issuer => ({ issuer, ...more }) },
    server: { securityProfile: 'fapi2' }
  })
  other.get('/', { onRequest: other.authenticate() }, async () => 'ok')
  t.equal(
    (await other.inject({ url: '/', headers: { authorization: `Bearer ${makeToken(provider.url, key)}` } })).statusCode,
    503,
    'settings that cannot be used'
  )
})

t.test('Beside a function that names issuers, a certificate in a header is accepted only from a trusted proxy', async t => {
  const key = await createTokenKey('ES256')
  const provider = await startTokenProvider(t, key.jwk)
  const token = makeToken(provider.url, key, { claims: { cnf: { 'x5t#S256': A } } })
  const ask = async (
    app: FastifyInstance,
    pem: string | undefined
  ): Promise<[status: number, message: string | undefined]> => {
    const certificate = pem === undefined ? {} : { 'x-ssl-client-cert': encodeURIComponent(pem) }
    const answer = await app.inject({ url: '/', headers: { authorization: `Bearer ${token}`, ...certificate } })
    return [answer.statusCode, answer.json().message]
  }
  const refused = (reason: keyof typeof REFUSALS) => [401, REFUSALS[reason].description]
  // By its own setting, and by that of the app.
  for (
    const [server, trustProxy] of [[{ trustProxy: ['127.0.0.1'] }, false], [{}, '127.0.0.1'], [
      {},
      (address: string) => address === '127.0.0.1'
    ]] as const
  ) {
    const app = createApp(t, { trustProxy })
    await app.register(auth, {
      idp: { audience: AUDIENCE, algs: ['ES256'], issuers: async (issuer: string) => ({ issuer }) },
      server: { clientCertificate: 'nginx', ...server }
    })
    app.get('/', { onRequest: app.authenticate() }, () => ({}))
    t.strictSame(await ask(app, PEM.a), [200, undefined])
    t.strictSame(await ask(app, PEM.b), refused('certificate_mismatch'))
    t.strictSame(await ask(app, undefined), refused('certificate_missing'))
  }
  const other = createApp(t)
  await other.register(auth, {
    idp: { audience: AUDIENCE, algs: ['ES256'], issuers: async (issuer: string) => ({ issuer }) },
    server: { clientCertificate: 'nginx', trustProxy: ['192.0.2.1'] }
  })
  other.get('/', { onRequest: other.authenticate() }, () => ({}))
  t.strictSame(await ask(other, PEM.a), refused('certificate_missing'), 'another peer')
  const unsaid = Fastify()
  await t.rejects(
    async () =>
      unsaid.register(auth, {
        idp: { audience: AUDIENCE, issuers: async (issuer: string) => ({ issuer }) },
        server: { clientCertificate: 'nginx' }
      }),
    SettingsError,
    'without trust no header could count'
  )
})

t.test('A proof beside a Bearer token that is bound to a certificate is refused after the certificate', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const running = await startApp(t, issuer, { CLIENT_CERTIFICATE: 'nginx', TRUST_PROXY: 'loopback' })
  const token = issuer.token({ cnf: { 'x5t#S256': A } })
  const proof = `DPoP: ${client.proof({ token, url: `${running.url}/api/private` })}`
  t.equal((await call(running, { lines: [...bearerLines(token), HEADERS.nginx(PEM.a)] })).status, 200)
  expectRefusal(
    t,
    await call(running, { lines: [...bearerLines(token), proof, HEADERS.nginx(PEM.a)] }),
    'proof_beside_bearer',
    'Bearer'
  )
  expectRefusal(
    t,
    await call(running, { lines: [...bearerLines(token), proof, HEADERS.nginx(PEM.b)] }),
    'certificate_mismatch',
    'Bearer'
  )
})

/**
 * An app that terminates TLS itself and requests a certificate from each client. Which authority has signed it makes no
 * difference.
 */
async function startTls (t: Test, issuer: Issuer, http2: boolean) {
  const tls = {
    cert: fixture('provider.cert.pem'),
    key: fixture('provider.key.pem'),
    requestCert: true,
    rejectUnauthorized: false
  }
  const app = (http2 ? Fastify({ http2: true, https: tls }) : Fastify({ https: tls })) as unknown as FastifyInstance
  t.teardown(() => {
    app.server.close()
    return app.close()
  })
  await app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE }, server: { clientCertificate: 'socket' } })
  app.get('/', { onRequest: app.authenticate() }, async request => ({ auth: request.auth }))
  return { app, url: await app.listen({ port: 0, host: '127.0.0.1' }) }
}

type Ask = (
  token: string,
  client?: 'a' | 'b',
  more?: Record<string, string>
) => Promise<[status: number | undefined, challenge: unknown]>

const overHttp1 = (url: string): Ask => (token, client, more = {}) =>
  new Promise((resolve, reject) => {
    const agent = new Agent({ rejectUnauthorized: false, ...client && { cert: PEM[client], key: KEY[client] } })
    request(url, { agent, headers: { authorization: `Bearer ${token}`, ...more } }, response => {
      response.resume().on('end', () => {
        agent.destroy()
        resolve([response.statusCode, response.headers['www-authenticate']])
      })
    }).on('error', reject).end()
  })

const overHttp2 = (url: string): Ask => (token, client, more = {}) =>
  new Promise((resolve, reject) => {
    const session = connect(url, { rejectUnauthorized: false, ...client && { cert: PEM[client], key: KEY[client] } })
    const stream = session.request({ ':path': '/', authorization: `Bearer ${token}`, ...more })
    stream.on('error', reject).on('response', headers => {
      session.destroy()
      resolve([headers[':status'], headers['www-authenticate']])
    })
  })

t.test(
  'The certificate of the TLS connection is used in an application that terminates TLS itself, over HTTP/1.1 and ' +
    'HTTP/2',
  async t => {
    const issuer = await startIssuer(t)
    const client = await createDpopClient()
    const { certificate, both, nothing } = tokensOf(issuer, client)
    for (const [http2, over] of [[false, overHttp1], [true, overHttp2]] as const) {
      const { url } = await startTls(t, issuer, http2)
      const ask = over(url)
      const refused = (
        reason: keyof typeof REFUSALS
      ) => [401, new RegExp(`Bearer error="invalid_token", error_description="${REFUSALS[reason].description}"`)]
      t.equal((await ask(certificate, 'a'))[0], 200)
      t.match(await ask(certificate, 'b'), refused('certificate_mismatch'))
      t.match(await ask(certificate), refused('certificate_missing'))
      const forged = {
        'client-cert': HEADERS['client-cert'](PEM.a).slice(13),
        'x-ssl-client-cert': encodeURIComponent(PEM.a),
        'x-forwarded-client-cert': `Hash=${hexOf(PEM.a)}`
      }
      t.match(await ask(certificate, 'b', forged), refused('certificate_mismatch'), 'headers count for nothing')
      t.equal((await ask(nothing))[0], 200, 'a token that is not bound needs none')
      const dpop = { authorization: `DPoP ${both}`, dpop: client.proof({ token: both, url: `${url}/` }) }
      t.equal((await ask('', 'a', dpop))[0], 200, 'both bindings')
      t.match(
        (await ask('', 'b', { ...dpop, dpop: client.proof({ token: both, url: `${url}/` }) }))[1],
        /DPoP error="invalid_token"/
      )
    }
  }
)

t.test('Without TLS, certificates of sockets cannot be configured', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  const failure = await Promise.resolve(
    app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE }, server: { clientCertificate: 'socket' } })
  ).then(() => app.ready()).catch(error => error)
  t.type(failure, SettingsError)
  t.match(
    failure.message,
    /CLIENT_CERTIFICATE \(server\.clientCertificate\) is "socket", but this server does not end TLS/
  )
})

t.test('What the application learns of the caller is the same', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  await app.register(auth, {
    idp: { issuer: issuer.url, audience: AUDIENCE },
    server: { clientCertificate: 'nginx', trustProxy: true, publicUrl: 'https://api.example' }
  })
  app.get('/', { onRequest: app.authenticate() }, async request => ({ auth: request.auth, sub: request.user.sub }))
  const ask = async (authorization: string, headers: object = {}) =>
    (await app.inject({
      url: '/',
      headers: { authorization, 'x-ssl-client-cert': encodeURIComponent(PEM.a), ...headers }
    })).json()
  const identity = { scheme: 'Bearer', scopes: [], issuer: issuer.url, expiresAt: 4e9 }
  t.strictSame(await ask(`Bearer ${issuer.token({ exp: 4e9 })}`), { auth: identity, sub: 'user-1' })
  t.strictSame(await ask(`Bearer ${issuer.token({ exp: 4e9, cnf: { 'x5t#S256': A } })}`), {
    auth: identity,
    sub: 'user-1'
  })
  const client = await createDpopClient()
  const token = issuer.token({ exp: 4e9, cnf: client.cnf })
  const bound = await ask(`DPoP ${token}`, { dpop: client.proof({ token, url: 'https://api.example/' }) })
  t.strictSame(
    bound,
    { auth: { ...identity, scheme: 'DPoP', jkt: client.jkt }, sub: 'user-1' },
    'the key is beside the claims, and names no client'
  )
})

/** The tokens of FAPI are not signed with RS256. */
async function startFapi (t: Test, values: Variables = {}) {
  const key = await createTokenKey('ES256')
  const rsa = await createTokenKey('RS256')
  const provider = await startTokenProvider(t, key.jwk, rsa.jwk)
  const running = await startApp(t, { url: provider.url } as Issuer, { SECURITY_PROFILE: 'fapi2', ...values })
  return {
    running,
    token: (claims: object = {}, by = key) =>
      makeToken(provider.url, by, { claims: claims as Record<string, unknown> }),
    rsa
  }
}

t.test('Under the FAPI profile a token passes only if it is bound, and only by the algorithms of the profile', async t => {
  const { running, token, rsa } = await startFapi(t, { CLIENT_CERTIFICATE: 'nginx', TRUST_PROXY: 'loopback' })
  const client = await createDpopClient()
  const url = `${running.url}/api/private`
  const send = (text: string, by = client) => callDpop(running, text, by.proof({ token: text, url }))
  t.equal((await send(token({ cnf: client.cnf }))).status, 200, 'bound to a key')
  t.equal(
    (await call(running, { lines: [...bearerLines(token({ cnf: { 'x5t#S256': A } })), HEADERS.nginx(PEM.a)] })).status,
    200,
    'bound to a certificate'
  )
  await expectBearerRefusal(t, running, token(), 'token_not_sender_constrained')
  expectRefusal(t, await send(token()), 'token_not_sender_constrained', 'DPoP')
  expectRefusal(
    t,
    await call(running, { lines: [...bearerLines(token()), HEADERS.nginx(PEM.a)] }),
    'token_not_sender_constrained',
    'Bearer',
    'a certificate that the token does not name'
  )
  expectRefusal(t, await send(token({ cnf: client.cnf }, rsa)), 'token_algorithm', 'DPoP', 'a token by RS256')
  for (const alg of ['PS256', 'EdDSA', 'Ed25519']) {
    const other = await createDpopClient(alg)
    t.equal((await send(token({ cnf: other.cnf }), other)).status, 200, `a proof by ${alg}`)
  }
  for (const alg of ['RS256', 'ES384']) {
    const other = await createDpopClient(alg)
    expectRefusal(
      t,
      await send(token({ cnf: other.cnf }), other),
      'proof_algorithm',
      'DPoP',
      `a proof by ${alg}`
    )
  }
})

t.test('A token in the query, in a form or in a cookie is no credential', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const token = issuer.token()
  t.equal((await callBearer(running, token)).status, 200)
  expectRefusal(t, await call(running, { path: `/api/private?access_token=${token}` }), 'credentials_missing')
  expectRefusal(
    t,
    await call(running, {
      lines: [
        'Content-Type: application/x-www-form-urlencoded',
        `Content-Length: ${token.length + 13}`,
        '',
        `access_token=${token}`
      ]
    }),
    'credentials_missing'
  )
  expectRefusal(t, await call(running, { lines: [`Cookie: access_token=${token}`] }), 'credentials_missing')
})

t.test('Under the FAPI profile without DPoP, only a certificate binds', async t => {
  const { running, token } = await startFapi(t, {
    CLIENT_CERTIFICATE: 'nginx',
    TRUST_PROXY: 'loopback',
    IDP_DPOP_MODE: 'DISABLED'
  })
  const { jkt } = await createDpopClient()
  const send = (cnf: object) => call(running, { lines: [...bearerLines(token({ cnf })), HEADERS.nginx(PEM.a)] })
  t.equal((await send({ 'x5t#S256': A })).status, 200)
  t.equal((await send({ jkt, 'x5t#S256': A })).status, 200)
  expectRefusal(t, await send({ jkt }), 'token_binding_unusable', 'Bearer', 'no proof would be required for the key')
})

t.test('The API description mentions certificates and the profile only if they are on', async t => {
  const issuer = await startIssuer(t)
  for (const isOn of [false, true]) {
    const { body } = await call(
      await startApp(
        t,
        issuer,
        isOn ? { CLIENT_CERTIFICATE: 'nginx', TRUST_PROXY: 'true', SECURITY_PROFILE: 'fapi2' } : {}
      ),
      { path: '/docs/json' }
    )
    const reasons = Object.keys(body.components.responses.Unauthorized.content['application/json'].examples)
    for (
      const reason of [
        'certificate_missing',
        'certificate_unreadable',
        'certificate_mismatch',
        'token_not_sender_constrained'
      ]
    ) t.equal(reasons.includes(reason), isOn, reason)
    t.equal(/client certificate/.test(body.components.securitySchemes.Bearer.description), isOn)
  }
})

t.test('The metadata says what a token may be bound to', async t => {
  const issuer = await startIssuer(t)
  const table: Array<[values: Variables, certificates: true | undefined, dpop: boolean]> = [
    [{}, undefined, false],
    [{ CLIENT_CERTIFICATE: 'xfcc', TRUST_PROXY: 'true' }, true, false],
    [{ SECURITY_PROFILE: 'fapi2' }, undefined, true],
    [{ SECURITY_PROFILE: 'fapi2', CLIENT_CERTIFICATE: 'xfcc', TRUST_PROXY: 'true' }, true, false],
    [{ CLIENT_CERTIFICATE: 'xfcc', TRUST_PROXY: 'true', IDP_DPOP_MODE: 'REQUIRED' }, true, true]
  ]
  for (const [values, certificates, dpop] of table) {
    const { body } = await call(await startApp(t, issuer, values), { path: '/.well-known/oauth-protected-resource' })
    t.strictSame([body.tls_client_certificate_bound_access_tokens, body.dpop_bound_access_tokens_required], [
      certificates,
      dpop
    ], JSON.stringify(values))
  }
})
