import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import type { RefusalReason } from '../../lib/refusal.ts'
import type { RawSettings } from '../../lib/settings/specs.ts'
import { JWS_ALGS } from '../../lib/jose/signature.ts'
import { startApp } from '../helpers/app.ts'
import type { RunningApp } from '../helpers/app.ts'
import { bearerLines, call, dpopLines, expectRefusal } from '../helpers/call.ts'
import type { Outcome } from '../helpers/call.ts'
import { createDpopClient, hashOf } from '../helpers/dpop-client.ts'
import type { DpopClient, ProofParts } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'

interface Bench {
  readonly issuer: Issuer
  readonly running: RunningApp
  readonly client: DpopClient
  readonly token: string
  readonly target: string
  /** A fresh proof that passes, but for the overrides. */
  proof (overrides?: Partial<ProofParts>): string
  send (proof: string, method?: string): Promise<Outcome>
}

async function prepare (t: Test, values: RawSettings = {}, alg = 'ES256'): Promise<Bench> {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { DPOP_ALGS: [...JWS_ALGS], ...values })
  const client = await createDpopClient(alg)
  const token = issuer.token({ cnf: { jkt: client.jkt } })
  const target = `${running.url}/api/private`
  return {
    issuer,
    running,
    client,
    token,
    target,
    proof: overrides => client.proof({ token, url: target, ...overrides }),
    send: (proof, method) => call(running, { lines: dpopLines(token, proof), ...(method && { method }) })
  }
}

const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))

/** The request of a client with a key and a token of its own. */
async function sendAsAnother ({ issuer, running, target }: Bench): ReturnType<Bench['send']> {
  const client = await createDpopClient('ES256')
  const token = issuer.token({ cnf: { jkt: client.jkt } })
  return call(running, { lines: dpopLines(token, client.proof({ token, url: target })) })
}

const now = (): number => Math.floor(Date.now() / 1000)

type ProofRow = [check: string, title: string, proof: (bench: Bench) => string, expected: RefusalReason | 'accepted']

const ROWS: ProofRow[] = [
  ['2', 'a proof with all that is required', b => b.proof(), 'accepted'],
  ['2', 'a proof of 8 KiB', b => fill(b, 8192), 'accepted'],
  ['2', 'a proof of more than 8 KiB', b => fill(b, 8193), 'proof_too_large'],
  // Nothing walks through what a proof holds, so it may be nested as deeply as 8 KiB allow.
  ['2', 'claims nested 2,500 deep', b => b.proof({ claims: { other: nested(2500) } }), 'accepted'],
  ['2', 'a header nested 2,500 deep', b => b.proof({ header: { other: nested(2500) } }), 'accepted'],
  ['3', 'a jwk with a member nested 2,500 deep', b => b.proof({ header: { jwk: { ...b.client.jwk, other: nested(2500) } } }), 'accepted'],
  ['3', 'a jwk nested 2,500 deep', b => b.proof({ header: { jwk: nested(2500) } }), 'proof_key'],
  ['3', 'a coordinate nested 2,500 deep', b => b.proof({ header: { jwk: { ...b.client.jwk, x: nested(2500) } } }), 'proof_key'],
  ['4', 'a jti nested 2,500 deep', b => b.proof({ claims: { jti: nested(2500) } }), 'proof_claim_invalid'],
  ['2', 'two segments', b => b.proof().split('.').slice(0, 2).join('.'), 'proof_malformed'],
  ['2', 'four segments', b => `${b.proof()}.AAAA`, 'proof_malformed'],
  ['2', 'five segments, as a JWE', b => `${b.proof()}.AAAA.AAAA`, 'proof_malformed'],
  ['2', 'an empty signature', b => b.proof().replace(/[^.]+$/, ''), 'proof_malformed'],
  ['2', 'an empty payload', b => b.proof().replace(/\.[^.]+\./, '..'), 'proof_malformed'],
  ['2', 'padding', b => `${b.proof()}==`, 'proof_malformed'],
  ['2', 'bits beyond the last byte of the signature', b => b.proof().replace(/.$/, last => last === 'B' ? 'C' : 'B'), 'proof_malformed'],
  ['2', 'text that is no JWT', () => 'proof', 'proof_malformed'],
  ['2', 'a header that is an array', b => encodeJws('[]', '{}', b.client.sign), 'proof_malformed'],
  ['2', 'a payload that is an array', b => encodeJws(head(b), '[]', b.client.sign), 'proof_malformed'],
  ['2', 'a payload that is no JSON', b => encodeJws(head(b), '{', b.client.sign), 'proof_malformed'],

  ['3', 'typ in upper case', b => b.proof({ header: { typ: 'DPOP+JWT' } }), 'accepted'],
  ['3', 'typ with application/', b => b.proof({ header: { typ: 'application/dpop+jwt' } }), 'accepted'],
  ['3', 'no typ', b => b.proof({ header: { typ: undefined } }), 'proof_type'],
  ['3', 'typ JWT', b => b.proof({ header: { typ: 'JWT' } }), 'proof_type'],
  ['3', 'alg none', b => b.proof({ header: { alg: 'none' } }), 'proof_algorithm'],
  ['3', 'alg HS256', b => b.proof({ header: { alg: 'HS256' } }), 'proof_algorithm'],
  ['3', 'alg ES256K', b => b.proof({ header: { alg: 'ES256K' } }), 'proof_algorithm'],
  ['3', 'alg in an array', b => b.proof({ header: { alg: ['ES256'] } }), 'proof_algorithm'],
  ['3', 'alg with a name of every object', b => b.proof({ header: { alg: 'constructor' } }), 'proof_algorithm'],
  ['3', 'an alg of another type of key', b => b.proof({ header: { alg: 'RS256' } }), 'proof_key'],
  ['3', 'crit', b => b.proof({ header: { crit: ['exp'] } }), 'proof_critical'],
  ['3', 'crit with quotes, line breaks and emoji', b => b.proof({ header: { crit: ['"\r\nX: y 🗝'] } }), 'proof_critical'],
  ['3', 'an unencoded payload', b => b.proof({ header: { b64: false } }), 'proof_critical'],
  ['3', 'no jwk', b => b.proof({ header: { jwk: undefined } }), 'proof_key'],
  ['3', 'jwk as text', b => b.proof({ header: { jwk: JSON.stringify(b.client.jwk) } }), 'proof_key'],
  ['3', 'jwk as an array', b => b.proof({ header: { jwk: [b.client.jwk] } }), 'proof_key'],
  ['3', 'a private jwk', b => b.proof({ header: { jwk: { ...b.client.jwk, d: b.client.jwk.x } } }), 'proof_key'],
  ['3', 'a symmetric jwk', b => b.proof({ header: { jwk: { kty: 'oct', k: 'AAAA' } } }), 'proof_key'],
  ['3', 'an RSA key of 16384 bits', b => b.proof({ header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: 'x'.repeat(2731) } } }), 'proof_key'],
  ['3', 'other headers are not looked at', b => b.proof({ header: { kid: 'a', cty: 'b', jku: 'http://127.0.0.1:1/' } }), 'accepted'],

  ['4', 'jti of one character', b => b.proof({ claims: { jti: randomUUID()[0] } }), 'accepted'],
  ['4', 'jti of 512 characters', b => b.proof({ claims: { jti: 'a'.repeat(512) } }), 'accepted'],
  ['4', 'jti of 513 characters', b => b.proof({ claims: { jti: 'a'.repeat(513) } }), 'proof_claim_invalid'],
  ['4', 'an empty jti', b => b.proof({ claims: { jti: '' } }), 'proof_claim_invalid'],
  ['4', 'no jti', b => b.proof({ claims: { jti: undefined } }), 'proof_claim_invalid'],
  ['4', 'jti as a number', b => b.proof({ claims: { jti: 1 } }), 'proof_claim_invalid'],
  ['4', 'jti with line breaks and emoji', b => b.proof({ claims: { jti: '\r\n🗝' } }), 'accepted'],
  ['4', 'htm as an array', b => b.proof({ claims: { htm: ['GET'] } }), 'proof_claim_invalid'],
  ['4', 'no htm', b => b.proof({ claims: { htm: undefined } }), 'proof_claim_invalid'],
  ['4', 'htu as an array', b => b.proof({ claims: { htu: [b.target] } }), 'proof_claim_invalid'],
  ['4', 'no htu', b => b.proof({ claims: { htu: undefined } }), 'proof_claim_invalid'],
  ['4', 'ath as a number', b => b.proof({ claims: { ath: 1 } }), 'proof_claim_invalid'],
  ['4', 'no ath', b => b.proof({ claims: { ath: undefined } }), 'proof_claim_invalid'],
  ['4', 'iat as text', b => b.proof({ claims: { iat: String(now()) } }), 'proof_claim_invalid'],
  ['4', 'no iat', b => b.proof({ claims: { iat: undefined } }), 'proof_claim_invalid'],
  ['4', 'iat that is null, as NaN is written', b => b.proof({ claims: { iat: NaN } }), 'proof_claim_invalid'],
  ['4', 'iat beyond all numbers', b => raw(b, `{"jti":"big","htm":"GET","htu":"${b.target}","ath":"${hashOf(b.token)}","iat":1e400}`), 'proof_claim_invalid'],
  ['4', 'iat with a fraction', b => b.proof({ claims: { iat: now() - 0.5 } }), 'accepted'],
  ['4', 'exp in the future', b => b.proof({ claims: { exp: now() + 60 } }), 'accepted'],
  ['4', 'exp in the past, within the leeway', b => b.proof({ claims: { exp: now() - 20 } }), 'accepted'],
  ['4', 'exp in the past, beyond the leeway', b => b.proof({ claims: { exp: now() - 31 } }), 'proof_expired'],
  ['4', 'exp as text', b => b.proof({ claims: { exp: 'soon' } }), 'proof_claim_invalid'],
  ['4', 'nbf in the future, within the leeway', b => b.proof({ claims: { nbf: now() + 20 } }), 'accepted'],
  ['4', 'nbf in the future, beyond the leeway', b => b.proof({ claims: { nbf: now() + 60 } }), 'proof_not_yet_valid'],
  ['4', 'nbf as text', b => b.proof({ claims: { nbf: 'now' } }), 'proof_claim_invalid'],
  ['4', 'a nonce while nonces are off', b => b.proof({ claims: { nonce: 'whatever' } }), 'accepted'],
  ['4', 'a nonce of another type while nonces are off', b => b.proof({ claims: { nonce: {} } }), 'accepted'],

  ['5', 'htm of another method', b => b.proof({ method: 'POST' }), 'htm_mismatch'],
  ['5', 'htm in lower case', b => b.proof({ method: 'get' }), 'htm_mismatch'],

  ['6', 'htu with a query and a fragment', b => b.proof({ url: `${b.target}?a=b#c` }), 'accepted'],
  ['6', 'htu with the host in upper case letters and an escaped letter', b => b.proof({ url: b.target.replace('http://', 'HTTP://').replace('private', '%70rivate') }), 'accepted'],
  ['6', 'htu of another path', b => b.proof({ url: `${b.running.url}/api/public` }), 'htu_mismatch'],
  ['6', 'htu with a slash at its end', b => b.proof({ url: `${b.target}/` }), 'htu_mismatch'],
  ['6', 'htu with the path in upper case', b => b.proof({ url: `${b.running.url}/API/private` }), 'htu_mismatch'],
  ['6', 'htu of another host', b => b.proof({ url: 'https://other.example/api/private' }), 'htu_mismatch'],
  ['6', 'htu with another scheme', b => b.proof({ url: b.target.replace('http:', 'https:') }), 'htu_mismatch'],
  ['6', 'htu without a scheme', b => b.proof({ url: '/api/private' }), 'htu_invalid'],
  ['6', 'htu with user info', b => b.proof({ url: b.target.replace('//', '//user@') }), 'htu_invalid'],
  ['6', 'htu of another kind', b => b.proof({ url: 'javascript:alert(1)' }), 'htu_invalid'],
  ['6', 'an empty htu', b => b.proof({ url: '' }), 'htu_invalid'],

  ['7', 'iat just within the offset', b => b.proof({ claims: { iat: now() - 298 } }), 'accepted'],
  ['7', 'iat before the offset', b => b.proof({ claims: { iat: now() - 302 } }), 'iat_too_old'],
  ['7', 'iat just within the leeway', b => b.proof({ claims: { iat: now() + 28 } }), 'accepted'],
  ['7', 'iat after the leeway', b => b.proof({ claims: { iat: now() + 35 } }), 'iat_in_future'],
  ['7', 'iat of 1e308', b => b.proof({ claims: { iat: 1e308 } }), 'iat_in_future'],
  ['7', 'iat in milliseconds', b => b.proof({ claims: { iat: Date.now() } }), 'iat_in_future'],
  ['7', 'iat below zero', b => b.proof({ claims: { iat: -1 } }), 'iat_too_old'],

  ['8', 'ath of another token', b => b.proof({ claims: { ath: hashOf('other') } }), 'ath_mismatch'],
  ['8', 'ath with padding', b => b.proof({ claims: { ath: `${hashOf(b.token)}=` } }), 'ath_mismatch'],

  ['10', 'another payload under the same signature', b => swapPayload(b), 'proof_signature'],
  ['10', 'a signature of the right length that is none', b => b.proof().replace(/[^.]+$/, 'A'.repeat(86)), 'proof_signature'],
  ['10', 'a signature of another length', b => b.proof().replace(/[^.]+$/, 'A'.repeat(84)), 'proof_signature']
]

const head = (b: Bench) => ({ typ: 'dpop+jwt', alg: b.client.alg, jwk: b.client.jwk })
const raw = (b: Bench, payload: string): string => encodeJws(head(b), payload, b.client.sign)

function swapPayload (b: Bench): string {
  const [header, , signature] = b.proof().split('.')
  return `${header}.${b.proof().split('.')[1]}.${signature}`
}

/** A proof of exactly that many characters: padding in the payload, and in the header for what base64 leaves over. */
function fill (b: Bench, length: number): string {
  const claims = { jti: randomUUID(), htm: 'GET', htu: b.target, iat: now(), ath: hashOf(b.token) }
  const build = (inHeader: number, inPayload: number): string =>
    encodeJws({ ...head(b), pad: 'x'.repeat(inHeader) }, { ...claims, pad: 'x'.repeat(inPayload) }, b.client.sign)
  for (let inHeader = 0; inHeader < 4; inHeader++) {
    const room = Math.floor((length - build(inHeader, 0).length) * 3 / 4)
    for (let inPayload = room - 3; inPayload <= room + 3; inPayload++) {
      const proof = build(inHeader, inPayload)
      if (proof.length === length) return proof
    }
  }
  throw new Error(`no proof has ${length} characters`)
}

t.test('Which proofs pass, by the rows of the table of checks', async t => {
  const bench = await prepare(t)
  for (const [check, title, proof, expected] of ROWS) {
    const outcome = await bench.send(proof(bench))
    if (expected === 'accepted') t.same([outcome.status, outcome.reason, outcome.headers['www-authenticate']], [200, undefined, undefined], `${check}: ${title}`)
    else expectRefusal(t, outcome, expected, 'DPoP', `${check}: ${title}`)
  }
  t.equal((await bench.send(bench.proof({ method: 'HEAD' }), 'HEAD')).status, 200, '5: HEAD with its own proof')
})

t.test('9: the proof is by the key that the token is bound to', async t => {
  const bench = await prepare(t)
  const other = await createDpopClient()
  expectRefusal(t, await bench.send(other.proof({ token: bench.token, url: bench.target })), 'jkt_mismatch', 'DPoP')
  const token = bench.issuer.token({ cnf: { jkt: other.jkt } })
  const twin = await call(bench.running, { lines: dpopLines(token, other.proof({ token, url: bench.target })) })
  t.equal(twin.status, 200, 'the same key with a token of its own')
})

t.test('10: every algorithm that may be configured, and none that is not', async t => {
  for (const alg of [...JWS_ALGS, 'Ed448']) {
    const bench = await prepare(t, {}, alg)
    t.equal((await bench.send(bench.proof())).status, 200, alg)
  }
  const bench = await prepare(t, { DPOP_ALGS: ['ES384', 'EdDSA'] })
  const outcome = await bench.send(bench.proof())
  expectRefusal(t, outcome, 'proof_algorithm', 'DPoP', 'ES256 where it is not configured')
  t.equal(outcome.challenges.find(({ scheme }) => scheme === 'DPoP')!.parameters.algs, 'ES384 EdDSA')
})

t.test('10: a point off its curve is refused like any other bad key', async t => {
  const bench = await prepare(t)
  const off = { ...bench.client.jwk, y: `${bench.client.jwk.y!.startsWith('A') ? 'B' : 'A'}${bench.client.jwk.y!.slice(1)}` }
  const { calculateJwkThumbprint } = await import('jose')
  const token = bench.issuer.token({ cnf: { jkt: await calculateJwkThumbprint(off) } })
  const outcome = await call(bench.running, { lines: dpopLines(token, bench.client.proof({ token, url: bench.target, header: { jwk: off } })) })
  expectRefusal(t, outcome, 'proof_key', 'DPoP')
})

t.test('12: a proof passes once', async t => {
  const bench = await prepare(t)
  const proof = bench.proof()
  t.equal((await bench.send(proof)).status, 200)
  expectRefusal(t, await bench.send(proof), 'proof_replayed', 'DPoP')
  const jti = randomUUID()
  t.equal((await bench.send(bench.proof({ claims: { jti } }))).status, 200)
  expectRefusal(t, await bench.send(bench.proof({ claims: { jti, iat: now() - 1 } })), 'proof_replayed', 'DPoP', 'the same jti in another proof')
  t.equal((await bench.send(bench.proof({ claims: { jti: `${jti}2` } }))).status, 200, 'another jti')

  const other = await createDpopClient()
  const token = bench.issuer.token({ cnf: { jkt: other.jkt } })
  t.equal((await call(bench.running, { lines: dpopLines(token, other.proof({ token, url: bench.target, claims: { jti } })) })).status, 200, 'the same jti of another key')

  const kept = randomUUID()
  expectRefusal(t, await bench.send(bench.proof({ claims: { jti: kept, htu: 'https://other.example/' } })), 'htu_mismatch', 'DPoP')
  expectRefusal(t, await bench.send(bench.proof({ claims: { jti: kept } }).replace(/[^.]+$/, 'A'.repeat(86))), 'proof_signature', 'DPoP')
  t.equal((await bench.send(bench.proof({ claims: { jti: kept } }))).status, 200, 'a proof refused for another reason did not use up its jti')
})

t.test('12: of 1,000 copies of a proof at once, one passes', async t => {
  const { token, proof, target } = await prepare(t, { LOG_LEVEL: 'silent' })
  const headers = { authorization: `DPoP ${token}`, dpop: proof() }
  const statuses = await Promise.all(Array.from({ length: 1000 }, async () => {
    const response = await fetch(target, { headers })
    await response.arrayBuffer()
    return response.status
  }))
  t.equal(statuses.filter(status => status === 200).length, 1)
  t.equal(statuses.filter(status => status === 401).length, 999)
})

t.test('12: a full store refuses, and never forgets a proof that still counts', async t => {
  const bench = await prepare(t, { DPOP_REPLAY_MAX: 2, IDP_DPOP_IAT_OFFSET_SECONDS: 2, IDP_DPOP_IAT_LEEWAY_SECONDS: 0 })
  const first = bench.proof({ claims: { iat: now() } })
  t.equal((await bench.send(first)).status, 200)
  t.equal((await sendAsAnother(bench)).status, 200)
  const refused = await sendAsAnother(bench)
  expectRefusal(t, refused, 'replay_full')
  t.match(refused.headers, { 'retry-after': /^\d+$/, 'www-authenticate': undefined })
  t.notOk((await bench.send(first)).status === 200, 'the first proof is still known')
  t.equal((await call(bench.running, { lines: bearerLines(bench.issuer.token()) })).status, 200, 'Bearer is untouched')
  const deadline = Date.now() + 20_000
  while ((await sendAsAnother(bench)).status === 503 && Date.now() < deadline) await new Promise(resolve => setTimeout(resolve, 250))
  t.equal((await sendAsAnother(bench)).status, 200, 'room again once the proofs are too old to pass')
})

t.test('12: a client that would fill the store has a quarter of it, and others have theirs', async t => {
  const bench = await prepare(t, { DPOP_REPLAY_MAX: 8 })
  const first = bench.proof()
  t.same([(await bench.send(first)).status, (await bench.send(bench.proof())).status], [200, 200])
  const refused = await bench.send(bench.proof())
  t.equal(refused.status, 429)
  expectRefusal(t, refused, 'replay_share_exceeded')
  t.match(refused.headers, { 'retry-after': /^\d+$/, 'www-authenticate': undefined })
  expectRefusal(t, await bench.send(first), 'proof_replayed', 'DPoP')
  t.equal((await call(bench.running, { lines: bearerLines(bench.issuer.token()) })).status, 200, 'Bearer is untouched')
  t.equal((await sendAsAnother(bench)).status, 200)
})

t.test('12: with the replay store off a proof passes again', async t => {
  const bench = await prepare(t, { DPOP_REPLAY: 'off' })
  const proof = bench.proof()
  t.same([(await bench.send(proof)).status, (await bench.send(proof)).status], [200, 200])
})

t.test('11: nonces', async t => {
  const secret = Buffer.alloc(32, 7).toString('base64url')
  const bench = await prepare(t, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: [secret] })
  const expectNonce = (outcome: Outcome, reason: RefusalReason, title: string): string => {
    expectRefusal(t, outcome, reason, 'DPoP', title)
    t.same(outcome.challenges.map(({ scheme, parameters }) => [scheme, Object.keys(parameters)]), [['DPoP', ['error', 'error_description', 'algs']]], 'one challenge')
    t.match(outcome.headers['dpop-nonce'], /^[A-Za-z0-9_-]{22}$/)
    return outcome.headers['dpop-nonce']!
  }
  const nonce = expectNonce(await bench.send(bench.proof()), 'nonce_missing', 'no nonce')
  expectNonce(await bench.send(bench.proof({ claims: { nonce: 'made up' } })), 'nonce_stale', 'a nonce that is not ours')
  expectNonce(await bench.send(bench.proof({ claims: { nonce: 7 } })), 'nonce_missing', 'a nonce that is no text')
  expectNonce(await bench.send(bench.proof({ claims: { iat: now() - 7200 } })), 'nonce_missing', 'no nonce and a clock two hours off')
  const accepted = await bench.send(bench.proof({ claims: { nonce } }))
  t.same([accepted.status, accepted.headers['dpop-nonce'], accepted.headers['www-authenticate']], [200, undefined, undefined], 'with the newest nonce')
  t.equal((await bench.send(bench.proof({ claims: { nonce, iat: now() - 7200 } }))).status, 200, 'the nonce and a clock two hours behind')
  t.equal((await bench.send(bench.proof({ claims: { nonce, iat: now() + 7200 } }))).status, 200, 'the nonce and a clock two hours ahead')
  const proof = bench.proof({ claims: { nonce } })
  t.equal((await bench.send(proof)).status, 200)
  expectRefusal(t, await bench.send(proof), 'proof_replayed', 'DPoP', 'a proof with a nonce passes once as well')
  expectRefusal(t, await bench.send(bench.proof({ claims: { nonce, exp: now() - 60 } })), 'proof_expired', 'DPoP', 'exp is honoured all the same')
  t.equal((await call(bench.running, { lines: bearerLines(bench.issuer.token()) })).status, 200, 'Bearer needs no nonce')

  const { createNonces } = await import('../../lib/dpop/nonces.ts')
  const older = createNonces([Buffer.alloc(32, 7)]).current(now() - 120)
  const renewed = await bench.send(bench.proof({ claims: { nonce: older } }))
  t.equal(renewed.status, 200, 'a nonce of two minutes ago')
  t.match(renewed.headers['dpop-nonce'], /^[A-Za-z0-9_-]{22}$/, 'and its answer brings the newest')
  expectNonce(await bench.send(bench.proof({ claims: { nonce: createNonces([Buffer.alloc(32, 7)]).current(now() - 400) } })), 'nonce_stale', 'a nonce of more than five minutes ago')
})

t.test('Without a secret for nonces one is made, and the log says so', async t => {
  const bench = await prepare(t, { DPOP_NONCE: 'required' })
  t.match(bench.running.log.find(line => line.event === 'nonce_secret_random'), { level: 40 })
  const nonce = (await bench.send(bench.proof())).headers['dpop-nonce']
  t.equal((await bench.send(bench.proof({ claims: { nonce } }))).status, 200)
})

t.test('The log of a wrong htu shows both URLs', async t => {
  const bench = await prepare(t)
  await bench.send(bench.proof({ url: 'https://other.example/x' }))
  t.match(bench.running.log.find(line => line.reason === 'htu_mismatch'), { htu: 'https://other.example/x', url: bench.target })
})

t.test('A request whose URL cannot be told is refused for a DPoP token, and served for any other', async t => {
  const bench = await prepare(t)
  const dotted = await call(bench.running, { path: '/api/users/../private', lines: dpopLines(bench.token, bench.proof()) })
  expectRefusal(t, dotted, 'target_path', 'DPoP')
  t.equal((await call(bench.running, { lines: ['Host: other.example', ...bearerLines(bench.issuer.token())] })).status, 200)
  expectRefusal(t, await call(bench.running, { lines: ['Host: other.example', ...dpopLines(bench.token, bench.proof())] }), 'host_repeated', 'DPoP')
})
