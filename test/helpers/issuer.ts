import { sign, type KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { encodeJws } from './jws.ts'
import { takeRsaKey } from './rsa-keys.ts'
import type { Owner } from './owner.ts'

export const AUDIENCE = 'https://api.test.example'

export interface IssuerKey {
  kid: string
  privateKey: KeyObject
  jwk: object
}

export function makeIssuerKey (kid: string): IssuerKey {
  const { privateKey, publicKey } = takeRsaKey()
  return { kid, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' } }
}

const sharedKey = makeIssuerKey('k1')

/** Extra or other members; `undefined` leaves one out. */
export type Overrides = Record<string, unknown>

export interface Issuer {
  /** Issuer URL, with its trailing slash. */
  url: string
  audience: string
  /** The published keys: change them to rotate. */
  keys: IssuerKey[]
  /** Requests seen, by path. */
  requests: string[]
  /** Claims of a token that passes. */
  claims (overrides?: Overrides): Record<string, unknown>
  /** A token signed with RS256 by the first key. */
  token (claims?: Overrides, header?: Overrides, key?: IssuerKey): string
  /** A token of exactly these texts or bytes, well signed. */
  rawToken (header: string | Buffer, payload: string | Buffer): string
  /** What it says about a token. */
  introspection: object
  /** What the server answers instead of its documents, while set. */
  outage: number | undefined
}

/** An identity provider on loopback: discovery, key set, and tokens signed with a real key. It ends with the test. */
export async function startIssuer (t: Owner): Promise<Issuer> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(request.url!)
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': {
        issuer: issuer.url,
        jwks_uri: `${issuer.url}keys`,
        introspection_endpoint: `${issuer.url}introspect`
      },
      '/introspect': issuer.introspection,
      '/keys': { keys: issuer.keys.map(({ jwk }) => jwk) }
    }
    // Where the libraries for Auth0 look.
    documents['/.well-known/jwks.json'] = documents['/keys']!
    const document = documents[request.url!]
    response.writeHead(issuer.outage ?? (document ? 200 : 404), { 'content-type': 'application/json' })
    response.end(JSON.stringify(document ?? {}))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })

  const issuer: Issuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    audience: AUDIENCE,
    keys: [sharedKey],
    requests,
    outage: undefined,
    introspection: { active: false },
    claims (overrides = {}) {
      const now = Math.floor(Date.now() / 1000)
      return { iss: issuer.url, aud: AUDIENCE, sub: 'user-1', iat: now, exp: now + 600, ...overrides }
    },
    token (claims = {}, header = {}, key = issuer.keys[0]!) {
      return encodeJws(
        { alg: 'RS256', typ: 'at+jwt', kid: key.kid, ...header },
        issuer.claims(claims),
        input => sign('sha256', input, key.privateKey)
      )
    },
    rawToken (header, payload) {
      return encodeJws(header, payload, input => sign('sha256', input, issuer.keys[0]!.privateKey))
    }
  }
  return issuer
}
