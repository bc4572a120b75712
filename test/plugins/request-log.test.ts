import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'
import { nowSeconds } from '../helpers/clock.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { createDpopClient, type DpopClient, type ProofParts } from '../helpers/dpop-client.ts'
import { makeIssuerKey, startIssuer, type Issuer, type Overrides } from '../helpers/issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

const MARK = 'marked-secret'

/** What one request is made of. */
interface World {
  issuer: Issuer
  client: DpopClient
  other: DpopClient
  url: string
  host: string
  /** A token that is bound to the client's key. */
  bound (claims?: Overrides, header?: Overrides): string
  proof (token: string, parts?: Partial<ProofParts>): string
}

type Build = (
  world: World
) => { lines: readonly string[], target?: string, hosts?: readonly string[] }

const bearer = (token: string) => `Authorization: Bearer ${token}`
const dpop = (token: string, proof: string) => [`Authorization: DPoP ${token}`, `DPoP: ${proof}`]

/** A refusal for the token, sent as Bearer. */
const ofToken = (claims: Overrides, header: Overrides = {}): Build => ({ issuer }) => ({
  lines: [bearer(issuer.token({ note: MARK, ...claims }, header))]
})
/** A refusal for the proof, sent with a good token. */
const ofProof = (parts: Partial<ProofParts>): Build => world => {
  const token = world.bound()
  return { lines: dpop(token, world.proof(token, parts)) }
}
const accepted = ofProof({})

/** Routes with requirements that no route of the service has. */
function addRoutes (app: FastifyInstance) {
  app.register(async app => {
    app.get('/asks/acr', { onRequest: app.require({ acr: 'urn:mfa' }) }, () => null)
    app.get('/asks/age', { onRequest: app.require({ maxAgeSeconds: 60 }) }, () => null)
    app.get('/asks/claim', { onRequest: app.require({ claims: { tenant: 'blue' } }) }, () => null)
    app.get('/asks/detail', { onRequest: app.require({ authorizationDetails: { type: 'payment' } }) }, () => null)
  })
}

const CERTIFICATES = { CLIENT_CERTIFICATE: 'client-cert', TRUST_PROXY: 'loopback' }
const INTROSPECTION = { IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 's3cret' }
const ofCertificate = (value: string): Build => ({ issuer }) => ({
  lines: [bearer(issuer.token({ cnf: { 'x5t#S256': MARK } })), `Client-Cert: ${value}`]
})

/** For each reason a request that is refused for it, marked wherever a client writes something. */
const CASES: Partial<Record<RefusalReason, Build | readonly [Build, Variables]>> = {
  credentials_missing: () => ({ lines: [] }),
  scheme_not_offered: () => ({ lines: [`Authorization: Basic ${MARK}`] }),
  headers_uncounted: ({ issuer }) => ({
    lines: [bearer(issuer.token({ note: MARK })), ...Array<string>(995).fill('A:'), `X-Note: ${MARK}`]
  }),
  authorization_repeated: ({ issuer }) => ({ lines: [bearer(issuer.token({ note: MARK })), `Authorization: Bearer ${MARK}`] }),
  authorization_malformed: ({ issuer }) => ({ lines: [`${bearer(issuer.token())} ${MARK}`] }),
  token_malformed: () => ({ lines: [bearer(MARK)] }),
  token_algorithm: ofToken({}, { alg: 'HS256', note: MARK }),
  token_type: ofToken({}, { typ: MARK }),
  token_critical: ofToken({}, { crit: [MARK] }),
  token_kind: ofToken({ events: { [MARK]: {} } }),
  token_claim_invalid: ofToken({ sub: { note: MARK } }),
  token_issuer: ofToken({ iss: `https://${MARK}:${MARK}@other.example/?${MARK}` }),
  token_revoked: [ofToken({ iat: nowSeconds() - 5 }), { REVOCATION: { operators: { scope: 'revoke' } } }],
  token_too_long: [ofToken({ exp: nowSeconds() + 7200 }), { REVOCATION: { retentionSeconds: 3600 } }],
  revocation_unknown: [ofToken({}), { REVOCATION: { store: `redis://user:${MARK}@127.0.0.1:1` } }],
  token_audience: ofToken({ aud: ['https://other.example', `https://other.example/#${MARK}`] }),
  token_expired: ofToken({ exp: nowSeconds() - 3600 }),
  token_not_yet_valid: ofToken({ nbf: nowSeconds() + 3600 }),
  token_binding_unusable: ofToken({ cnf: { 'x5t#S256': MARK } }),
  token_key_unknown: ofToken({}, { kid: MARK }),
  token_signature: ({ issuer }) => ({ lines: [bearer(issuer.token({ note: MARK }, { kid: 'k1' }, makeIssuerKey('other')))] }),
  token_bound: world => ({ lines: [bearer(world.bound())] }),
  token_unbound: world => {
    const token = world.issuer.token({ note: MARK })
    return { lines: dpop(token, world.proof(token)) }
  },
  certificate_missing: [ofToken({ cnf: { 'x5t#S256': MARK } }), CERTIFICATES],
  certificate_unreadable: [ofCertificate(MARK), CERTIFICATES],
  certificate_mismatch: [ofCertificate(`:${Buffer.from(MARK).toString('base64')}:`), CERTIFICATES],
  token_inactive: [() => ({ lines: [bearer(MARK)] }), INTROSPECTION],
  token_contradicted: [world => {
    world.issuer.introspection = { active: true, sub: MARK }
    return ofToken({})(world)
  }, INTROSPECTION],
  introspection_unavailable: [() => ({ lines: [bearer(`${MARK}2`)] }), { ...INTROSPECTION, IDP_INTROSPECTION_ENDPOINT: 'http://127.0.0.1:1/' }],
  domain_has_scheme: [ofToken({}), { IDP_ISSUER: undefined, IDP_DOMAIN: 'https://tenant.example' }],
  proof_beside_bearer: world => {
    const token = world.issuer.token({ note: MARK })
    return { lines: [bearer(token), `DPoP: ${world.proof(token)}`] }
  },
  proof_missing: world => ({ lines: [`Authorization: DPoP ${world.bound()}`] }),
  proof_repeated: world => {
    const token = world.bound()
    return { lines: [...dpop(token, world.proof(token)), `DPoP: ${world.proof(token)}`] }
  },
  proof_malformed: world => ({ lines: dpop(world.bound(), MARK) }),
  proof_too_large: ofProof({ claims: { note: MARK.repeat(700) } }),
  proof_type: ofProof({ header: { typ: MARK } }),
  proof_algorithm: ofProof({ header: { alg: MARK } }),
  proof_critical: ofProof({ header: { crit: [MARK] } }),
  proof_key: ofProof({ header: { jwk: { kty: 'oct', k: MARK } } }),
  proof_claim_invalid: ofProof({ claims: { iat: MARK } }),
  proof_expired: ofProof({ claims: { exp: nowSeconds() - 3600 } }),
  proof_not_yet_valid: ofProof({ claims: { nbf: nowSeconds() + 3600 } }),
  htm_mismatch: ofProof({ method: MARK }),
  htu_invalid: ofProof({ claims: { htu: MARK } }),
  htu_mismatch: ofProof({ claims: { htu: `http://elsewhere.example/api/private?token=${MARK}#${MARK}` } }),
  iat_too_old: ofProof({ claims: { iat: nowSeconds() - 3600 } }),
  iat_in_future: ofProof({ claims: { iat: nowSeconds() + 3600 } }),
  ath_mismatch: ofProof({ claims: { ath: MARK } }),
  jkt_mismatch: world => {
    const token = world.bound()
    return { lines: dpop(token, world.other.proof({ token, url: world.url, claims: { jti: MARK } })) }
  },
  proof_signature: world => {
    const token = world.bound()
    return { lines: dpop(token, world.proof(token).replace(/[^.]+$/, Buffer.alloc(64, MARK).toString('base64url'))) }
  },
  nonce_missing: [accepted, { DPOP_NONCE: 'required' }],
  nonce_of_another_instance: [ofProof({ claims: { nonce: `${MARK}${'x'.repeat(26)}`.slice(0, 26) } }), { DPOP_NONCE: 'required' }],
  nonce_stale: [ofProof({ claims: { nonce: MARK } }), { DPOP_NONCE: 'required' }],
  host_invalid: world => ({ ...accepted(world), hosts: [`${MARK}?x`] }),
  host_repeated: world => ({ ...accepted(world), hosts: [world.host, `${MARK}.example`] }),
  target_authority: world => ({ ...accepted(world), target: `http://${MARK}.example/api/private` }),
  target_path: world => ({ ...accepted(world), target: '/api/admin/%2e%2e/x' }),
  forwarded_invalid: [world => ({ lines: [...accepted(world).lines, `X-Forwarded-Proto: ${MARK}`] }), { TRUST_PROXY: 'true' }],
  scope_missing: world => ({ lines: [bearer(world.issuer.token({ scope: MARK }))], target: '/api/private-scoped' }),
  acr_missing: world => ({ ...ofToken({ acr: MARK })(world), target: '/asks/acr' }),
  authentication_too_old: world => ({ ...ofToken({ auth_time: MARK })(world), target: '/asks/age' }),
  claim_mismatch: world => ({ ...ofToken({ tenant: MARK })(world), target: '/asks/claim' }),
  authorization_details_missing: world => ({ ...ofToken({ authorization_details: [{ type: MARK }] })(world), target: '/asks/detail' }),
  rate_limited: [ofToken({ scope: MARK }), { RATE_LIMIT: '1' }],
  keys_unavailable: ofToken({}),
  replay_unavailable: [accepted, { DPOP_REPLAY: `redis://user:${MARK}@127.0.0.1:1` }],
  replay_share_exceeded: [accepted, { DPOP_REPLAY_MAX: '4' }],
  replay_full: [accepted, { DPOP_REPLAY_MAX: '1' }],
  proof_replayed: accepted
}

/** What can be done before a request. */
interface Before {
  /** Sends the request itself. */
  send: () => Promise<unknown>
  /** Sends a request of the same client that is accepted. */
  sendNext: () => Promise<unknown>
  sendOfAnother: () => Promise<unknown>
  /** Revokes all tokens of the issuer. */
  revokeAll: () => Promise<unknown>
}

/** Reasons for which something must have happened before the request. */
const BEFORE: Partial<Record<RefusalReason, (before: Before) => Promise<unknown>>> = {
  rate_limited: ({ send }) => send(),
  replay_share_exceeded: ({ sendNext }) => sendNext(),
  replay_full: ({ sendOfAnother }) => sendOfAnother(),
  proof_replayed: ({ send }) => send(),
  token_revoked: ({ revokeAll }) => revokeAll()
}

async function startWorld (
  t: Test,
  settings: Variables | undefined,
  isOut: boolean
) {
  const issuer = await startIssuer(t)
  if (isOut) issuer.outage = 503
  const running = await startApp(t, issuer, { LOG_LEVEL: 'trace', ...settings }, addRoutes)
  const [client, other] = [await createDpopClient(), await createDpopClient()]
  const url = `${running.url}/api/private`
  const world: World = {
    issuer,
    client,
    other,
    url,
    host: new URL(running.url).host,
    bound: (claims = {}, header = {}) => issuer.token({ note: MARK, cnf: client.cnf, ...claims }, header),
    proof: (token, { claims, ...parts } = {}) =>
      client.proof({ token, url, ...parts, claims: { jti: `${MARK}-${Math.random()}`, ...claims } })
  }
  return { ...running, world }
}

const send = (origin: string, { lines, target = '/api/private', hosts }: ReturnType<Build>, host: string) =>
  sendRaw(origin, [
    `GET ${target}${target.includes('%') || target.includes('://') ? '' : `?access_token=${MARK}`} HTTP/1.1`,
    ...(hosts ?? [host]).map(name => `Host: ${name}`),
    `Cookie: session=${MARK}`,
    'Connection: close',
    ...lines
  ])

/** Whatever of a request must not be found in a log: the mark, each part of a token or proof, and the client's key. */
function secretsOf (lines: readonly string[], { client }: World) {
  return [
    MARK,
    client.jkt,
    String(client.jwk.x),
    String(client.jwk.y),
    ...lines.flatMap(line => line.slice(line.indexOf(' ') + 1).split(/[\s.]/)).filter(part => part.length >= 20)
  ]
}

t.test(
  'No refusal writes a byte of a token, proof, key, query or cookie into the log, and each writes one line ' +
    'beside that of the request',
  async t => {
    // One service for each set of settings, started when first needed.
    const started = new Map<string, Promise<RunningApp & { world: World }>>()
    const worldFor = (reason: RefusalReason, settings: Variables | undefined) => {
      const key = JSON.stringify([settings, reason === 'keys_unavailable'])
      if (!started.has(key)) started.set(key, startWorld(t, settings, reason === 'keys_unavailable'))
      return started.get(key)!
    }

    for (const reason of Object.keys(CASES) as RefusalReason[]) {
      const [build, settings] = [CASES[reason]!].flat() as [Build, Variables?]
      const { world, url, log } = await worldFor(reason, settings)
      const request = build(world)
      const before = BEFORE[reason]
      await before?.({
        send: () => send(url, request, world.host),
        sendNext: () => send(url, accepted(world), world.host),
        sendOfAnother: () => {
          const token = world.issuer.token({ cnf: { jkt: world.other.jkt } })
          return send(url, { lines: dpop(token, world.other.proof({ token, url: world.url })) }, world.host)
        },
        revokeAll: () =>
          fetch(`${url}/revocation/subjects`, {
            method: 'POST',
            headers: {
              authorization: `Bearer ${world.issuer.token({ scope: 'revoke' })}`,
              'content-type': 'application/json'
            },
            body: JSON.stringify({ sub_id: { format: 'issuer', iss: world.issuer.url } })
          })
      })

      const from = log.length
      const answer = await send(url, request, world.host)
      t.equal(answer.status, REFUSALS[reason].status, `${reason}: status`)

      const lines = log.slice(from)
      const refused = lines.filter(line => line.msg === 'request refused')
      const answered = lines.filter(line => line.msg === 'request answered')
      t.strictSame(refused.map(line => line.reason), [reason], `${reason}: one line for the refusal`)
      t.strictSame(
        answered.map(line => [line.reqId, line.status]),
        [[refused[0]?.reqId, answer.status]],
        `${reason}: one line for the request, under the same id`
      )

      const text = JSON.stringify(log).toLowerCase()
      t.strictSame(
        secretsOf(request.lines, world).filter(secret => text.includes(secret.toLowerCase())),
        [],
        `${reason}: nothing of the request is in the log`
      )
      const nonce = answer.headers['dpop-nonce']
      t.notOk(nonce !== undefined && text.includes(nonce.toLowerCase()), `${reason}: nor is the nonce of the answer`)
      const sent = JSON.stringify([answer.headers, answer.body]).toLowerCase()
      t.strictSame(
        secretsOf(request.lines, world).filter(secret => sent.includes(secret.toLowerCase())),
        [],
        `${reason}: nor in the answer`
      )
      const isChallenged = answer.status === 401 || answer.status === 403
      t.equal('www-authenticate' in answer.headers, isChallenged, `${reason}: a challenge only with 401 and 403`)
      t.equal('retry-after' in answer.headers, !isChallenged, `${reason}: Retry-After with the others`)
    }
    // The first needs a function of an app with the plugin (test/plugins/issuers.test.ts), the second a token of PS256
    // (certificates.test.ts).
    const elsewhere = ['issuers_unavailable', 'token_not_sender_constrained']
    t.strictSame(
      [...Object.keys(CASES), ...elsewhere].sort(),
      Object.keys(REFUSALS).sort(),
      'every reason was tried'
    )
  }
)

t.test('The line of a refusal names the route, and for issuer, audience and times what was expected and what was found', async t => {
  const { world, url, log } = await startWorld(t, undefined, false)
  const far = 3600
  const at = nowSeconds()
  const rows: ReadonlyArray<{ build: Build, line: Record<string, unknown> }> = [
    {
      build: ofToken({ iss: 'https://other.example/' }),
      line: { reason: 'token_issuer', expected: world.issuer.url, found: 'https://other.example/' }
    },
    {
      build: ofToken({ iss: `\u001b[2J\n"${'x'.repeat(300)}` }),
      line: { reason: 'token_issuer', found: `\\u001b[2J\\u000a"${'x'.repeat(237)}...` }
    },
    {
      build: ofToken({ aud: ['https://a.example', 'b'] }),
      line: { reason: 'token_audience', expected: world.issuer.audience, found: 'https://a.example b' }
    },
    {
      build: ofToken({}, { alg: 'HS256' }),
      line: { reason: 'token_algorithm', expected: 'RS256', found: 'HS256' }
    },
    {
      build: ofToken({}, { alg: 'RS256 ' }),
      line: { reason: 'token_algorithm', expected: 'RS256', found: 'no known name' }
    },
    {
      build: ofProof({ header: { alg: 'none' } }),
      line: { reason: 'proof_algorithm', expected: 'ES256 ES384 EdDSA Ed25519 PS256 RS256', found: 'none' }
    },
    {
      build: ofToken({ exp: at - far }),
      line: { reason: 'token_expired', expected: /^exp after \d{10}$/, found: at - far }
    },
    {
      build: ofToken({ nbf: at + far }),
      line: { reason: 'token_not_yet_valid', expected: /^nbf up to \d{10}$/, found: at + far }
    },
    {
      build: ofProof({ claims: { iat: at - far } }),
      line: { reason: 'iat_too_old', expected: /^from \d{10} to \d{10}$/, found: at - far }
    },
    {
      build: ofProof({ claims: { iat: at + far } }),
      line: { reason: 'iat_in_future', expected: /^from \d{10} to \d{10}$/, found: at + far }
    },
    {
      build: ofProof({ claims: { exp: at - far } }),
      line: { reason: 'proof_expired', expected: /^exp after \d{10}$/, found: at - far }
    },
    {
      build: ofProof({ claims: { nbf: at + far } }),
      line: { reason: 'proof_not_yet_valid', expected: /^nbf up to \d{10}$/, found: at + far }
    }
  ]
  for (const { build, line } of rows) {
    await send(url, build(world), world.host)
    const refused = log.filter(({ msg }) => msg === 'request refused').at(-1)!
    // The seconds of the times are not known exactly.
    const { expected, ...exact } = line
    t.hasStrict(refused, { route: '/api/private', ...exact, ...typeof expected === 'string' && { expected } })
    if (expected instanceof RegExp) t.match(refused['expected'], expected)
  }
  await send(url, { lines: [bearer(world.issuer.token({}))], target: '/api/users/7' }, world.host)
  t.hasStrict(log.filter(({ msg }) => msg === 'request refused').at(-1), {
    reason: 'scope_missing',
    route: '/api/users/*'
  }, 'the pattern, not the path')
})

t.test('An accepted request writes one line that names route, status and scheme, and no part of its credentials', async t => {
  const { world, url, log } = await startWorld(t, undefined, false)
  const request = accepted(world)
  const answer = await send(url, request, world.host)
  t.equal(answer.status, 200)
  const lines = log.filter(line => line.reqId !== undefined)
  t.hasStrict(lines, [{
    level: 30,
    msg: 'request answered',
    method: 'GET',
    route: '/api/private',
    status: 200,
    scheme: 'DPoP'
  }])
  t.equal(lines.length, 1)
  const text = JSON.stringify(log)
  t.strictSame(secretsOf(request.lines, world).filter(secret => text.includes(secret)), [])
})

t.test('No such byte is written for a request that no guard sees, or that ends in a fault', async t => {
  const issuer = await startIssuer(t)
  const { url, log } = await startApp(t, issuer, {
    LOG_LEVEL: 'trace',
    TRUST_PROXY: '192.0.2.1',
    CORS_ORIGINS: ['https://app.example']
  }, app => {
    app.register(async app => {
      app.get('/fault', () => {
        throw new Error('broken')
      })
    })
  })
  const token = issuer.token({ note: MARK })
  const headers = [
    `Host: ${MARK}.example`,
    bearer(token),
    `DPoP: ${MARK}`,
    `Cookie: session=${MARK}`,
    `Origin: https://${MARK}.example`,
    'Connection: close'
  ]
  const requests: ReadonlyArray<{ status: number, line: string, more?: string[], body?: string }> = [
    { status: 200, line: `GET /api/public?access_token=${MARK}` },
    { status: 404, line: `GET /${MARK}` },
    { status: 404, line: `POST /api/private/${MARK}?${MARK}`, more: [`Content-Length: ${MARK.length}`], body: MARK },
    { status: 400, line: `GET /%zz${MARK}` },
    { status: 404, line: `OPTIONS /api/${MARK}` },
    { status: 204, line: `OPTIONS /api/private?${MARK}`, more: [`Access-Control-Request-Method: ${MARK}`] },
    { status: 400, line: `GET /api/private?${MARK}`, more: [`Content-Length: ${MARK}`] },
    { status: 431, line: `GET /api/private?${MARK}`, more: [`X-Long: ${MARK.repeat(1500)}`] },
    { status: 500, line: `GET /fault?access_token=${MARK}` }
  ]
  for (const { status, line, more = [], body = '' } of requests) {
    const answer = await sendRaw(url, [`${line} HTTP/1.1`, ...headers, ...more, '', body])
    t.equal(answer.status, status, line)
    t.equal(answer.headers['www-authenticate'], undefined, `${line}: no challenge`)
    t.notMatch(JSON.stringify([answer.headers, answer.body]), MARK, `${line}: nothing of it is in the answer`)
  }
  const text = JSON.stringify(log)
  t.strictSame([MARK, ...token.split('.')].filter(secret => text.includes(secret)), [])
  t.hasStrict(log.filter(({ level }) => level >= 40), [{ msg: 'request failed', err: { message: 'broken' } }])
})

t.test('The id of a request comes from a trusted proxy, and is our own otherwise', async t => {
  const issuer = await startIssuer(t)
  const table: ReadonlyArray<{ title: string, trustProxy: string, given: string, kept: boolean }> = [
    { title: 'a plain id from a trusted proxy is kept', trustProxy: 'loopback', given: 'from-the-proxy.1', kept: true },
    {
      title: 'an id from a peer that is not on the list is not',
      trustProxy: '192.0.2.1',
      given: 'from-the-proxy.1',
      kept: false
    },
    { title: 'an id is not kept if no proxy is trusted', trustProxy: 'false', given: 'from-the-proxy.1', kept: false },
    { title: 'an id with other characters is not kept', trustProxy: 'loopback', given: 'a b"c', kept: false },
    {
      title: 'an id of more than 128 characters is not kept',
      trustProxy: 'loopback',
      given: 'x'.repeat(129),
      kept: false
    }
  ]
  for (const { title, trustProxy, given, kept } of table) {
    const { url, log } = await startApp(t, issuer, { TRUST_PROXY: trustProxy })
    await fetch(`${url}/api/public`, { headers: { 'x-request-id': given } })
    const line = log.find(line => line.msg === 'request answered')
    t.equal(line?.reqId === given, kept, title)
    if (!kept) t.match(line?.reqId, /^[A-Za-z0-9_-]{8}-0$/, `${title}: ours is short and plain`)
  }
})

t.test('Above info nothing is written for a request', async t => {
  const issuer = await startIssuer(t)
  const { url, log } = await startApp(t, issuer, { LOG_LEVEL: 'warn', TRUST_PROXY: '192.0.2.1' })
  await fetch(`${url}/api/private`)
  t.strictSame(log, [])
})

t.test('A request for health or metrics is a line at debug, and any other one at info.', async t => {
  for (const [LOG_LEVEL, expected] of [['info', [30]], ['debug', [20, 20, 20, 30]]] as const) {
    const { app, log } = await startApp(t, await startIssuer(t), { LOG_LEVEL })
    for (const url of ['/health/live', '/health/ready', '/metrics', '/api/public']) await app.inject(url)
    t.strictSame(
      log.filter(({ msg }) => msg === 'request answered').map(({ level }) => level),
      expected,
      LOG_LEVEL
    )
  }
})

t.test('The line of a request is written at info and below, with its time in hundredths of a millisecond', async t => {
  for (const [LOG_LEVEL, isWritten] of [['trace', true], ['debug', true], ['info', true], ['warn', false]] as const) {
    const { app, log } = await startApp(t, await startIssuer(t), { LOG_LEVEL }, undefined, app => {
      app.addHook('onResponse', (_request, reply, done) => {
        Object.defineProperty(reply, 'elapsedTime', { value: 1.23456 })
        done()
      })
    })
    // A logger that would write each line: that of an app may have another level than the setting.
    app.log.level = 'trace'
    await app.inject('/api/public')
    const lines = log.filter(({ msg }) => msg === 'request answered').map(({ level, method, route, status, ms }) => ({
      level,
      method,
      route,
      status,
      ms
    }))
    t.strictSame(
      lines,
      isWritten ? [{ level: 30, method: 'GET', route: '/api/public', status: 200, ms: 1.23 }] : [],
      LOG_LEVEL
    )
  }
})
