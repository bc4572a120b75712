import { createHash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { basicCredentials } from '../lib/guard/provider/client-authentication.ts'
import { documentUrls } from '../lib/guard/provider/provider-document.ts'
import { exchange, exchangeWithNonce, NoAnswer, readObject, type Addresses } from './exchange.ts'

export type ProofKey = Awaited<ReturnType<typeof createProofKey>>

interface ProofInput {
  method: string
  url: string
  nonce?: string
  /** The access token that the proof goes with; none for the token endpoint. */
  token?: string
  /** Seconds since the epoch; now when absent. */
  iat?: number
}

/** A key that lives as long as the process, to sign proofs with (RFC 9449 section 4.2). */
export async function createProofKey () {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk = await exportJWK(publicKey)
  // RFC 7638: what `cnf.jkt` of a token bound to this key holds.
  return { privateKey, jwk, thumbprint: await calculateJwkThumbprint(jwk) }
}

/** A proof by that key. */
export async function createProof (key: ProofKey, { method, url, nonce, token, iat }: ProofInput): Promise<string> {
  const claims = {
    htm: method,
    htu: url.split(/[?#]/, 1)[0],
    ath: token === undefined ? undefined : createHash('sha256').update(token).digest('base64url'),
    nonce
  }
  return new SignJWT(claims)
    .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk: key.jwk })
    .setJti(randomUUID())
    .setIssuedAt(iat)
    .sign(key.privateKey)
}

interface TokenInput {
  issuer: string
  clientId: string
  clientSecret: string
  audience?: string
  scope?: string
  /** The body of the token request; a form is what RFC 6749 section 4.4.2 asks for. */
  body: 'form' | 'json'
  /** Further parameters of the token request, such as `resource`. */
  parameters: ReadonlyArray<readonly [string, string]>
  /** Asks for a token bound to this key. */
  key?: ProofKey
  addresses?: Addresses
}

/**
 * Gets an access token by the client credentials grant, with one more try when a nonce is asked for. `parameters` are
 * what was sent, without the secret.
 */
export async function requestToken (input: TokenInput, env: NodeJS.ProcessEnv) {
  const { issuer, clientId, clientSecret, audience, scope, key, addresses } = input
  const { url, usesBasic } = await discover(issuer, env, addresses)
  const parameters: Record<string, string> = {
    grant_type: 'client_credentials',
    ...audience !== undefined && { audience },
    ...scope !== undefined && { scope },
    ...Object.fromEntries(input.parameters)
  }
  const headers: Record<string, string> = { accept: 'application/json' }
  const isJson = input.body === 'json'
  if (!isJson && usesBasic) headers['authorization'] = basicCredentials(clientId, clientSecret)
  else Object.assign(parameters, { client_id: clientId, client_secret: clientSecret })
  headers['content-type'] = isJson ? 'application/json' : 'application/x-www-form-urlencoded'
  const body = isJson ? JSON.stringify(parameters) : String(new URLSearchParams(parameters))
  const { answer } = await exchangeWithNonce(async nonce => {
    if (key !== undefined) headers['dpop'] = await createProof(key, { method: 'POST', url, nonce })
    return exchange({ method: 'POST', url, headers: { ...headers }, body, addresses }, env)
  })
  const token = readObject(answer)['access_token']
  delete parameters['client_secret']
  return { exchange: answer, parameters, token: answer.status === 200 && typeof token === 'string' ? token : undefined }
}

/** The token endpoint, and whether it takes the secret in a header: if it names no method, it does (RFC 8414). */
async function discover (
  issuer: string,
  env: NodeJS.ProcessEnv,
  addresses: Addresses | undefined
): Promise<{ url: string, usesBasic: boolean }> {
  let failure = ''
  for (const url of documentUrls(`${issuer.replace(/\/$/, '')}/`)) {
    const answer = await exchange({ method: 'GET', url, addresses }, env)
    const { token_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = readObject(answer)
    if (answer.status === 200 && typeof endpoint === 'string' && URL.canParse(endpoint)) {
      const usesBasic = !Array.isArray(methods) || !methods.includes('client_secret_post')
      return { url: new URL(endpoint).href, usesBasic }
    }
    failure ||= `GET ${url}: answered ${answer.status}, with no token_endpoint`
    if (answer.status !== 404) break
  }
  throw new NoAnswer(failure)
}
