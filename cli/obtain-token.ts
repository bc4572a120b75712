import { createAuthentication } from '../lib/assembly/client-credentials.ts'
import { createDiscovery } from '../lib/guard/provider/provider-document.ts'
import { ProviderFailure } from '../lib/guard/provider/provider-failure.ts'
import { isFetchableIssuer, parseDiscoveredUri, withoutTrailingSlash } from '../lib/guard/provider/provider-url.ts'
import { createTransport } from '../lib/guard/provider/transport.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { failureText } from './findings.ts'
import { parseJson, asObject } from './input.ts'

/** A token that the provider has issued, and for whom. */
interface ObtainedToken {
  readonly text: string
  readonly whose: string
  /** Whether the operator named it. */
  readonly isNamed: boolean
}

/** There is no token. The message says why. */
export class NoToken extends Error {}

/**
 * An access token to try introspection with: that of CALL_TOKEN; else one by client credentials, for the client of
 * CALL_CLIENT_ID, else for the client that introspects tokens. With several issuers, what CALL_... says is only for the
 * one that CALL_ISSUER names: no other issuer gets a token or a secret of it.
 * @throws NoToken
 */
export async function obtainToken (
  issuer: IssuerSettings & { readonly introspection: IntrospectionSettings },
  settings: Settings,
  env: NodeJS.ProcessEnv
): Promise<ObtainedToken> {
  const { CALL_TOKEN: token, CALL_CLIENT_ID: clientId, CALL_CLIENT_SECRET: clientSecret } =
    isMeant(issuer, settings, env) ? env : {}
  if (token) return { text: token, whose: 'of CALL_TOKEN', isNamed: true }
  const { introspection } = issuer
  const auth = introspection.auth === 'client_secret_post' ? introspection.auth : 'client_secret_basic'
  const client = clientId && clientSecret ? { ...introspection, clientId, clientSecret, auth } as const : introspection
  return {
    text: await requestToken({ ...issuer, introspection: client }, settings),
    whose: `that it has issued to the client ${client.clientId}`,
    isNamed: false
  }
}

function isMeant (
  { issuer }: IssuerSettings,
  { idp: { issuers } }: Settings,
  { CALL_ISSUER: named }: NodeJS.ProcessEnv
): boolean {
  return named ? withoutTrailingSlash(named) === withoutTrailingSlash(issuer) : issuers.length === 1
}

/**
 * Client credentials (RFC 6749 section 4.4). `audience` is for the providers that choose the API by it. @throws NoToken
 */
async function requestToken (
  { issuer, audiences: [audience], introspection }: IssuerSettings & { readonly introspection: IntrospectionSettings },
  { proxies }: Settings
): Promise<string> {
  if (!isFetchableIssuer(issuer)) {
    throw new NoToken('its issuer is a mere name, under which no token_endpoint can be found')
  }
  const transport = createTransport({ ...proxies, keepAlive: true })
  const session = transport.open()
  const { clientId } = introspection
  try {
    const discovery = createDiscovery(issuer)
    const endpoint = await discovery.read(
      session,
      ({ token_endpoint: named }) =>
        typeof named === 'string' ? parseDiscoveredUri(named, issuer, 'discovery_malformed') : undefined
    )
    if (endpoint === undefined) throw new NoToken('its discovery document names no token_endpoint')
    const authenticate = await createAuthentication(discovery.spelling, introspection, processSurroundings)
    const request = await authenticate({ grant_type: 'client_credentials', audience: audience! })
    const headers = { ...request.headers, accept: 'application/json' }
    const { status, body } = await session.send(endpoint, { ...request, headers })
    const { access_token: token, error } = asObject(parseJson(body.toString('utf8'))) ?? {}
    if (status === 200 && typeof token === 'string' && token !== '') return token
    throw new NoToken(
      `it gave the client ${clientId} none: POST ${endpoint} answered ${status}${
        typeof error === 'string' ? ` ${error.slice(0, 100)}` : ''
      }`
    )
  } catch (error) {
    if (error instanceof ProviderFailure) throw new NoToken(`it could not be asked for one: ${failureText(error)}`)
    throw error
  } finally {
    session.close()
    transport.close()
  }
}
