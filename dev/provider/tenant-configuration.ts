import { randomBytes } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import type { Context, Policy } from 'oidc-provider'
import { BROWSER_CLIENT, MACHINE_CLIENT, type OwnClient } from './own-client.ts'
import { emailOf, findUser, PERMISSIONS } from './users.ts'

/** The namespaced claim of every token of the local tenant. */
export const CUSTOM_CLAIM = 'https://holdfast.example/plan'

/** The kinds of login that this tenant supports: the `acr` of its tokens (RFC 9470). The first one is the default. */
export const ACR_VALUES = ['urn:example:password', 'urn:example:mfa']

export const TOKEN_PATH = '/oauth/token'
export const DAY = 86_400

const DPOP_ALGS = ['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519', 'PS256', 'RS256']

export interface TenantSettings {
  /** The identifier of the API: an absolute URI (RFC 8707 section 2). */
  readonly audience: string
  readonly clientSecret: string
  /** Redirect URIs of the browser client; their origins may call the token endpoint. */
  readonly redirectUris: readonly string[]
  /** Where the API receives logout tokens for the browser client. */
  readonly logoutUri?: string
  /** One more client, registered by the developer. */
  readonly ownClient?: OwnClient
  /** Whether proofs to the token endpoint need a nonce (RFC 9449 section 8). */
  readonly nonce: boolean
  /** Seconds. */
  readonly tokenTtl: number
  /** Seconds since the epoch: moves `iat` and `exp` of the tokens. */
  readonly now?: () => number
}

/** The configuration of oidc-provider. `refuseResource` throws for an unknown API. */
export async function configuration (
  settings: TenantSettings,
  policy: Policy,
  refuseResource: () => never
): Promise<Record<string, unknown>> {
  const { audience, tokenTtl, redirectUris, ownClient } = settings
  const origins = originsOf([...redirectUris, ...ownClient?.redirectUris ?? []])
  return {
    clients: clients(settings),
    jwks: { keys: [await signingKey()] },
    cookies: { keys: [randomBytes(32).toString('base64url')] },
    routes: { authorization: '/authorize', token: TOKEN_PATH, jwks: '/.well-known/jwks.json' },
    scopes: ['openid', ...PERMISSIONS],
    // oidc-provider refuses to call addresses of this machine, where the API is.
    fetch: (url: string, { dispatcher: _dispatcher, ...options }: RequestInit & { dispatcher?: unknown }) =>
      fetch(url, options),
    acrValues: ACR_VALUES,
    claims: { openid: ['sub', 'email'] },
    conformIdTokenClaims: false,
    enabledJWA: { dPoPSigningAlgValues: DPOP_ALGS },
    interactions: { policy, url: (_context: Context, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_context: Context, id: string) =>
      findUser(id) && { accountId: id, claims: () => ({ sub: id, email: emailOf(id) }) },
    loadExistingGrant: (context: Context) => grantWhatTheUserHas(context, audience),
    clientBasedCORS: (_context: Context, origin: string) => origins.includes(origin),
    extraTokenClaims: (
      { oidc: { entities: { AuthorizationCode: login } } }: Context,
      token: { accountId?: string, clientId: string, scope?: string }
    ) => ({
      // RFC 9470 section 6. There is a code only after a login.
      ...login && { acr: login.acr, auth_time: login.authTime, ...login.sid !== undefined && { sid: login.sid } },
      email: emailOf(token.accountId ?? token.clientId),
      permissions: token.scope?.split(' ') ?? [],
      [CUSTOM_CLAIM]: 'local'
    }),
    formats: {
      customizers: {
        jwt: (_context: Context, _token: unknown, parts: { payload: Record<string, unknown> }) => {
          shift(parts.payload, settings)
        }
      }
    },
    features: {
      devInteractions: { enabled: false },
      // Every access token is for the API. The ID token has all that is known of a user.
      userinfo: { enabled: false },
      backchannelLogout: { enabled: settings.logoutUri !== undefined },
      clientCredentials: { enabled: true },
      dPoP: settings.nonce
        ? { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => true }
        : { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: Context, resource: string) =>
          resource === audience
            ? {
                scope: PERMISSIONS.join(' '),
                audience,
                accessTokenTTL: tokenTtl,
                accessTokenFormat: 'jwt',
                jwt: { sign: { alg: 'RS256' } }
              }
            : refuseResource()
      }
    },
    ttl: {
      AccessToken: tokenTtl,
      ClientCredentials: tokenTtl,
      AuthorizationCode: 60,
      IdToken: 3600,
      Interaction: 600,
      Session: DAY,
      Grant: DAY
    }
  }
}

function clients ({ clientSecret, redirectUris, ownClient, logoutUri }: TenantSettings): object[] {
  const machine = { clientId: MACHINE_CLIENT, clientSecret, redirectUris: [] }
  const logout = logoutUri === undefined
    ? {}
    : { backchannel_logout_uri: logoutUri, backchannel_logout_session_required: true }
  return [client(machine), {
    ...client({ clientId: BROWSER_CLIENT, clientSecret: undefined, redirectUris }),
    ...logout
  }, ...ownClient ? [client(ownClient)] : []]
}

function client ({ clientId, clientSecret, redirectUris }: OwnClient): object {
  const logsIn = redirectUris.length > 0
  return {
    client_id: clientId,
    client_secret: clientSecret,
    token_endpoint_auth_method: clientSecret === undefined ? 'none' : 'client_secret_post',
    grant_types: [...logsIn ? ['authorization_code'] : [], ...clientSecret === undefined ? [] : ['client_credentials']],
    response_types: logsIn ? ['code'] : [],
    redirect_uris: [...redirectUris],
    // A native client may use any loopback port (RFC 8252 section 7.3); a web client only its registered URIs.
    application_type: redirectUris.every(uri => uri.startsWith('http')) ? 'web' : 'native'
  }
}

/** The origins of web pages; a redirect URI may also have an application's own scheme. */
export function originsOf (uris: readonly string[]): string[] {
  return [...new Set(uris.map(uri => new URL(uri).origin))].filter(origin => origin !== 'null')
}

async function signingKey (): Promise<object> {
  const { privateKey } = await generateKeyPair('RS256', { modulusLength: 2048, extractable: true })
  return { ...await exportJWK(privateKey), alg: 'RS256', use: 'sig', kid: randomBytes(8).toString('base64url') }
}

async function grantWhatTheUserHas (context: Context, audience: string): Promise<object> {
  const { client, session, provider } = context.oidc
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId })
  grant.addOIDCScope('openid')
  grant.addResourceScope(audience, findUser(session.accountId)?.permissions.join(' ') ?? '')
  await grant.save()
  return grant
}

/** The provider itself uses the real clock. */
function shift (payload: Record<string, unknown>, { now, tokenTtl }: TenantSettings) {
  if (now === undefined) return
  if (typeof payload['auth_time'] === 'number') payload['auth_time'] += now() - Number(payload['iat'])
  payload['iat'] = now()
  payload['exp'] = now() + tokenTtl
}
