import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { UnauthorizedError, type OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js'
import { addAsked, askedOfLogin, listenForCode } from './login.ts'

export interface McpClientOptions {
  /** Of the server, such as http://localhost:8000/mcp. */
  readonly url: string
  /** This client at the provider: a public one, for the authorization code with PKCE. */
  readonly clientId: string
  /** Where the provider sends the browser back to: a free port of loopback that the provider knows for this client. */
  readonly redirectUrl: string
  /** Shows the login to the user. */
  readonly onLogin: (url: URL) => void
  readonly fetch?: typeof fetch
}

export interface McpClient {
  call (tool: string, args?: Record<string, unknown>): Promise<string>
  toolNames (): Promise<string[]>
  close (): Promise<void>
}

/**
 * A client by version 1 of the official SDK. It finds the provider by itself, and logs in when the server asks for it:
 * first, for further scopes, and for a newer or better login.
 */
export async function createMcpClient (
  { url, clientId, redirectUrl, onLogin, fetch = globalThis.fetch }: McpClientOptions
): Promise<McpClient> {
  const callback = await listenForCode(redirectUrl)
  let asked: ReadonlyMap<string, string> = new Map()
  const authProvider = createAuthProvider(clientId, redirectUrl, callback.state, loginUrl => {
    onLogin(addAsked(loginUrl, asked))
  })
  const client = new Client({ name: 'holdfast-example-client', version: '1.0.0' })
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
      await transport.finishAuth((await callback.nextAnswer()).get('code')!)
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

/** Keeps everything in memory. The provider knows this client, so nothing is registered. */
function createAuthProvider (
  clientId: string,
  redirectUrl: string,
  state: string,
  onLogin: (url: URL) => void
): OAuthClientProvider {
  let tokens: OAuthTokens | undefined
  let verifier = ''
  return {
    redirectUrl,
    clientMetadata: { redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none' },
    clientInformation: () => ({ client_id: clientId }),
    state: () => state,
    tokens: () => tokens,
    saveTokens: given => {
      tokens = given
    },
    saveCodeVerifier: given => {
      verifier = given
    },
    codeVerifier: () => verifier,
    redirectToAuthorization: onLogin
  }
}
