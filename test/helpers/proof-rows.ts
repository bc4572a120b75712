import { randomUUID } from 'node:crypto'
import type { RefusalReason } from '../../lib/refusal.ts'
import { hashOf, type DpopClient, type ProofParts } from './dpop-client.ts'
import type { Overrides } from './issuer.ts'
import { encodeJws } from './jws.ts'
import { oddNumber } from './rsa-jwk.ts'

/** What a row needs to make its proof. */
export interface ProofBench {
  client: DpopClient
  token: string
  /** The service, as its client knows it. */
  running: { url: string }
  /** The URL of the request: `/api/private` of the service. */
  target: string
  /** A fresh proof that passes, but for the overrides. */
  proof (overrides?: Partial<ProofParts>): string
}

const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))

export const now = (): number => Math.floor(Date.now() / 1000)

/** How a row makes its proof, or what a good proof has instead, in its header, in its claims or in its key. */
type Change =
  | ((bench: ProofBench) => string)
  | { header?: Overrides, claims?: Overrides, jwk?: object }

interface ProofRow {
  check: string
  title: string
  change: Change
  expected: RefusalReason | 'accepted'
}

/** By check, outcome and title. */
type ProofTable = Record<string, Partial<Record<ProofRow['expected'], Record<string, Change>>>>

const rowsOf = (table: ProofTable) =>
  Object.entries(table).flatMap(([check, outcomes]) =>
    Object.entries(outcomes).flatMap(([expected, rows]) =>
      Object.entries(rows).map(([title, change]) => ({ check, title, change, expected }) as ProofRow)
    )
  )

export function proofOf ({ change }: ProofRow, bench: ProofBench): string {
  if (typeof change === 'function') return change(bench)
  const { header, claims, jwk } = change
  return bench.proof({ claims, header: jwk ? { jwk: { ...bench.client.jwk, ...jwk } } : header })
}

/** Which proofs pass, by the checks of the contract. Each proof is for one request. */
export const PROOF_ROWS = rowsOf({
  2: {
    accepted: {
      'a proof with all that is required': b => b.proof(),
      'a proof of 8 KiB': b => fill(b, 8192),
      // Nothing walks through what a proof holds, so it may be nested as deeply as 8 KiB allow.
      'claims nested 2,500 deep': { claims: { other: nested(2500) } },
      'a header nested 2,500 deep': { header: { other: nested(2500) } },
      'claims with a letter of UTF-8': b => raw(b, claimsWith(b, '\u00e9'))
    },
    proof_too_large: { 'a proof of more than 8 KiB': b => fill(b, 8193) },
    proof_malformed: {
      'two segments': b => b.proof().split('.').slice(0, 2).join('.'),
      'four segments': b => `${b.proof()}.AAAA`,
      'five segments, as a JWE': b => `${b.proof()}.AAAA.AAAA`,
      'an empty signature': b => b.proof().replace(/[^.]+$/, ''),
      'an empty payload': b => b.proof().replace(/\.[^.]+\./, '..'),
      padding: b => `${b.proof()}==`,
      'bits beyond the last byte of the signature': b => b.proof().replace(/.$/, last => last === 'B' ? 'C' : 'B'),
      'text that is no JWT': () => 'proof',
      'a header that is an array': b => encodeJws('[]', '{}', b.client.sign),
      'a payload that is an array': b => encodeJws(head(b), '[]', b.client.sign),
      'a payload that is no JSON': b => encodeJws(head(b), '{', b.client.sign),
      'claims that are not UTF-8': b => raw(b, Buffer.from(claimsWith(b, '\u00e9'), 'latin1')),
      'a header that is not UTF-8': b =>
        encodeJws(Buffer.from(JSON.stringify({ ...head(b), kid: '\u00e9' }), 'latin1'), claimsWith(b, ''), b.client.sign)
    }
  },
  3: {
    accepted: {
      'a jwk with a member nested 2,500 deep': { jwk: { other: nested(2500) } },
      'typ in upper case': { header: { typ: 'DPOP+JWT' } },
      'typ with application/': { header: { typ: 'application/dpop+jwt' } },
      'a jwk as WebCrypto exports it': b =>
        b.proof({ header: { jwk: { ...b.client.jwk, ext: true, key_ops: ['verify'], use: 'sig', alg: b.client.alg } } }),
      'other headers are not looked at': b => b.proof({ header: { kid: 'a', cty: 'b', jku: 'http://127.0.0.1:1/' } }),
      'a kid that is no text': { header: { kid: 1 } }
    },
    proof_key: {
      'a jwk nested 2,500 deep': { header: { jwk: nested(2500) } },
      'a coordinate nested 2,500 deep': { jwk: { x: nested(2500) } },
      'an alg of another type of key': { header: { alg: 'RS256' } },
      'no jwk': { header: { jwk: undefined } },
      'jwk as text': b => b.proof({ header: { jwk: JSON.stringify(b.client.jwk) } }),
      'jwk as an array': b => b.proof({ header: { jwk: [b.client.jwk] } }),
      'a private jwk': b => b.proof({ header: { jwk: { ...b.client.jwk, d: b.client.jwk.x } } }),
      'a symmetric jwk': { header: { jwk: { kty: 'oct', k: 'AAAA' } } },
      'a jwk for another algorithm': { jwk: { alg: 'ES384' } },
      'a jwk with an alg that is null': { jwk: { alg: null } },
      'a jwk for encryption': { jwk: { use: 'enc' } },
      'a jwk only for signing': { jwk: { key_ops: ['sign'] } },
      'a jwk with key_ops as text': { jwk: { key_ops: 'verify' } },
      'an RSA key of 16384 bits': { header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: 'x'.repeat(2731) } } },
      'an RSA key of 1024 bits': { header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: oddNumber(1024) } } },
      'a point that is not on its curve': b => b.proof({ header: { jwk: { ...b.client.jwk, y: b.client.jwk.x } } }),
      'an RSA key of 8192 bits': { header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: oddNumber(8192) } } },
      'an RSA key with an even exponent': { header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAA', n: oddNumber(2048) } } },
      'a coordinate without its first byte': b =>
        b.proof({
          header: { jwk: { ...b.client.jwk, x: Buffer.from(b.client.jwk.x!, 'base64url').toString('base64url', 1) } }
        })
    },
    proof_type: { 'no typ': { header: { typ: undefined } }, 'typ JWT': { header: { typ: 'JWT' } } },
    proof_algorithm: {
      'alg none': { header: { alg: 'none' } },
      'alg HS256': { header: { alg: 'HS256' } },
      'alg ES256K': { header: { alg: 'ES256K' } },
      'alg in an array': { header: { alg: ['ES256'] } },
      'alg with a name of every object': { header: { alg: 'constructor' } }
    },
    proof_critical: {
      crit: { header: { crit: ['exp'] } },
      'crit with quotes, line breaks and emoji': { header: { crit: ['"\r\nX: y 🗝'] } },
      'an unencoded payload': { header: { b64: false } }
    },
    jkt_mismatch: {
      'an RSA key of 2048 bits, which is not that of the token': { header: { alg: 'PS256', jwk: { kty: 'RSA', e: 'AQAB', n: oddNumber(2048) } } }
    }
  },
  4: {
    proof_claim_invalid: {
      'a jti nested 2,500 deep': { claims: { jti: nested(2500) } },
      'jti of 513 characters': { claims: { jti: 'a'.repeat(513) } },
      'an empty jti': { claims: { jti: '' } },
      'no jti': { claims: { jti: undefined } },
      'jti as a number': { claims: { jti: 1 } },
      'htm as an array': { claims: { htm: ['GET'] } },
      'no htm': { claims: { htm: undefined } },
      'htu as an array': b => b.proof({ claims: { htu: [b.target] } }),
      'no htu': { claims: { htu: undefined } },
      'ath as a number': { claims: { ath: 1 } },
      'no ath': { claims: { ath: undefined } },
      'iat as text': b => b.proof({ claims: { iat: String(now()) } }),
      'no iat': { claims: { iat: undefined } },
      'iat that is null, as NaN is written': { claims: { iat: NaN } },
      'iat beyond all numbers': b => raw(b, `{"jti":"big","htm":"GET","htu":"${b.target}","ath":"${hashOf(b.token)}","iat":1e400}`),
      'exp as text': { claims: { exp: 'soon' } },
      'nbf as text': b => b.proof({ claims: { nbf: 'now' } })
    },
    accepted: {
      'jti of one character': { claims: { jti: randomUUID()[0] } },
      'jti of 512 characters': { claims: { jti: 'a'.repeat(512) } },
      'jti with line breaks and emoji': { claims: { jti: '\r\n🗝' } },
      'iat with a fraction': b => b.proof({ claims: { iat: now() - 0.5 } }),
      'exp in the future': b => b.proof({ claims: { exp: now() + 60 } }),
      'exp in the past, within the leeway': b => b.proof({ claims: { exp: now() - 20 } }),
      'nbf in the future, within the leeway': b => b.proof({ claims: { nbf: now() + 20 } }),
      'a nonce while nonces are off': { claims: { nonce: 'whatever' } },
      'a nonce of another type while nonces are off': { claims: { nonce: {} } }
    },
    proof_expired: { 'exp in the past, beyond the leeway': b => b.proof({ claims: { exp: now() - 31 } }) },
    proof_not_yet_valid: { 'nbf in the future, beyond the leeway': b => b.proof({ claims: { nbf: now() + 60 } }) }
  },
  5: {
    htm_mismatch: {
      'htm of another method': b => b.proof({ method: 'POST' }),
      'htm in lower case': b => b.proof({ method: 'get' }),
      ...Object.fromEntries(['GETS', 'XGET', 'GE', 'ET'].map(htm => [`htm of ${htm}`, { claims: { htm } }]))
    }
  },
  6: {
    accepted: {
      'htu with a query and a fragment': b => b.proof({ url: `${b.target}?a=b#c` }),
      'htu with the host in upper case letters and an escaped letter': b => b.proof({ url: b.target.replace('http://', 'HTTP://').replace('private', '%70rivate') })
    },
    htu_mismatch: {
      'htu that ends before the path does': b => b.proof({ url: b.target.slice(0, -1) }),
      'htu of a folder of the path': b => b.proof({ url: `${b.running.url}/api` }),
      'htu of another path': b => b.proof({ url: `${b.running.url}/api/public` }),
      'htu with a slash at its end': b => b.proof({ url: `${b.target}/` }),
      'htu with the path in upper case': b => b.proof({ url: `${b.running.url}/API/private` }),
      'htu of another host': b => b.proof({ url: 'https://other.example/api/private' }),
      'htu with another scheme': b => b.proof({ url: b.target.replace('http:', 'https:') })
    },
    htu_invalid: {
      'htu without a scheme': b => b.proof({ url: '/api/private' }),
      'htu with user info': b => b.proof({ url: b.target.replace('//', '//user@') }),
      'htu of another kind': b => b.proof({ url: 'javascript:alert(1)' }),
      'an empty htu': b => b.proof({ url: '' })
    }
  },
  7: {
    accepted: {
      'iat just within the offset': b => b.proof({ claims: { iat: now() - 298 } }),
      'iat just within the leeway': b => b.proof({ claims: { iat: now() + 28 } })
    },
    iat_too_old: {
      'iat before the offset': b => b.proof({ claims: { iat: now() - 302 } }),
      'iat below zero': { claims: { iat: -1 } }
    },
    iat_in_future: {
      'iat after the leeway': b => b.proof({ claims: { iat: now() + 35 } }),
      'iat of 1e308': { claims: { iat: 1e308 } },
      'iat in milliseconds': b => b.proof({ claims: { iat: Date.now() } })
    }
  },
  8: {
    ath_mismatch: {
      'ath of another token': { claims: { ath: hashOf('other') } },
      'ath with a letter before it': b => b.proof({ claims: { ath: `x${hashOf(b.token)}` } }),
      'ath cut short': b => b.proof({ claims: { ath: hashOf(b.token).slice(0, -1) } }),
      'ath with padding': b => b.proof({ claims: { ath: `${hashOf(b.token)}=` } })
    }
  },
  10: {
    proof_signature: {
      'another payload under the same signature': b => swapPayload(b),
      'a signature of the right length that is none': b => b.proof().replace(/[^.]+$/, 'A'.repeat(86)),
      'a signature of another length': b => b.proof().replace(/[^.]+$/, 'A'.repeat(84))
    }
  }
})

const head = (b: ProofBench) => ({ typ: 'dpop+jwt', alg: b.client.alg, jwk: b.client.jwk })
const claimsWith = (b: ProofBench, text: string) =>
  JSON.stringify({ jti: randomUUID(), htm: 'GET', htu: b.target, iat: now(), ath: hashOf(b.token), text })
const raw = (b: ProofBench, payload: string | Buffer) => encodeJws(head(b), payload, b.client.sign)

function swapPayload (b: ProofBench) {
  const [header, , signature] = b.proof().split('.')
  return `${header}.${b.proof().split('.')[1]}.${signature}`
}

/** A proof of exactly that many characters: padding in the payload, and in the header for what base64 leaves over. */
function fill (b: ProofBench, length: number) {
  const claims = { jti: randomUUID(), htm: 'GET', htu: b.target, iat: now(), ath: hashOf(b.token) }
  const build = (inHeader: number, inPayload: number) =>
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
