import { randomUUID } from 'node:crypto'
import type { RefusalReason } from '../../lib/refusal.ts'
import { hashOf, type DpopClient, type ProofParts } from './dpop-client.ts'
import type { Overrides } from './issuer.ts'
import { encodeJws } from './jws.ts'
import { oddNumber } from './rsa-jwk.ts'

/** What a row needs to make its proof. */
export interface ProofBench {
  readonly client: DpopClient
  readonly token: string
  /** The service, as its client knows it. */
  readonly running: { readonly url: string }
  /** The URL of the request: `/api/private` of the service. */
  readonly target: string
  /** A fresh proof that passes, but for the overrides. */
  proof (overrides?: Partial<ProofParts>): string
}

const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))

export const now = (): number => Math.floor(Date.now() / 1000)

interface ProofRow {
  readonly check: string
  readonly title: string
  readonly proof?: (bench: ProofBench) => string
  /** In place of `proof`: what a good proof has instead, in its header, in its claims or in its key. */
  readonly header?: Overrides
  readonly claims?: Overrides
  readonly jwk?: object
  readonly expected: RefusalReason | 'accepted'
}

export function proofOf ({ proof, header, claims, jwk }: ProofRow, bench: ProofBench): string {
  if (proof) return proof(bench)
  return bench.proof({ claims, header: jwk ? { jwk: { ...bench.client.jwk, ...jwk } } : header })
}

/** Which proofs pass, by the checks of the contract. Each proof is for one request. */
export const PROOF_ROWS: readonly ProofRow[] = [
  { check: '2', title: 'a proof with all that is required', proof: b => b.proof(), expected: 'accepted' },
  { check: '2', title: 'a proof of 8 KiB', proof: b => fill(b, 8192), expected: 'accepted' },
  { check: '2', title: 'a proof of more than 8 KiB', proof: b => fill(b, 8193), expected: 'proof_too_large' },
  // Nothing walks through what a proof holds, so it may be nested as deeply as 8 KiB allow.
  {
    check: '2',
    title: 'claims nested 2,500 deep',
    claims: { other: nested(2500) },
    expected: 'accepted'
  },
  {
    check: '2',
    title: 'a header nested 2,500 deep',
    header: { other: nested(2500) },
    expected: 'accepted'
  },
  {
    check: '3',
    title: 'a jwk with a member nested 2,500 deep',
    jwk: { other: nested(2500) },
    expected: 'accepted'
  },
  {
    check: '3',
    title: 'a jwk nested 2,500 deep',
    header: { jwk: nested(2500) },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a coordinate nested 2,500 deep',
    jwk: { x: nested(2500) },
    expected: 'proof_key'
  },
  {
    check: '4',
    title: 'a jti nested 2,500 deep',
    claims: { jti: nested(2500) },
    expected: 'proof_claim_invalid'
  },
  {
    check: '2',
    title: 'two segments',
    proof: b => b.proof().split('.').slice(0, 2).join('.'),
    expected: 'proof_malformed'
  },
  { check: '2', title: 'four segments', proof: b => `${b.proof()}.AAAA`, expected: 'proof_malformed' },
  { check: '2', title: 'five segments, as a JWE', proof: b => `${b.proof()}.AAAA.AAAA`, expected: 'proof_malformed' },
  { check: '2', title: 'an empty signature', proof: b => b.proof().replace(/[^.]+$/, ''), expected: 'proof_malformed' },
  {
    check: '2',
    title: 'an empty payload',
    proof: b => b.proof().replace(/\.[^.]+\./, '..'),
    expected: 'proof_malformed'
  },
  { check: '2', title: 'padding', proof: b => `${b.proof()}==`, expected: 'proof_malformed' },
  {
    check: '2',
    title: 'bits beyond the last byte of the signature',
    proof: b => b.proof().replace(/.$/, last => last === 'B' ? 'C' : 'B'),
    expected: 'proof_malformed'
  },
  { check: '2', title: 'text that is no JWT', proof: () => 'proof', expected: 'proof_malformed' },
  {
    check: '2',
    title: 'a header that is an array',
    proof: b => encodeJws('[]', '{}', b.client.sign),
    expected: 'proof_malformed'
  },
  {
    check: '2',
    title: 'a payload that is an array',
    proof: b => encodeJws(head(b), '[]', b.client.sign),
    expected: 'proof_malformed'
  },
  {
    check: '2',
    title: 'a payload that is no JSON',
    proof: b => encodeJws(head(b), '{', b.client.sign),
    expected: 'proof_malformed'
  },

  {
    check: '2',
    title: 'claims with a letter of UTF-8',
    proof: b => raw(b, claimsWith(b, '\u00e9')),
    expected: 'accepted'
  },
  {
    check: '2',
    title: 'claims that are not UTF-8',
    proof: b => raw(b, Buffer.from(claimsWith(b, '\u00e9'), 'latin1')),
    expected: 'proof_malformed'
  },
  {
    check: '2',
    title: 'a header that is not UTF-8',
    proof: b =>
      encodeJws(Buffer.from(JSON.stringify({ ...head(b), kid: '\u00e9' }), 'latin1'), claimsWith(b, ''), b.client.sign),
    expected: 'proof_malformed'
  },

  {
    check: '3',
    title: 'typ in upper case',
    header: { typ: 'DPOP+JWT' },
    expected: 'accepted'
  },
  {
    check: '3',
    title: 'typ with application/',
    header: { typ: 'application/dpop+jwt' },
    expected: 'accepted'
  },
  { check: '3', title: 'no typ', header: { typ: undefined }, expected: 'proof_type' },
  { check: '3', title: 'typ JWT', header: { typ: 'JWT' }, expected: 'proof_type' },
  { check: '3', title: 'alg none', header: { alg: 'none' }, expected: 'proof_algorithm' },
  { check: '3', title: 'alg HS256', header: { alg: 'HS256' }, expected: 'proof_algorithm' },
  { check: '3', title: 'alg ES256K', header: { alg: 'ES256K' }, expected: 'proof_algorithm' },
  {
    check: '3',
    title: 'alg in an array',
    header: { alg: ['ES256'] },
    expected: 'proof_algorithm'
  },
  {
    check: '3',
    title: 'alg with a name of every object',
    header: { alg: 'constructor' },
    expected: 'proof_algorithm'
  },
  {
    check: '3',
    title: 'an alg of another type of key',
    header: { alg: 'RS256' },
    expected: 'proof_key'
  },
  { check: '3', title: 'crit', header: { crit: ['exp'] }, expected: 'proof_critical' },
  {
    check: '3',
    title: 'crit with quotes, line breaks and emoji',
    header: { crit: ['"\r\nX: y 🗝'] },
    expected: 'proof_critical'
  },
  {
    check: '3',
    title: 'an unencoded payload',
    header: { b64: false },
    expected: 'proof_critical'
  },
  { check: '3', title: 'no jwk', header: { jwk: undefined }, expected: 'proof_key' },
  {
    check: '3',
    title: 'jwk as text',
    proof: b => b.proof({ header: { jwk: JSON.stringify(b.client.jwk) } }),
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'jwk as an array',
    proof: b => b.proof({ header: { jwk: [b.client.jwk] } }),
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a private jwk',
    proof: b => b.proof({ header: { jwk: { ...b.client.jwk, d: b.client.jwk.x } } }),
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a symmetric jwk',
    header: { jwk: { kty: 'oct', k: 'AAAA' } },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a jwk as WebCrypto exports it',
    proof: b =>
      b.proof({ header: { jwk: { ...b.client.jwk, ext: true, key_ops: ['verify'], use: 'sig', alg: b.client.alg } } }),
    expected: 'accepted'
  },
  {
    check: '3',
    title: 'a jwk for another algorithm',
    jwk: { alg: 'ES384' },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a jwk with an alg that is null',
    jwk: { alg: null },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a jwk for encryption',
    jwk: { use: 'enc' },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a jwk only for signing',
    jwk: { key_ops: ['sign'] },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a jwk with key_ops as text',
    jwk: { key_ops: 'verify' },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'an RSA key of 16384 bits',
    header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: 'x'.repeat(2731) } },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'an RSA key of 1024 bits',
    header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: oddNumber(1024) } },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a point that is not on its curve',
    proof: b => b.proof({ header: { jwk: { ...b.client.jwk, y: b.client.jwk.x } } }),
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'an RSA key of 2048 bits, which is not that of the token',
    header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: oddNumber(2048) } },
    expected: 'jkt_mismatch'
  },
  {
    check: '3',
    title: 'an RSA key of 8192 bits',
    header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: oddNumber(8192) } },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'an RSA key with an even exponent',
    header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAA', n: oddNumber(2048) } },
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'a coordinate without its first byte',
    proof: b =>
      b.proof({
        header: { jwk: { ...b.client.jwk, x: Buffer.from(b.client.jwk.x!, 'base64url').toString('base64url', 1) } }
      }),
    expected: 'proof_key'
  },
  {
    check: '3',
    title: 'other headers are not looked at',
    proof: b => b.proof({ header: { kid: 'a', cty: 'b', jku: 'http://127.0.0.1:1/' } }),
    expected: 'accepted'
  },
  {
    check: '3',
    title: 'a kid that is no text',
    header: { kid: 1 },
    expected: 'accepted'
  },

  {
    check: '4',
    title: 'jti of one character',
    claims: { jti: randomUUID()[0] },
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'jti of 512 characters',
    claims: { jti: 'a'.repeat(512) },
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'jti of 513 characters',
    claims: { jti: 'a'.repeat(513) },
    expected: 'proof_claim_invalid'
  },
  { check: '4', title: 'an empty jti', claims: { jti: '' }, expected: 'proof_claim_invalid' },
  { check: '4', title: 'no jti', claims: { jti: undefined }, expected: 'proof_claim_invalid' },
  {
    check: '4',
    title: 'jti as a number',
    claims: { jti: 1 },
    expected: 'proof_claim_invalid'
  },
  {
    check: '4',
    title: 'jti with line breaks and emoji',
    claims: { jti: '\r\n🗝' },
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'htm as an array',
    claims: { htm: ['GET'] },
    expected: 'proof_claim_invalid'
  },
  { check: '4', title: 'no htm', claims: { htm: undefined }, expected: 'proof_claim_invalid' },
  {
    check: '4',
    title: 'htu as an array',
    proof: b => b.proof({ claims: { htu: [b.target] } }),
    expected: 'proof_claim_invalid'
  },
  { check: '4', title: 'no htu', claims: { htu: undefined }, expected: 'proof_claim_invalid' },
  {
    check: '4',
    title: 'ath as a number',
    claims: { ath: 1 },
    expected: 'proof_claim_invalid'
  },
  { check: '4', title: 'no ath', claims: { ath: undefined }, expected: 'proof_claim_invalid' },
  {
    check: '4',
    title: 'iat as text',
    proof: b => b.proof({ claims: { iat: String(now()) } }),
    expected: 'proof_claim_invalid'
  },
  { check: '4', title: 'no iat', claims: { iat: undefined }, expected: 'proof_claim_invalid' },
  {
    check: '4',
    title: 'iat that is null, as NaN is written',
    claims: { iat: NaN },
    expected: 'proof_claim_invalid'
  },
  {
    check: '4',
    title: 'iat beyond all numbers',
    proof: b => raw(b, `{"jti":"big","htm":"GET","htu":"${b.target}","ath":"${hashOf(b.token)}","iat":1e400}`),
    expected: 'proof_claim_invalid'
  },
  {
    check: '4',
    title: 'iat with a fraction',
    proof: b => b.proof({ claims: { iat: now() - 0.5 } }),
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'exp in the future',
    proof: b => b.proof({ claims: { exp: now() + 60 } }),
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'exp in the past, within the leeway',
    proof: b => b.proof({ claims: { exp: now() - 20 } }),
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'exp in the past, beyond the leeway',
    proof: b => b.proof({ claims: { exp: now() - 31 } }),
    expected: 'proof_expired'
  },
  {
    check: '4',
    title: 'exp as text',
    claims: { exp: 'soon' },
    expected: 'proof_claim_invalid'
  },
  {
    check: '4',
    title: 'nbf in the future, within the leeway',
    proof: b => b.proof({ claims: { nbf: now() + 20 } }),
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'nbf in the future, beyond the leeway',
    proof: b => b.proof({ claims: { nbf: now() + 60 } }),
    expected: 'proof_not_yet_valid'
  },
  {
    check: '4',
    title: 'nbf as text',
    proof: b => b.proof({ claims: { nbf: 'now' } }),
    expected: 'proof_claim_invalid'
  },
  {
    check: '4',
    title: 'a nonce while nonces are off',
    claims: { nonce: 'whatever' },
    expected: 'accepted'
  },
  {
    check: '4',
    title: 'a nonce of another type while nonces are off',
    claims: { nonce: {} },
    expected: 'accepted'
  },

  { check: '5', title: 'htm of another method', proof: b => b.proof({ method: 'POST' }), expected: 'htm_mismatch' },
  ...['GETS', 'XGET', 'GE', 'ET'].map(htm =>
    ({ check: '5', title: `htm of ${htm}`, claims: { htm }, expected: 'htm_mismatch' }) as const
  ),
  { check: '5', title: 'htm in lower case', proof: b => b.proof({ method: 'get' }), expected: 'htm_mismatch' },

  {
    check: '6',
    title: 'htu with a query and a fragment',
    proof: b => b.proof({ url: `${b.target}?a=b#c` }),
    expected: 'accepted'
  },
  {
    check: '6',
    title: 'htu with the host in upper case letters and an escaped letter',
    proof: b => b.proof({ url: b.target.replace('http://', 'HTTP://').replace('private', '%70rivate') }),
    expected: 'accepted'
  },
  {
    check: '6',
    title: 'htu that ends before the path does',
    proof: b => b.proof({ url: b.target.slice(0, -1) }),
    expected: 'htu_mismatch'
  },
  {
    check: '6',
    title: 'htu of a folder of the path',
    proof: b => b.proof({ url: `${b.running.url}/api` }),
    expected: 'htu_mismatch'
  },
  {
    check: '6',
    title: 'htu of another path',
    proof: b => b.proof({ url: `${b.running.url}/api/public` }),
    expected: 'htu_mismatch'
  },
  {
    check: '6',
    title: 'htu with a slash at its end',
    proof: b => b.proof({ url: `${b.target}/` }),
    expected: 'htu_mismatch'
  },
  {
    check: '6',
    title: 'htu with the path in upper case',
    proof: b => b.proof({ url: `${b.running.url}/API/private` }),
    expected: 'htu_mismatch'
  },
  {
    check: '6',
    title: 'htu of another host',
    proof: b => b.proof({ url: 'https://other.example/api/private' }),
    expected: 'htu_mismatch'
  },
  {
    check: '6',
    title: 'htu with another scheme',
    proof: b => b.proof({ url: b.target.replace('http:', 'https:') }),
    expected: 'htu_mismatch'
  },
  { check: '6', title: 'htu without a scheme', proof: b => b.proof({ url: '/api/private' }), expected: 'htu_invalid' },
  {
    check: '6',
    title: 'htu with user info',
    proof: b => b.proof({ url: b.target.replace('//', '//user@') }),
    expected: 'htu_invalid'
  },
  {
    check: '6',
    title: 'htu of another kind',
    proof: b => b.proof({ url: 'javascript:alert(1)' }),
    expected: 'htu_invalid'
  },
  { check: '6', title: 'an empty htu', proof: b => b.proof({ url: '' }), expected: 'htu_invalid' },

  {
    check: '7',
    title: 'iat just within the offset',
    proof: b => b.proof({ claims: { iat: now() - 298 } }),
    expected: 'accepted'
  },
  {
    check: '7',
    title: 'iat before the offset',
    proof: b => b.proof({ claims: { iat: now() - 302 } }),
    expected: 'iat_too_old'
  },
  {
    check: '7',
    title: 'iat just within the leeway',
    proof: b => b.proof({ claims: { iat: now() + 28 } }),
    expected: 'accepted'
  },
  {
    check: '7',
    title: 'iat after the leeway',
    proof: b => b.proof({ claims: { iat: now() + 35 } }),
    expected: 'iat_in_future'
  },
  { check: '7', title: 'iat of 1e308', claims: { iat: 1e308 }, expected: 'iat_in_future' },
  {
    check: '7',
    title: 'iat in milliseconds',
    proof: b => b.proof({ claims: { iat: Date.now() } }),
    expected: 'iat_in_future'
  },
  { check: '7', title: 'iat below zero', claims: { iat: -1 }, expected: 'iat_too_old' },

  {
    check: '8',
    title: 'ath of another token',
    claims: { ath: hashOf('other') },
    expected: 'ath_mismatch'
  },
  {
    check: '8',
    title: 'ath with a letter before it',
    proof: b => b.proof({ claims: { ath: `x${hashOf(b.token)}` } }),
    expected: 'ath_mismatch'
  },
  {
    check: '8',
    title: 'ath cut short',
    proof: b => b.proof({ claims: { ath: hashOf(b.token).slice(0, -1) } }),
    expected: 'ath_mismatch'
  },
  {
    check: '8',
    title: 'ath with padding',
    proof: b => b.proof({ claims: { ath: `${hashOf(b.token)}=` } }),
    expected: 'ath_mismatch'
  },

  {
    check: '10',
    title: 'another payload under the same signature',
    proof: b => swapPayload(b),
    expected: 'proof_signature'
  },
  {
    check: '10',
    title: 'a signature of the right length that is none',
    proof: b => b.proof().replace(/[^.]+$/, 'A'.repeat(86)),
    expected: 'proof_signature'
  },
  {
    check: '10',
    title: 'a signature of another length',
    proof: b => b.proof().replace(/[^.]+$/, 'A'.repeat(84)),
    expected: 'proof_signature'
  }
]

const head = (b: ProofBench) => ({ typ: 'dpop+jwt', alg: b.client.alg, jwk: b.client.jwk })
const claimsWith = (b: ProofBench, text: string): string =>
  JSON.stringify({ jti: randomUUID(), htm: 'GET', htu: b.target, iat: now(), ath: hashOf(b.token), text })
const raw = (b: ProofBench, payload: string | Buffer): string => encodeJws(head(b), payload, b.client.sign)

function swapPayload (b: ProofBench): string {
  const [header, , signature] = b.proof().split('.')
  return `${header}.${b.proof().split('.')[1]}.${signature}`
}

/** A proof of exactly that many characters: padding in the payload, and in the header for what base64 leaves over. */
function fill (b: ProofBench, length: number): string {
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
