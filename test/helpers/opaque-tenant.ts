import { generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { Provider } from 'oidc-provider'
import type { Test } from 'tap'
import { AUDIENCE } from './issuer.ts'
import { takeRsaKey } from './rsa-keys.ts'
import { listen } from './listen.ts'

/** A real oidc-provider with tokens that can be introspected (RFC 7662, RFC 9701) and revoked (RFC 7009). */
export interface OpaqueTenant {
  issuer: string
  /**
   * Of each client of the API, which is named like its method of authentication; and of `signed`, whose answers are
   * JWTs.
   */
  clientSecret: string
  /** The key of the client `private_key_jwt`. */
  clientKey: KeyObject
  /** Tokens that were introspected, in order. */
  asked: string[]
  /** @param more parameters and headers of the token request, such as a proof */
  token (
    format: 'opaque' | 'jwt',
    more?: { resource?: string, headers?: Record<string, string> }
  ): Promise<string>
  /** A refresh token, as after a login. */
  refreshToken (): Promise<string>
  revoke (token: string): Promise<void>
}

const FORMATS = ['opaque', 'jwt']

/** It ends with the test. */
export async function startOpaqueTenant (t: Test): Promise<OpaqueTenant> {
  const server = createServer()
  const port = await listen(t, server)
  const issuer = `http://localhost:${port}`
  const clientSecret = randomBytes(24).toString('base64url')
  const client = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const asked: string[] = []
  const { warn, info } = console
  // It starts with advice for production, and does not like that its requests are read.
  console.warn = console.info = () => {}
  t.teardown(() => {
    Object.assign(console, { warn, info })
  })
  const oidc = await import('oidc-provider')
  const provider: Provider = new oidc.Provider(
    issuer,
    configuration(clientSecret, client.publicKey, (...args) => addTwin(provider, ...args))
  )
  provider.use(async ({ path, req }, next) => {
    if (path === '/token/introspection' || path === '/token/revocation') {
      const form = new URLSearchParams(await readBody(req))
      if (path === '/token/introspection') asked.push(form.get('token')!)
      form.set('token', twinOf(form.get('token')!))
      Object.assign(req, { body: Object.fromEntries(form) })
    }
    await next()
  })
  server.on('request', provider.callback())

  async function post (
    path: string,
    form: Record<string, string>,
    headers: Record<string, string> = {}
  ) {
    const answer = await fetch(`${issuer}${path}`, {
      method: 'POST',
      headers,
      body: new URLSearchParams({ client_secret: clientSecret, ...form })
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return text
  }

  return {
    issuer,
    clientSecret,
    clientKey: client.privateKey,
    asked,
    token: async (format, { headers, ...form } = {}) =>
      (JSON.parse(
        await post('/token', {
          client_id: format,
          grant_type: 'client_credentials',
          resource: AUDIENCE,
          scope: 'read:messages',
          ...form
        }, headers)
      ) as { access_token: string }).access_token,
    async refreshToken () {
      const { Client, Grant, RefreshToken } = provider as unknown as {
        Client: { find (id: string): Promise<object> },
        Grant: new(parts: object) => { save (): Promise<string> },
        RefreshToken: new(parts: object) => { save (): Promise<string> }
      }
      const grantId = await new Grant({ clientId: 'opaque', accountId: 'user-1' }).save()
      return new RefreshToken({
        client: await Client.find('opaque'),
        accountId: 'user-1',
        grantId,
        gty: 'authorization_code',
        scope: 'read:messages',
        resource: AUDIENCE
      }).save()
    },
    async revoke (token) {
      await post('/token/revocation', { client_id: token.includes('.') ? 'jwt' : 'opaque', token })
    }
  }
}

type Customizer = (context: unknown, token: Twin, parts: { payload: Record<string, unknown> }) => Promise<void>

function configuration (clientSecret: string, clientKey: KeyObject, customizeJwt: Customizer) {
  const { privateKey } = takeRsaKey()
  const ofApi = (id: string, more: object = {}) => ({
    client_id: id,
    client_secret: clientSecret,
    redirect_uris: [],
    response_types: [],
    grant_types: [],
    token_endpoint_auth_method: id,
    ...more
  })
  return {
    clients: [
      ...FORMATS.map(format =>
        ofApi(format, { grant_types: ['client_credentials'], token_endpoint_auth_method: 'client_secret_post' })
      ),
      ofApi('client_secret_basic'),
      ofApi('client_secret_post'),
      ofApi('private_key_jwt', { client_secret: undefined, jwks: { keys: [clientKey.export({ format: 'jwk' })] } }),
      ofApi('signed', { token_endpoint_auth_method: 'client_secret_basic', introspection_signed_response_alg: 'RS256' })
    ],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig', kid: 'k1' }] },
    cookies: { keys: ['unused'] },
    scopes: ['read:messages', 'offline_access'],
    formats: { customizers: { jwt: customizeJwt } },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      dPoP: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      jwtIntrospection: { enabled: true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, audience: string, { clientId }: { clientId: string }) => ({
          scope: 'read:messages',
          audience,
          accessTokenTTL: 600,
          accessTokenFormat: clientId,
          jwt: { sign: { alg: 'RS256' } }
        })
      }
    }
  }
}

interface Twin {
  client: object
  aud: string
  scope: string
  jkt?: string
}

/**
 * This provider forgets the JWTs that it makes, so they cannot be introspected. Others do not forget. So each one gets
 * an opaque twin, whose name is its `jti`, and introspection of the JWT gives the answer about the twin.
 */
async function addTwin (
  provider: Provider,
  _context: unknown,
  { client, aud, scope, jkt }: Twin,
  { payload }: Parameters<Customizer>[2]
) {
  const { ClientCredentials } = provider as unknown as {
    ClientCredentials: new(parts: object) => Twin & { setAudience (audience: string): void, save (): Promise<string> }
  }
  const twin = new ClientCredentials({ client, scope, expiresIn: 600 })
  twin.setAudience(aud)
  if (jkt !== undefined) twin.jkt = jkt
  payload.jti = await twin.save()
}

function twinOf (token: string) {
  const [, payload] = token.split('.')
  return payload === undefined
    ? token
    : (JSON.parse(Buffer.from(payload, 'base64url').toString()) as { jti: string }).jti
}

async function readBody (request: IncomingMessage) {
  let body = ''
  for await (const chunk of request) body += chunk
  return body
}
