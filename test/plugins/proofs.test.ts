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

type ProofRow = { check: string, title: string, proof: (bench: Bench) => string, expected: RefusalReason | 'accepted' }

const ROWS: ProofRow[] = [
  { check: '2', title: 'a proof with all that is required', proof: b => b.proof(), expected: 'accepted' },
  { check: '2', title: 'a proof of 8 KiB', proof: b => fill(b, 8192), expected: 'accepted' },
  { check: '2', title: 'a proof of more than 8 KiB', proof: b => fill(b, 8193), expected: 'proof_too_large' },
  // Nothing walks through what a proof holds, so it may be nested as deeply as 8 KiB allow.
  { check: '2', title: 'claims nested 2,500 deep', proof: b => b.proof({ claims: { other: nested(2500) } }), expected: 'accepted' },
  { check: '2', title: 'a header nested 2,500 deep', proof: b => b.proof({ header: { other: nested(2500) } }), expected: 'accepted' },
  { check: '3', title: 'a jwk with a member nested 2,500 deep', proof: b => b.proof({ header: { jwk: { ...b.client.jwk, other: nested(2500) } } }), expected: 'accepted' },
  { check: '3', title: 'a jwk nested 2,500 deep', proof: b => b.proof({ header: { jwk: nested(2500) } }), expected: 'proof_key' },
  { check: '3', title: 'a coordinate nested 2,500 deep', proof: b => b.proof({ header: { jwk: { ...b.client.jwk, x: nested(2500) } } }), expected: 'proof_key' },
  { check: '4', title: 'a jti nested 2,500 deep', proof: b => b.proof({ claims: { jti: nested(2500) } }), expected: 'proof_claim_invalid' },
  { check: '2', title: 'two segments', proof: b => b.proof().split('.').slice(0, 2).join('.'), expected: 'proof_malformed' },
  { check: '2', title: 'four segments', proof: b => `${b.proof()}.AAAA`, expected: 'proof_malformed' },
  { check: '2', title: 'five segments, as a JWE', proof: b => `${b.proof()}.AAAA.AAAA`, expected: 'proof_malformed' },
  { check: '2', title: 'an empty signature', proof: b => b.proof().replace(/[^.]+$/, ''), expected: 'proof_malformed' },
  { check: '2', title: 'an empty payload', proof: b => b.proof().replace(/\.[^.]+\./, '..'), expected: 'proof_malformed' },
  { check: '2', title: 'padding', proof: b => `${b.proof()}==`, expected: 'proof_malformed' },
  { check: '2', title: 'bits beyond the last byte of the signature', proof: b => b.proof().replace(/.$/, last => last === 'B' ? 'C' : 'B'), expected: 'proof_malformed' },
  { check: '2', title: 'text that is no JWT', proof: () => 'proof', expected: 'proof_malformed' },
  { check: '2', title: 'a header that is an array', proof: b => encodeJws('[]', '{}', b.client.sign), expected: 'proof_malformed' },
  { check: '2', title: 'a payload that is an array', proof: b => encodeJws(head(b), '[]', b.client.sign), expected: 'proof_malformed' },
  { check: '2', title: 'a payload that is no JSON', proof: b => encodeJws(head(b), '{', b.client.sign), expected: 'proof_malformed' },

  { check: '3', title: 'typ in upper case', proof: b => b.proof({ header: { typ: 'DPOP+JWT' } }), expected: 'accepted' },
  { check: '3', title: 'typ with application/', proof: b => b.proof({ header: { typ: 'application/dpop+jwt' } }), expected: 'accepted' },
  { check: '3', title: 'no typ', proof: b => b.proof({ header: { typ: undefined } }), expected: 'proof_type' },
  { check: '3', title: 'typ JWT', proof: b => b.proof({ header: { typ: 'JWT' } }), expected: 'proof_type' },
  { check: '3', title: 'alg none', proof: b => b.proof({ header: { alg: 'none' } }), expected: 'proof_algorithm' },
  { check: '3', title: 'alg HS256', proof: b => b.proof({ header: { alg: 'HS256' } }), expected: 'proof_algorithm' },
  { check: '3', title: 'alg ES256K', proof: b => b.proof({ header: { alg: 'ES256K' } }), expected: 'proof_algorithm' },
  { check: '3', title: 'alg in an array', proof: b => b.proof({ header: { alg: ['ES256'] } }), expected: 'proof_algorithm' },
  { check: '3', title: 'alg with a name of every object', proof: b => b.proof({ header: { alg: 'constructor' } }), expected: 'proof_algorithm' },
  { check: '3', title: 'an alg of another type of key', proof: b => b.proof({ header: { alg: 'RS256' } }), expected: 'proof_key' },
  { check: '3', title: 'crit', proof: b => b.proof({ header: { crit: ['exp'] } }), expected: 'proof_critical' },
  { check: '3', title: 'crit with quotes, line breaks and emoji', proof: b => b.proof({ header: { crit: ['"\r\nX: y 🗝'] } }), expected: 'proof_critical' },
  { check: '3', title: 'an unencoded payload', proof: b => b.proof({ header: { b64: false } }), expected: 'proof_critical' },
  { check: '3', title: 'no jwk', proof: b => b.proof({ header: { jwk: undefined } }), expected: 'proof_key' },
  { check: '3', title: 'jwk as text', proof: b => b.proof({ header: { jwk: JSON.stringify(b.client.jwk) } }), expected: 'proof_key' },
  { check: '3', title: 'jwk as an array', proof: b => b.proof({ header: { jwk: [b.client.jwk] } }), expected: 'proof_key' },
  { check: '3', title: 'a private jwk', proof: b => b.proof({ header: { jwk: { ...b.client.jwk, d: b.client.jwk.x } } }), expected: 'proof_key' },
  { check: '3', title: 'a symmetric jwk', proof: b => b.proof({ header: { jwk: { kty: 'oct', k: 'AAAA' } } }), expected: 'proof_key' },
  { check: '3', title: 'an RSA key of 16384 bits', proof: b => b.proof({ header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: 'x'.repeat(2731) } } }), expected: 'proof_key' },
  { check: '3', title: 'other headers are not looked at', proof: b => b.proof({ header: { kid: 'a', cty: 'b', jku: 'http://127.0.0.1:1/' } }), expected: 'accepted' },

  { check: '4', title: 'jti of one character', proof: b => b.proof({ claims: { jti: randomUUID()[0] } }), expected: 'accepted' },
  { check: '4', title: 'jti of 512 characters', proof: b => b.proof({ claims: { jti: 'a'.repeat(512) } }), expected: 'accepted' },
  { check: '4', title: 'jti of 513 characters', proof: b => b.proof({ claims: { jti: 'a'.repeat(513) } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'an empty jti', proof: b => b.proof({ claims: { jti: '' } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'no jti', proof: b => b.proof({ claims: { jti: undefined } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'jti as a number', proof: b => b.proof({ claims: { jti: 1 } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'jti with line breaks and emoji', proof: b => b.proof({ claims: { jti: '\r\n🗝' } }), expected: 'accepted' },
  { check: '4', title: 'htm as an array', proof: b => b.proof({ claims: { htm: ['GET'] } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'no htm', proof: b => b.proof({ claims: { htm: undefined } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'htu as an array', proof: b => b.proof({ claims: { htu: [b.target] } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'no htu', proof: b => b.proof({ claims: { htu: undefined } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'ath as a number', proof: b => b.proof({ claims: { ath: 1 } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'no ath', proof: b => b.proof({ claims: { ath: undefined } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'iat as text', proof: b => b.proof({ claims: { iat: String(now()) } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'no iat', proof: b => b.proof({ claims: { iat: undefined } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'iat that is null, as NaN is written', proof: b => b.proof({ claims: { iat: NaN } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'iat beyond all numbers', proof: b => raw(b, `{"jti":"big","htm":"GET","htu":"${b.target}","ath":"${hashOf(b.token)}","iat":1e400}`), expected: 'proof_claim_invalid' },
  { check: '4', title: 'iat with a fraction', proof: b => b.proof({ claims: { iat: now() - 0.5 } }), expected: 'accepted' },
  { check: '4', title: 'exp in the future', proof: b => b.proof({ claims: { exp: now() + 60 } }), expected: 'accepted' },
  { check: '4', title: 'exp in the past, within the leeway', proof: b => b.proof({ claims: { exp: now() - 20 } }), expected: 'accepted' },
  { check: '4', title: 'exp in the past, beyond the leeway', proof: b => b.proof({ claims: { exp: now() - 31 } }), expected: 'proof_expired' },
  { check: '4', title: 'exp as text', proof: b => b.proof({ claims: { exp: 'soon' } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'nbf in the future, within the leeway', proof: b => b.proof({ claims: { nbf: now() + 20 } }), expected: 'accepted' },
  { check: '4', title: 'nbf in the future, beyond the leeway', proof: b => b.proof({ claims: { nbf: now() + 60 } }), expected: 'proof_not_yet_valid' },
  { check: '4', title: 'nbf as text', proof: b => b.proof({ claims: { nbf: 'now' } }), expected: 'proof_claim_invalid' },
  { check: '4', title: 'a nonce while nonces are off', proof: b => b.proof({ claims: { nonce: 'whatever' } }), expected: 'accepted' },
  { check: '4', title: 'a nonce of another type while nonces are off', proof: b => b.proof({ claims: { nonce: {} } }), expected: 'accepted' },

  { check: '5', title: 'htm of another method', proof: b => b.proof({ method: 'POST' }), expected: 'htm_mismatch' },
  { check: '5', title: 'htm in lower case', proof: b => b.proof({ method: 'get' }), expected: 'htm_mismatch' },

  { check: '6', title: 'htu with a query and a fragment', proof: b => b.proof({ url: `${b.target}?a=b#c` }), expected: 'accepted' },
  { check: '6', title: 'htu with the host in upper case letters and an escaped letter', proof: b => b.proof({ url: b.target.replace('http://', 'HTTP://').replace('private', '%70rivate') }), expected: 'accepted' },
  { check: '6', title: 'htu of another path', proof: b => b.proof({ url: `${b.running.url}/api/public` }), expected: 'htu_mismatch' },
  { check: '6', title: 'htu with a slash at its end', proof: b => b.proof({ url: `${b.target}/` }), expected: 'htu_mismatch' },
  { check: '6', title: 'htu with the path in upper case', proof: b => b.proof({ url: `${b.running.url}/API/private` }), expected: 'htu_mismatch' },
  { check: '6', title: 'htu of another host', proof: b => b.proof({ url: 'https://other.example/api/private' }), expected: 'htu_mismatch' },
  { check: '6', title: 'htu with another scheme', proof: b => b.proof({ url: b.target.replace('http:', 'https:') }), expected: 'htu_mismatch' },
  { check: '6', title: 'htu without a scheme', proof: b => b.proof({ url: '/api/private' }), expected: 'htu_invalid' },
  { check: '6', title: 'htu with user info', proof: b => b.proof({ url: b.target.replace('//', '//user@') }), expected: 'htu_invalid' },
  { check: '6', title: 'htu of another kind', proof: b => b.proof({ url: 'javascript:alert(1)' }), expected: 'htu_invalid' },
  { check: '6', title: 'an empty htu', proof: b => b.proof({ url: '' }), expected: 'htu_invalid' },

  { check: '7', title: 'iat just within the offset', proof: b => b.proof({ claims: { iat: now() - 298 } }), expected: 'accepted' },
  { check: '7', title: 'iat before the offset', proof: b => b.proof({ claims: { iat: now() - 302 } }), expected: 'iat_too_old' },
  { check: '7', title: 'iat just within the leeway', proof: b => b.proof({ claims: { iat: now() + 28 } }), expected: 'accepted' },
  { check: '7', title: 'iat after the leeway', proof: b => b.proof({ claims: { iat: now() + 35 } }), expected: 'iat_in_future' },
  { check: '7', title: 'iat of 1e308', proof: b => b.proof({ claims: { iat: 1e308 } }), expected: 'iat_in_future' },
  { check: '7', title: 'iat in milliseconds', proof: b => b.proof({ claims: { iat: Date.now() } }), expected: 'iat_in_future' },
  { check: '7', title: 'iat below zero', proof: b => b.proof({ claims: { iat: -1 } }), expected: 'iat_too_old' },

  { check: '8', title: 'ath of another token', proof: b => b.proof({ claims: { ath: hashOf('other') } }), expected: 'ath_mismatch' },
  { check: '8', title: 'ath with padding', proof: b => b.proof({ claims: { ath: `${hashOf(b.token)}=` } }), expected: 'ath_mismatch' },

  { check: '10', title: 'another payload under the same signature', proof: b => swapPayload(b), expected: 'proof_signature' },
  { check: '10', title: 'a signature of the right length that is none', proof: b => b.proof().replace(/[^.]+$/, 'A'.repeat(86)), expected: 'proof_signature' },
  { check: '10', title: 'a signature of another length', proof: b => b.proof().replace(/[^.]+$/, 'A'.repeat(84)), expected: 'proof_signature' }
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
  for (const { check, title, proof, expected } of ROWS) {
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
  const bench = await prepare(t, { DPOP_REPLAY_MAX: 2, IDP_DPOP_IAT_OFFSET_SECONDS: 5, IDP_DPOP_IAT_LEEWAY_SECONDS: 0 })
  const first = bench.proof({ claims: { iat: now() } })
  t.equal((await bench.send(first)).status, 200)
  t.equal((await sendAsAnother(bench)).status, 200)
  const refused = await sendAsAnother(bench)
  expectRefusal(t, refused, 'replay_full')
  t.match(refused.headers, { 'retry-after': /^\d+$/, 'www-authenticate': undefined })
  t.notOk((await bench.send(first)).status === 200, 'the first proof is still known')
  t.equal((await call(bench.running, { lines: bearerLines(bench.issuer.token()) })).status, 200, 'Bearer is untouched')
  const deadline = Date.now() + 60_000
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

t.test('11: with DPOP_NONCE_IAT=checked the age counts beside a nonce', async t => {
  const bench = await prepare(t, { DPOP_NONCE: 'required', DPOP_NONCE_IAT: 'checked', IDP_DPOP_IAT_OFFSET_SECONDS: 60 })
  const wrongClock = await bench.send(bench.proof({ claims: { iat: now() - 7200 } }))
  expectRefusal(t, wrongClock, 'nonce_missing', 'DPoP', 'a client whose clock is wrong first gets a nonce')
  const nonce = wrongClock.headers['dpop-nonce']
  t.equal((await bench.send(bench.proof({ claims: { nonce } }))).status, 200)
  t.equal((await bench.send(bench.proof({ claims: { nonce, iat: now() - 50 } }))).status, 200)
  expectRefusal(t, await bench.send(bench.proof({ claims: { nonce, iat: now() - 70 } })), 'iat_too_old', 'DPoP')
  expectRefusal(t, await bench.send(bench.proof({ claims: { nonce, iat: now() + 7200 } })), 'iat_in_future', 'DPoP')
  expectRefusal(t, await bench.send(bench.proof({ claims: { nonce: 'made up', iat: now() - 70 } })), 'nonce_stale', 'DPoP')
  const proof = bench.proof({ claims: { nonce } })
  t.equal((await bench.send(proof)).status, 200)
  expectRefusal(t, await bench.send(proof), 'proof_replayed', 'DPoP')
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
