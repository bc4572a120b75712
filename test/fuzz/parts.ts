import { createHash } from 'node:crypto'
import { CLIENT_KEYS, TOKEN_KEYS, type FuzzKey } from './keys.ts'
import type { Random } from './random.ts'

/** How a service is set up. Both verifiers judge the same one. */
export const SITES = ['http', 'https', 'public', 'nonce', 'required'] as const
export type Site = (typeof SITES)[number]

export const ISSUER = 'https://issuer.example/'
export const AUDIENCE = 'https://api.example'
export const PUBLIC_URL = 'https://public.example/base'

type Members = Record<string, unknown>

/** A JWS before it is made. */
export interface JwsParts {
  header: Members
  claims: Members
  /** Texts in place of the JSON of header and claims. */
  rawHeader?: (json: string) => string | Buffer
  rawClaims?: (json: string) => string | Buffer
  key: FuzzKey
  /** Changes the signature. `input` is what was signed. */
  signature?: (signature: Buffer, input: string, key: FuzzKey) => Buffer | string
  /** Changes the whole text. */
  edit?: (text: string) => string
}

/** One request before it is made. `undefined` in a claim leaves it out. */
export interface Parts {
  site: Site
  /** Unix seconds. */
  now: number
  client: FuzzKey
  method: string
  target: string
  hosts: string[]
  scheme: string
  gap: string
  /** What follows the token. */
  rest: string
  authorizations: number
  token: JwsParts
  proofs: number
  proof: JwsParts
  /** The URL that the proof is made for, and its change. */
  url: string
  htu?: (url: string) => unknown
  ath?: (hash: string) => unknown
}

export interface WireRequest {
  site: Site
  now: number
  method: string
  target: string
  rawHeaders: readonly string[]
}

export interface Made {
  wire: WireRequest
  token: string
  proof: string | undefined
}

/** A placeholder for the nonce that the site `nonce` accepts. */
const NONCE = { toJSON: () => currentNonce.text }
export const currentNonce = { text: '' }

const HOSTS = ['api.example', 'api.example:8443', '127.0.0.1:8000', '[::1]:8000']
const TARGETS = ['/', '/api/private', '/api/users/1?page=2', '/a%2Fb/~c;d=1', '/caf%C3%A9', '/a//b/']

function baseOf (site: Site, host: string) {
  if (site === 'public') return PUBLIC_URL
  return `${site === 'https' ? 'https' : 'http'}://${host}`
}

/** The URL of a request, for a reader who believes in everything. A public URL takes the place of any authority. */
export function urlOf (site: Site, host: string, target: string): string {
  if (target.startsWith('/')) return baseOf(site, host) + target
  return site === 'public' ? target.replace(/^[a-z]+:\/\/[^/?#]*/i, PUBLIC_URL) : target
}

/** A request that both accept. */
export function goodParts (random: Random, now: number, jti: string): Parts {
  const site = random.among(SITES)
  const host = random.among(HOSTS)
  const target = random.among(TARGETS)
  // RSA costs ten times as much to sign.
  const client = random.oneIn(30) ? CLIENT_KEYS[4]! : CLIENT_KEYS[random.below(4)]!
  const kid = random.oneIn(30) ? 'rsa' : random.among(['ec', 'ec2', 'ed', 'ed2'])
  const key = TOKEN_KEYS[kid]!
  const isBound = site === 'required' || !random.oneIn(5)
  const minute = now - now % 60
  return {
    site,
    now,
    client,
    method: random.among(['GET', 'POST', 'PUT', 'PATCH', 'HEAD', 'OPTIONS', 'QUERY']),
    target,
    hosts: [host],
    scheme: isBound ? 'DPoP' : 'Bearer',
    gap: ' ',
    rest: '',
    authorizations: 1,
    token: {
      header: { alg: key.alg, typ: 'at+jwt', kid },
      claims: {
        iss: ISSUER,
        aud: AUDIENCE,
        sub: 'user',
        client_id: 'app',
        jti: 'token',
        iat: minute - 60,
        exp: minute + 900,
        ...(isBound ? { cnf: { jkt: client.jkt } } : {})
      },
      key
    },
    proofs: isBound ? 1 : 0,
    proof: {
      header: { typ: 'dpop+jwt', alg: client.alg, jwk: client.jwk },
      claims: { jti, iat: now, ...(site === 'nonce' ? { nonce: NONCE } : {}) },
      key: client
    },
    url: baseOf(site, host) + target.split('?', 1)[0]!
  }
}

const encode = (text: string | Buffer) => Buffer.from(text as string).toString('base64url')

/** Tokens repeat, and so do their signatures: it saves time, and is what a service sees. */
const kept = new Map<string, string>()

function makeJws ({ header, claims, rawHeader, rawClaims, key, signature, edit }: JwsParts, keep: boolean) {
  const headerText = JSON.stringify(header)
  const claimsText = JSON.stringify(claims)
  const input = `${encode(rawHeader ? rawHeader(headerText) : headerText)}.${encode(rawClaims ? rawClaims(claimsText) : claimsText)}`
  const isPlain = keep && !signature
  let text = isPlain ? kept.get(input) : undefined
  if (text === undefined) {
    const signed = key.sign(input)
    const last = signature ? signature(signed, input, key) : signed
    text = `${input}.${typeof last === 'string' ? last : last.toString('base64url')}`
    if (kept.size > 5000) kept.clear()
    if (isPlain) kept.set(input, text)
  }
  return edit ? edit(text) : text
}

/** HTTP drops white space at the ends of a value. */
const trimmed = (value: string) => value.replace(/^[ \t]+|[ \t]+$/g, '')

export function make (parts: Parts): Made {
  const token = makeJws(parts.token, true)
  const hash = createHash('sha256').update(token).digest('base64url')
  const { htu = url => url, ath = hash => hash } = parts
  const claims = { htm: parts.method, htu: htu(parts.url), ath: ath(hash), ...parts.proof.claims }
  const proof = parts.proofs > 0 ? makeJws({ ...parts.proof, claims }, false) : undefined
  const lines = [
    ...parts.hosts.flatMap(host => ['Host', host]),
    ...Array.from(
      { length: parts.authorizations },
      () => ['Authorization', trimmed(`${parts.scheme}${parts.gap}${token}${parts.rest}`)]
    ).flat(),
    ...Array.from({ length: parts.proofs }, () => ['DPoP', trimmed(proof!)]).flat()
  ]
  return {
    wire: { site: parts.site, now: parts.now, method: parts.method, target: parts.target, rawHeaders: lines },
    token,
    proof
  }
}
