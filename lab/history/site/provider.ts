import { sign } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { AUDIENCE, makeIssuerKey, type IssuerKey, type Overrides } from '../../../test/helpers/issuer.ts'
import { encodeJws } from '../../../test/helpers/jws.ts'
import type { Owner } from '../../../test/helpers/owner.ts'
import { startTroubled, type TroubledServer } from './troubled-server.ts'

export const CLIENT = { id: 'api', secret: 'only-for-this-run' }

/** An identity provider over HTTP, with discovery, a key set that rotates, and introspection of opaque tokens. */
export interface ChaosProvider {
  server: TroubledServer
  /** With its trailing slash. */
  url: string
  /** What good tokens are signed by. */
  current: IssuerKey
  published: IssuerKey[]
  token (claims?: Overrides, key?: IssuerKey): string
  /** One that is active as long as the provider lives. */
  opaqueToken (): string
}

/** It ends with its owner. */
export async function startProvider (t: Owner): Promise<ChaosProvider> {
  const opaque = new Set<string>()
  const claimsOf = (more: Overrides = {}) => {
    const now = Math.floor(Date.now() / 1000)
    return {
      iss: provider.url,
      aud: AUDIENCE,
      sub: 'user-1',
      iat: now,
      exp: now + 900,
      scope: 'read:messages',
      ...more
    }
  }
  const documents: Record<string, () => object> = {
    '/.well-known/openid-configuration': () => ({
      issuer: provider.url,
      jwks_uri: `${provider.url}keys`,
      introspection_endpoint: `${provider.url}introspect`
    }),
    '/keys': () => ({ keys: provider.published.map(({ jwk }) => jwk) })
  }
  const send = (response: ServerResponse, status: number, document: object) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document))
  }
  async function answer (request: IncomingMessage, response: ServerResponse) {
    let body = ''
    for await (const chunk of request) body += chunk
    const document = documents[request.url!]
    if (document) return send(response, 200, document())
    if (request.url !== '/introspect') return send(response, 404, {})
    const token = new URLSearchParams(body).get('token')!
    send(response, 200, opaque.has(token) ? { active: true, ...claimsOf() } : { active: false })
  }
  const server = await startTroubled(t, (request, response) => {
    // The client may have disconnected in the middle of the request.
    answer(request, response).catch(() => response.destroy())
  })
  const current = makeIssuerKey('first')
  const provider: ChaosProvider = {
    server,
    url: `${server.origin}/`,
    current,
    published: [current],
    token: (claims, key = provider.current) =>
      encodeJws(
        { alg: 'RS256', typ: 'at+jwt', kid: key.kid },
        claimsOf(claims),
        input => sign('sha256', input, key.privateKey)
      ),
    opaqueToken () {
      const token = `opaque-${opaque.size}`
      opaque.add(token)
      return token
    }
  }
  return provider
}
