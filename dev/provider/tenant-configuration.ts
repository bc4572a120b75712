import { randomBytes } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import type { Context, Policy } from 'oidc-provider'
import type { ProviderOptions } from './provider.ts'

export const PERMISSIONS = ['read:messages', 'write:messages', 'read:users', 'write:users', 'admin'] as const

/** The namespaced claim that every token of the local tenant carries. */
export const CUSTOM_CLAIM = 'https://holdfast.example/plan'

export const MACHINE_CLIENT = 'holdfast-cli'
export const BROWSER_CLIENT = 'holdfast-playground'
export const TOKEN_PATH = '/oauth/token'
export const DAY = 86_400

const DPOP_ALGS = ['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519', 'PS256', 'RS256']

export type TenantSettings = Required<Omit<ProviderOptions, 'port' | 'address' | 'now'>> & Pick<ProviderOptions, 'now'>

/** Everything that oidc-provider is told; `refuseResource` throws for an API that the tenant does not know. */
export async function configuration (settings: TenantSettings, policy: Policy, refuseResource: () => never): Promise<Record<string, unknown>> {
  const { audience, tokenTtl, redirectUris } = settings
  const origins = new Set(redirectUris.map((uri) => new URL(uri).origin))
  return {
    clients: clients(settings),
    jwks: { keys: [await signingKey()] },
    cookies: { keys: [randomBytes(32).toString('base64url')] },
    routes: { authorization: '/authorize', token: TOKEN_PATH, jwks: '/.well-known/jwks.json' },
    scopes: ['openid', ...PERMISSIONS],
    claims: { openid: ['sub', 'email'] },
    conformIdTokenClaims: false,
    enabledJWA: { dPoPSigningAlgValues: DPOP_ALGS },
    interactions: { policy, url: (_context: Context, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_context: Context, id: string) => ({ accountId: id, claims: () => ({ sub: id, email: emailOf(id) }) }),
    loadExistingGrant: (context: Context) => grantEverything(context, audience),
    clientBasedCORS: (_context: Context, origin: string) => origins.has(origin),
    extraTokenClaims: (_context: Context, token: { accountId?: string, clientId: string, scope?: string }) => ({
      email: emailOf(token.accountId ?? token.clientId),
      permissions: token.scope?.split(' ') ?? [],
      [CUSTOM_CLAIM]: 'local'
    }),
    formats: { customizers: { jwt: (_context: Context, _token: unknown, parts: { payload: Record<string, unknown> }) => { shift(parts.payload, settings) } } },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      dPoP: settings.nonce
        ? { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => true }
        : { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: Context, resource: string) => resource === audience
          ? { scope: PERMISSIONS.join(' '), audience, accessTokenTTL: tokenTtl, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }
          : refuseResource()
      }
    },
    ttl: { AccessToken: tokenTtl, ClientCredentials: tokenTtl, AuthorizationCode: 60, IdToken: 3600, Interaction: 600, Session: DAY, Grant: DAY }
  }
}

function clients (settings: TenantSettings): object[] {
  const { clientSecret, redirectUris } = settings
  const shared = { grant_types: ['client_credentials'], response_types: [], redirect_uris: [] }
  return [
    { ...shared, client_id: MACHINE_CLIENT, client_secret: clientSecret, token_endpoint_auth_method: 'client_secret_post' },
    {
      client_id: BROWSER_CLIENT,
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      response_types: ['code'],
      redirect_uris: [...redirectUris],
      application_type: 'native'
    }
  ]
}

async function signingKey (): Promise<object> {
  const { privateKey } = await generateKeyPair('RS256', { modulusLength: 2048, extractable: true })
  return { ...await exportJWK(privateKey), alg: 'RS256', use: 'sig', kid: randomBytes(8).toString('base64url') }
}

const emailOf = (subject: string): string => `${subject}@holdfast.example`

async function grantEverything (context: Context, audience: string): Promise<object> {
  const { client, session, provider } = context.oidc
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId })
  grant.addOIDCScope('openid')
  grant.addResourceScope(audience, PERMISSIONS.join(' '))
  await grant.save()
  return grant
}

/** The provider itself knows only the real clock. */
function shift (payload: Record<string, unknown>, { now, tokenTtl }: TenantSettings): void {
  if (now === undefined) return
  payload['iat'] = now()
  payload['exp'] = now() + tokenTtl
}
