import { createHmac, sign } from 'node:crypto'
import { request } from 'node:http'
import { nowSeconds } from './clock.ts'
import { AUDIENCE, makeIssuerKey, type Issuer } from './issuer.ts'
import { encodeJws } from './jws.ts'

/** The 200 requests, good and bad, that a set-up and its successor get: test/matrix/moving.test.ts. */

export const REQUESTS = 200

/** Numbers from 0 up to 1, the same for each run (mulberry32). */
export function randomFrom (seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export interface Sent {
  authorization?: string | readonly string[]
  query?: string
}
type Claims = Record<string, unknown>
type Kind = (issuer: Issuer, claims: Claims) => Sent

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const withClaims = (more: (issuer: Issuer) => Claims): Kind => (issuer, claims) =>
  bearer(issuer.token({ ...claims, ...more(issuer) }))
const withHeader = (header: Claims): Kind => (issuer, claims) => bearer(issuer.token(claims, header))
const stranger = makeIssuerKey('k1')

export const KINDS: Record<string, Kind> = {
  'a good token': (issuer, claims) => bearer(issuer.token(claims)),
  '`typ` JWT': withHeader({ typ: 'JWT' }),
  'no `typ`': withHeader({ typ: undefined }),
  '`typ` of a logout token': withHeader({ typ: 'logout+jwt' }),
  '`typ` of a DPoP proof': withHeader({ typ: 'dpop+jwt' }),
  'no `kid`': withHeader({ kid: undefined }),
  'an unknown `kid`': withHeader({ kid: 'k9' }),
  'an unknown `crit`': withHeader({ crit: ['urn:example:x'], 'urn:example:x': 1 }),
  'one of several audiences': withClaims(() => ({ aud: ['https://other.example', AUDIENCE] })),
  'another audience': withClaims(() => ({ aud: 'https://other.example' })),
  'no `aud`': withClaims(() => ({ aud: undefined })),
  'another issuer': withClaims(() => ({ iss: 'https://other.example/' })),
  'the issuer without its slash': withClaims(({ url }) => ({ iss: url.slice(0, -1) })),
  'no `iss`': withClaims(() => ({ iss: undefined })),
  'no `sub`': withClaims(() => ({ sub: undefined })),
  'another scope': withClaims(() => ({ scope: 'read:others' })),
  'scopes as a list': withClaims(() => ({ scope: ['read:orders'] })),
  expired: withClaims(() => ({ exp: nowSeconds() - 120 })),
  'no `exp`': withClaims(() => ({ exp: undefined })),
  '`exp` as text': withClaims(() => ({ exp: String(nowSeconds() + 600) })),
  '`nbf` in an hour': withClaims(() => ({ nbf: nowSeconds() + 3600 })),
  '`iat` in an hour': withClaims(() => ({ iat: nowSeconds() + 3600 })),
  'no `iat`': withClaims(() => ({ iat: undefined })),
  'bound to a key, without a proof': withClaims(() => ({ cnf: { jkt: 'a'.repeat(43) } })),
  'bound to a certificate, without it': withClaims(() => ({ cnf: { 'x5t#S256': 'a'.repeat(43) } })),
  'signed with another key': (issuer, claims) => bearer(issuer.token(claims, {}, stranger)),
  '`alg` none': (issuer, claims) =>
    bearer(encodeJws({ alg: 'none', typ: 'at+jwt' }, issuer.claims(claims), () => Buffer.alloc(0))),
  'HS256 with the public key': (issuer, claims) =>
    bearer(encodeJws(
      { alg: 'HS256', typ: 'at+jwt', kid: 'k1' },
      issuer.claims(claims),
      input => createHmac('sha256', JSON.stringify(issuer.keys[0]!.jwk)).update(input).digest()
    )),
  RS512: (issuer, claims) =>
    bearer(encodeJws(
      { alg: 'RS512', typ: 'at+jwt', kid: 'k1' },
      issuer.claims(claims),
      input => sign('sha512', input, issuer.keys[0]!.privateKey)
    )),
  'claims of another token': (issuer, claims) => {
    const [header, , signature] = issuer.token(claims).split('.')
    return bearer([header, issuer.token({ ...claims, sub: 'admin' }).split('.')[1], signature].join('.'))
  },
  'without its end': (issuer, claims) => bearer(issuer.token(claims).slice(0, -9)),
  'no token': () => ({}),
  'an empty Bearer': () => ({ authorization: 'Bearer' }),
  Basic: () => ({ authorization: `Basic ${Buffer.from('ann:secret').toString('base64')}` }),
  'no JWT': () => bearer('0123456789abcdef'),
  'the scheme in small letters': (issuer, claims) => ({ authorization: `bearer ${issuer.token(claims)}` }),
  'two spaces before it': (issuer, claims) => ({ authorization: `Bearer  ${issuer.token(claims)}` }),
  'two `Authorization` lines': (issuer, claims) => ({
    authorization: [`Bearer ${issuer.token(claims)}`, `Bearer ${issuer.token({ ...claims, sub: 'admin' })}`]
  }),
  'in the query': (issuer, claims) => ({ query: `?access_token=${issuer.token(claims)}` })
}

/** The status, and the body if it is 200. */
export function send (url: string, { authorization, query = '' }: Sent): Promise<readonly [status: number, body: string]> {
  return new Promise((resolve, reject) => {
    const headers = { ...authorization !== undefined && { authorization } } as Record<string, string>
    request(url + query, { headers, agent: false }, answer => {
      let body = ''
      answer.setEncoding('utf8').on('data', part => {
        body += part
      }).on('end', () => resolve([answer.statusCode!, answer.statusCode === 200 ? body : '']))
    }).on('error', reject).end()
  })
}

/** The kinds of 200 requests, shuffled: each comes five times, the good token for the rest. */
export function drawKinds (random: () => number): string[] {
  const kinds = Object.keys(KINDS).flatMap(kind => Array<string>(5).fill(kind))
  while (kinds.length < REQUESTS) kinds.push('a good token')
  for (let at = kinds.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [kinds[at], kinds[other]] = [kinds[other]!, kinds[at]!]
  }
  return kinds
}
