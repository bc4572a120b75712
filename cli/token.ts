import { exchange, exchangeWithNonce, NoAnswer, readObject } from './exchange.ts'
import type { Exchange } from './exchange.ts'
import { createProof } from './proof.ts'
import type { ProofKey } from './proof.ts'

export interface TokenInput {
  issuer: string
  clientId: string
  clientSecret: string
  audience?: string | undefined
  scope?: string | undefined
  /** The body of the token request; a form is what RFC 6749 section 4.4.2 asks for. */
  body: 'form' | 'json'
  /** Further parameters of the token request, such as `resource`. */
  parameters: ReadonlyArray<readonly [string, string]>
  /** Asks for a token bound to this key. */
  key?: ProofKey | undefined
}

export interface TokenAnswer {
  readonly exchange: Exchange
  /** What was sent, without the secret. */
  readonly parameters: Readonly<Record<string, string>>
  readonly token?: string
}

interface Discovery { token_endpoint?: unknown, token_endpoint_auth_methods_supported?: unknown }

/** Gets an access token by the client credentials grant, with one more try when a nonce is asked for. */
export async function requestToken (input: TokenInput, env: NodeJS.ProcessEnv): Promise<TokenAnswer> {
  const discovery = await discover(input.issuer, env)
  const parameters = tokenParameters(input)
  const headers: Record<string, string> = { accept: 'application/json' }
  if (usesBasic(discovery, input)) {
    headers['authorization'] = `Basic ${basic(input)}`
  } else {
    Object.assign(parameters, { client_id: input.clientId, client_secret: input.clientSecret })
  }
  headers['content-type'] = input.body === 'json' ? 'application/json' : 'application/x-www-form-urlencoded'
  const body = input.body === 'json' ? JSON.stringify(parameters) : String(new URLSearchParams(parameters))
  const url = discovery.token_endpoint
  const { answer } = await exchangeWithNonce(send)
  const token = readObject(answer)['access_token']
  delete parameters['client_secret']
  return { exchange: answer, parameters, ...answer.status === 200 && typeof token === 'string' && { token } }

  async function send (nonce?: string): Promise<Exchange> {
    if (input.key !== undefined) headers['dpop'] = await createProof(input.key, { method: 'POST', url, nonce })
    return exchange({ method: 'POST', url, headers: { ...headers }, body }, env)
  }
}

async function discover (issuer: string, env: NodeJS.ProcessEnv): Promise<Discovery & { token_endpoint: string }> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const answer = await exchange({ method: 'GET', url }, env)
  const document = readObject(answer) as Discovery
  if (answer.status !== 200 || typeof document.token_endpoint !== 'string' || !URL.canParse(document.token_endpoint)) {
    throw new NoAnswer(`GET ${url}: answered ${answer.status}, with no token_endpoint`)
  }
  return document as Discovery & { token_endpoint: string }
}

function tokenParameters ({ audience, scope, parameters }: TokenInput): Record<string, string> {
  return {
    grant_type: 'client_credentials',
    ...audience !== undefined && { audience },
    ...scope !== undefined && { scope },
    ...Object.fromEntries(parameters)
  }
}

/** RFC 8414 section 2: a provider that names no methods takes the Authorization header. */
function usesBasic (discovery: Discovery, input: TokenInput): boolean {
  if (input.body === 'json') return false
  const methods = discovery.token_endpoint_auth_methods_supported
  return !Array.isArray(methods) || !methods.includes('client_secret_post')
}

/** RFC 6749 section 2.3.1: each part is form-encoded before base64. */
function basic ({ clientId, clientSecret }: TokenInput): string {
  const encode = (text: string): string => new URLSearchParams({ '': text }).toString().slice(1)
  return Buffer.from(`${encode(clientId)}:${encode(clientSecret)}`).toString('base64')
}
