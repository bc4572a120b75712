import { basicCredentials } from '../../lib/guard/provider/client-authentication.ts'
import type { ProviderAnswer, Transport } from '../../lib/guard/provider/transport.ts'

/** Client of the app at the issuers in memory, for introspection. */
export const ASKING_CLIENT = { clientId: 'api', clientSecret: 'the secret of a test' } as const

const AUTHORIZATION = basicCredentials(ASKING_CLIENT.clientId, ASKING_CLIENT.clientSecret)

export type ProvidersInMemory = ReturnType<typeof createProviders>

/**
 * The issuers of one app, in memory. The plugin asks them as it asks real ones, by documents and forms.
 * @param now Unix seconds
 */
export function createProviders (now: () => number) {
  const documents = new Map<string, object>()
  const opaque = new Map<string, Readonly<Record<string, unknown>>>()
  const answer = (status: number, document: object = {}): ProviderAnswer => ({
    status,
    body: Buffer.from(JSON.stringify(document))
  })

  function about (url: string, token: string | null): object {
    const claims = opaque.get(`${url} ${token}`)
    const isActive = claims !== undefined && !(typeof claims.exp === 'number' && claims.exp <= now())
    return isActive ? { ...claims, active: true } : { active: false }
  }

  return {
    transport: {
      open: () => ({
        async send (url, request) {
          if (!request) return documents.has(url) ? answer(200, documents.get(url)) : answer(404)
          return request.headers.authorization === AUTHORIZATION
            ? answer(200, about(url, new URLSearchParams(request.body).get('token')))
            : answer(401)
        },
        close () {}
      }),
      close () {}
    } as Transport,
    /** Adds an issuer with its keys. */
    add (issuer: string, keySet: object): void {
      const at = addressesOf(issuer)
      documents.set(at.discovery, { issuer, jwks_uri: at.keys, introspection_endpoint: at.introspection })
      documents.set(at.keys, keySet)
    },
    /** Puts a document at an address. */
    publish (url: string, document: object): void {
      documents.set(url, document)
    },
    /** Has an issuer know an opaque token, with what it answers about it while the token has not expired. */
    know (issuer: string, token: string, claims: Readonly<Record<string, unknown>>): void {
      opaque.set(`${addressesOf(issuer).introspection} ${token}`, claims)
    }
  }
}

function addressesOf (issuer: string): Record<'discovery' | 'keys' | 'introspection', string> {
  const base = issuer.endsWith('/') ? issuer : `${issuer}/`
  return {
    discovery: `${base}.well-known/openid-configuration`,
    keys: `${base}.well-known/jwks.json`,
    introspection: `${base}introspect`
  }
}
