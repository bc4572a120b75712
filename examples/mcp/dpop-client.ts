import {
  Client,
  DpopSession,
  StreamableHTTPClientTransport,
  UnauthorizedError,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  type VersionNegotiationMode
} from '@modelcontextprotocol/client'
import type { McpClient, McpClientOptions } from './client.ts'
import { addAsked, askedOfLogin, listenForCode } from './login.ts'

export interface DpopClientOptions extends McpClientOptions {
  /** Which form of the protocol: `auto` asks the server whether it has the newer one, which has no sessions. */
  readonly mode?: VersionNegotiationMode
  /** Whether tokens are bound to a key of this client. Default: true */
  readonly isBound?: boolean
}

/**
 * A client by version 2 of the official SDK. Its tokens are bound to a key that never leaves this process, and each
 * request carries a proof of it (RFC 9449), made by the SDK's own session. Everything else is as in client.ts.
 */
export async function createDpopClient (
  { url, clientId, redirectUrl, onLogin, fetch = globalThis.fetch, mode = 'auto', isBound = true }: DpopClientOptions
): Promise<McpClient> {
  const callback = await listenForCode(redirectUrl)
  let asked: ReadonlyMap<string, string> = new Map()
  const session = isBound ? await DpopSession.create() : undefined
  let tokens: OAuthTokens | undefined
  let verifier = ''
  let discovered: OAuthDiscoveryState | undefined
  const authProvider: OAuthClientProvider = {
    redirectUrl,
    clientMetadata: { redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none' },
    clientInformation: () => ({ client_id: clientId }),
    state: () => callback.state,
    tokens: () => tokens,
    saveTokens: given => {
      tokens = given
    },
    saveCodeVerifier: given => {
      verifier = given
    },
    codeVerifier: () => verifier,
    saveDiscoveryState: given => {
      discovered = given
    },
    discoveryState: () => discovered,
    redirectToAuthorization: loginUrl => onLogin(addAsked(loginUrl, asked)),
    dpop: () => session
  }
  const client = new Client({ name: 'holdfast-example-client', version: '2.0.0' }, { versionNegotiation: { mode } })
  const newTransport = () =>
    new StreamableHTTPClientTransport(new URL(url), {
      authProvider,
      fetch: async (input, init) => {
        const answer = await fetch(input, init)
        if (answer.status === 401 || answer.status === 403) {
          asked = askedOfLogin(answer.headers.get('www-authenticate') ?? '')
        }
        return answer
      }
    })
  let transport = newTransport()

  /** Does the work, and once more if a login was needed. */
  async function withLogin<T> (work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error
      await transport.finishAuth(await callback.nextAnswer())
      return work()
    }
  }

  try {
    await withLogin(() => {
      transport = newTransport()
      return client.connect(transport)
    })
  } catch (error) {
    callback.close()
    throw error
  }
  return {
    async call (name, args = {}) {
      const { content } = await withLogin(() => client.callTool({ name, arguments: args }))
      return (content as Array<{ text?: string }>).map(({ text }) => text).join('\n')
    },
    toolNames: async () => (await client.listTools()).tools.map(({ name }) => name),
    async close () {
      callback.close()
      await client.close()
    }
  }
}
