import t from 'tap'
import type { Test } from 'tap'
import { REFUSALS } from '../../lib/refusal.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import type { RawSettings } from '../../lib/settings/specs.ts'
import { startApp } from '../helpers/app.ts'
import type { RunningApp } from '../helpers/app.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import type { DpopClient, ProofParts } from '../helpers/dpop-client.ts'
import { makeIssuerKey, startIssuer } from '../helpers/issuer.ts'
import type { Issuer, Overrides } from '../helpers/issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

const MARK = 'marked-secret'

/** What one request is made of. */
interface World {
  readonly issuer: Issuer
  readonly client: DpopClient
  readonly other: DpopClient
  readonly url: string
  readonly host: string
  /** A token that is bound to the client's key. */
  bound (claims?: Overrides, header?: Overrides): string
  proof (token: string, parts?: Partial<ProofParts>): string
}

type Build = (world: World) => { readonly lines: readonly string[], readonly target?: string, readonly hosts?: readonly string[] }

const bearer = (token: string): string => `Authorization: Bearer ${token}`
const dpop = (token: string, proof: string): string[] => [`Authorization: DPoP ${token}`, `DPoP: ${proof}`]

/** A refusal for the token, sent as Bearer. */
const ofToken = (claims: Overrides, header: Overrides = {}): Build => ({ issuer }) => ({ lines: [bearer(issuer.token({ note: MARK, ...claims }, header))] })
/** A refusal for the proof, sent with a good token. */
const ofProof = (parts: Partial<ProofParts>): Build => world => {
  const token = world.bound()
  return { lines: dpop(token, world.proof(token, parts)) }
}
const accepted: Build = ofProof({})

const now = (): number => Math.floor(Date.now() / 1000)

/** For each reason a request that is refused for it, marked wherever a client writes something. */
const CASES: ReadonlyArray<readonly [reason: RefusalReason, build: Build, settings?: RawSettings]> = [
  ['credentials_missing', () => ({ lines: [] })],
  ['scheme_not_offered', () => ({ lines: [`Authorization: Basic ${MARK}`] })],
  ['headers_uncounted', ({ issuer }) => ({ lines: [bearer(issuer.token({ note: MARK })), ...Array<string>(1000).fill('A:'), `X-Note: ${MARK}`] })],
  ['authorization_repeated', ({ issuer }) => ({ lines: [bearer(issuer.token({ note: MARK })), `Authorization: Bearer ${MARK}`] })],
  ['authorization_malformed', ({ issuer }) => ({ lines: [`${bearer(issuer.token())} ${MARK}`] })],
  ['token_malformed', () => ({ lines: [bearer(MARK)] })],
  ['token_algorithm', ofToken({}, { alg: 'HS256', note: MARK })],
  ['token_type', ofToken({}, { typ: MARK })],
  ['token_critical', ofToken({}, { crit: [MARK] })],
  ['token_claim_invalid', ofToken({ sub: { note: MARK } })],
  ['token_issuer', ofToken({ iss: `https://${MARK}.example/` })],
  ['token_audience', ofToken({ aud: MARK })],
  ['token_expired', ofToken({ exp: now() - 3600 })],
  ['token_not_yet_valid', ofToken({ nbf: now() + 3600 })],
  ['token_binding_unusable', ofToken({ cnf: { 'x5t#S256': MARK } })],
  ['token_key_unknown', ofToken({}, { kid: MARK })],
  ['token_signature', ({ issuer }) => ({ lines: [bearer(issuer.token({ note: MARK }, { kid: 'k1' }, makeIssuerKey('other')))] })],
  ['token_bound', world => ({ lines: [bearer(world.bound())] })],
  ['token_unbound', world => {
    const token = world.issuer.token({ note: MARK })
    return { lines: dpop(token, world.proof(token)) }
  }],
  ['domain_has_scheme', ofToken({}), { IDP_ISSUER: undefined, IDP_DOMAIN: 'https://tenant.example' }],
  ['proof_beside_bearer', world => {
    const token = world.issuer.token({ note: MARK })
    return { lines: [bearer(token), `DPoP: ${world.proof(token)}`] }
  }],
  ['proof_missing', world => ({ lines: [`Authorization: DPoP ${world.bound()}`] })],
  ['proof_repeated', world => {
    const token = world.bound()
    return { lines: [...dpop(token, world.proof(token)), `DPoP: ${world.proof(token)}`] }
  }],
  ['proof_malformed', world => ({ lines: dpop(world.bound(), MARK) })],
  ['proof_too_large', ofProof({ claims: { note: MARK.repeat(700) } })],
  ['proof_type', ofProof({ header: { typ: MARK } })],
  ['proof_algorithm', ofProof({ header: { alg: MARK } })],
  ['proof_critical', ofProof({ header: { crit: [MARK] } })],
  ['proof_key', ofProof({ header: { jwk: { kty: 'oct', k: MARK } } })],
  ['proof_claim_invalid', ofProof({ claims: { iat: MARK } })],
  ['proof_expired', ofProof({ claims: { exp: now() - 3600 } })],
  ['proof_not_yet_valid', ofProof({ claims: { nbf: now() + 3600 } })],
  ['htm_mismatch', ofProof({ method: MARK })],
  ['htu_invalid', ofProof({ claims: { htu: MARK } })],
  ['htu_mismatch', ofProof({ claims: { htu: `http://elsewhere.example/api/private?token=${MARK}#${MARK}` } })],
  ['iat_too_old', ofProof({ claims: { iat: now() - 3600 } })],
  ['iat_in_future', ofProof({ claims: { iat: now() + 3600 } })],
  ['ath_mismatch', ofProof({ claims: { ath: MARK } })],
  ['jkt_mismatch', world => {
    const token = world.bound()
    return { lines: dpop(token, world.other.proof({ token, url: world.url, claims: { jti: MARK } })) }
  }],
  ['proof_signature', world => {
    const token = world.bound()
    return { lines: dpop(token, world.proof(token).replace(/[^.]+$/, Buffer.alloc(64, MARK).toString('base64url'))) }
  }],
  ['nonce_missing', accepted, { DPOP_NONCE: 'required' }],
  ['nonce_stale', ofProof({ claims: { nonce: MARK } }), { DPOP_NONCE: 'required' }],
  ['host_invalid', world => ({ ...accepted(world), hosts: [`${MARK}?x`] })],
  ['host_repeated', world => ({ ...accepted(world), hosts: [world.host, `${MARK}.example`] })],
  ['target_authority', world => ({ ...accepted(world), target: `http://${MARK}.example/api/private` })],
  ['target_path', world => ({ ...accepted(world), target: '/api/admin/%2e%2e/x' })],
  ['forwarded_invalid', world => ({ lines: [...accepted(world).lines, `X-Forwarded-Proto: ${MARK}`] }), { TRUST_PROXY: 'true' }],
  ['scope_missing', world => ({ lines: [bearer(world.issuer.token({ scope: MARK }))], target: '/api/private-scoped' })],
  ['rate_limited', ofToken({ scope: MARK }), { RATE_LIMIT: '1' }],
  ['keys_unavailable', ofToken({})],
  ['replay_unavailable', accepted, { DPOP_REPLAY: `redis://user:${MARK}@127.0.0.1:1` }],
  ['replay_share_exceeded', accepted, { DPOP_REPLAY_MAX: '4' }],
  ['replay_full', accepted, { DPOP_REPLAY_MAX: '1' }],
  ['proof_replayed', accepted]
]

/** Reasons for which something must have happened before the request. */
const BEFORE: Partial<Record<RefusalReason, (send: () => Promise<unknown>, again: () => Promise<unknown>, byAnother: () => Promise<unknown>) => Promise<unknown>>> = {
  rate_limited: send => send(),
  replay_share_exceeded: (_send, again) => again(),
  replay_full: (_send, _again, byAnother) => byAnother(),
  proof_replayed: send => send()
}

async function startWorld (t: Test, settings: RawSettings | undefined, isOut: boolean): Promise<RunningApp & { world: World }> {
  const issuer = await startIssuer(t)
  if (isOut) issuer.outage = 503
  const running = await startApp(t, issuer, { LOG_LEVEL: 'trace', ...settings })
  const [client, other] = [await createDpopClient(), await createDpopClient()]
  const url = `${running.url}/api/private`
  const world: World = {
    issuer,
    client,
    other,
    url,
    host: new URL(running.url).host,
    bound: (claims = {}, header = {}) => issuer.token({ note: MARK, cnf: { jkt: client.jkt }, ...claims }, header),
    proof: (token, { claims, ...parts } = {}) => client.proof({ token, url, ...parts, claims: { jti: `${MARK}-${Math.random()}`, ...claims } })
  }
  return { ...running, world }
}

const send = (origin: string, { lines, target = '/api/private', hosts }: ReturnType<Build>, host: string) => sendRaw(origin, [
  `GET ${target}${target.includes('%') || target.includes('://') ? '' : `?access_token=${MARK}`} HTTP/1.1`,
  ...(hosts ?? [host]).map(name => `Host: ${name}`),
  `Cookie: session=${MARK}`,
  'Connection: close',
  ...lines
])

/** Whatever of a request must not be found in a log: the mark, each part of a token or proof, and the client's key. */
function secretsOf (lines: readonly string[], { client }: World): string[] {
  return [MARK, client.jkt, String(client.jwk.x), String(client.jwk.y), ...lines.flatMap(line => line.slice(line.indexOf(' ') + 1).split(/[\s.]/)).filter(part => part.length >= 20)]
}

t.test('No refusal writes a byte of a token, proof, key, query or cookie into the log, and each writes one line beside that of the request', async t => {
  // One service for each set of settings, started when first needed.
  const started = new Map<string, Promise<RunningApp & { world: World }>>()
  const worldFor = (reason: RefusalReason, settings: RawSettings | undefined) => {
    const key = JSON.stringify([settings, reason === 'keys_unavailable'])
    if (!started.has(key)) started.set(key, startWorld(t, settings, reason === 'keys_unavailable'))
    return started.get(key)!
  }

  for (const [reason, build, settings] of CASES) {
    const { world, url, log } = await worldFor(reason, settings)
    const request = build(world)
    const before = BEFORE[reason]
    await before?.(
      () => send(url, request, world.host),
      () => send(url, accepted(world), world.host),
      () => {
        const token = world.issuer.token({ cnf: { jkt: world.other.jkt } })
        return send(url, { lines: dpop(token, world.other.proof({ token, url: world.url })) }, world.host)
      }
    )

    const from = log.length
    const answer = await send(url, request, world.host)
    t.equal(answer.status, REFUSALS[reason].status, `${reason}: status`)

    const lines = log.slice(from)
    const refused = lines.filter(line => line.msg === 'request refused')
    const answered = lines.filter(line => line.msg === 'request answered')
    t.same(refused.map(line => line.reason), [reason], `${reason}: one line for the refusal`)
    t.same(answered.map(line => [line.reqId, line.status]), [[refused[0]?.reqId, answer.status]], `${reason}: one line for the request, under the same id`)

    const text = JSON.stringify(log).toLowerCase()
    t.same(secretsOf(request.lines, world).filter(secret => text.includes(secret.toLowerCase())), [], `${reason}: nothing of the request is in the log`)
    const nonce = answer.headers['dpop-nonce']
    t.notOk(nonce !== undefined && text.includes(nonce.toLowerCase()), `${reason}: nor is the nonce of the answer`)
    const sent = JSON.stringify([answer.headers, answer.body]).toLowerCase()
    t.same(secretsOf(request.lines, world).filter(secret => sent.includes(secret.toLowerCase())), [], `${reason}: nor in the answer`)
    const isChallenged = answer.status === 401 || answer.status === 403
    t.equal('www-authenticate' in answer.headers, isChallenged, `${reason}: a challenge with 401 and 403 alone`)
    t.equal('retry-after' in answer.headers, !isChallenged, `${reason}: Retry-After with the others`)
  }
  t.same(CASES.map(([reason]) => reason).sort(), Object.keys(REFUSALS).sort(), 'every reason was tried')
})

t.test('An accepted request writes one line that names route, status and scheme, and nothing of its credentials', async t => {
  const { world, url, log } = await startWorld(t, undefined, false)
  const request = accepted(world)
  const answer = await send(url, request, world.host)
  t.equal(answer.status, 200)
  const lines = log.filter(line => line.reqId !== undefined)
  t.match(lines, [{ level: 30, msg: 'request answered', method: 'GET', route: '/api/private', status: 200, scheme: 'DPoP' }])
  t.equal(lines.length, 1)
  const text = JSON.stringify(log)
  t.same(secretsOf(request.lines, world).filter(secret => text.includes(secret)), [])
})

t.test('Nor is anything written of a request that no guard sees, or that ends in a fault', async t => {
  const issuer = await startIssuer(t)
  const { url, log } = await startApp(t, issuer, { LOG_LEVEL: 'trace', TRUST_PROXY: '192.0.2.1', CORS_ORIGINS: ['https://app.example'] }, app => {
    app.register(async app => { app.get('/fault', () => { throw new Error('broken') }) })
  })
  const token = issuer.token({ note: MARK })
  const headers = [`Host: ${MARK}.example`, bearer(token), `DPoP: ${MARK}`, `Cookie: session=${MARK}`, `Origin: https://${MARK}.example`, 'Connection: close']
  const requests: ReadonlyArray<readonly [status: number, line: string, more?: string[], body?: string]> = [
    [200, `GET /api/public?access_token=${MARK}`],
    [404, `GET /${MARK}`],
    [404, `POST /api/private/${MARK}?${MARK}`, [`Content-Length: ${MARK.length}`], MARK],
    [400, `GET /%zz${MARK}`],
    [404, `OPTIONS /api/${MARK}`],
    [204, `OPTIONS /api/private?${MARK}`, [`Access-Control-Request-Method: ${MARK}`]],
    [400, `GET /api/private?${MARK}`, [`Content-Length: ${MARK}`]],
    [431, `GET /api/private?${MARK}`, [`X-Long: ${MARK.repeat(1500)}`]],
    [500, `GET /fault?access_token=${MARK}`]
  ]
  for (const [status, line, more = [], body = ''] of requests) {
    const answer = await sendRaw(url, [`${line} HTTP/1.1`, ...headers, ...more, '', body])
    t.equal(answer.status, status, line)
    t.equal(answer.headers['www-authenticate'], undefined, `${line}: no challenge`)
    t.notMatch(JSON.stringify([answer.headers, answer.body]), MARK, `${line}: nothing of it is in the answer`)
  }
  const text = JSON.stringify(log)
  t.same([MARK, ...token.split('.')].filter(secret => text.includes(secret)), [])
  t.match(log.filter(({ level }) => level >= 40), [{ msg: 'request failed', err: { message: 'broken' } }])
})

t.test('The id of a request is that of a trusted proxy, and our own otherwise', async t => {
  const issuer = await startIssuer(t)
  const table: ReadonlyArray<readonly [title: string, trustProxy: string, given: string, kept: boolean]> = [
    ['a plain id from a trusted proxy is kept', 'loopback', 'from-the-proxy.1', true],
    ['an id from a peer that is not on the list is not', '192.0.2.1', 'from-the-proxy.1', false],
    ['an id is not kept where no proxy is trusted', 'false', 'from-the-proxy.1', false],
    ['an id with other characters is not kept', 'loopback', 'a b"c', false],
    ['an id of more than 128 characters is not kept', 'loopback', 'x'.repeat(129), false]
  ]
  for (const [title, trustProxy, given, kept] of table) {
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
  t.same(log, [])
})
