import { validateHeaderValue } from 'node:http'
import { isIP, type LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { parseNoProxy, proxyUrl } from '../lib/guard/provider/proxies.ts'
import { asObject, parseJson } from './input.ts'

/** One request and its answer, as they are shown. */
export type Exchange = Awaited<ReturnType<typeof exchange>>

/** The other side gave no answer that could be used; the message says which side and why. */
export class NoAnswer extends Error {}

/** The IP address of a host with its port, such as `api.example:443`, in the place of that of DNS. */
export type Addresses = ReadonlyMap<string, string>

const DEADLINE_MS = 15_000
const MAX_CHARACTERS = 1_000_000

/** Follows no redirect: the proof is for one URL, and the token for one API. */
export async function exchange (
  { method, url, headers = {}, body, addresses }: {
    method: string,
    url: string,
    headers?: Record<string, string>,
    body?: string,
    addresses?: Addresses
  },
  env: NodeJS.ProcessEnv
) {
  let dispatcher: Dispatcher | undefined
  try {
    dispatcher = await wayTo(url, env, addresses)
    // fetch would show the value of a header that cannot be sent, and it may be a token.
    for (const [name, value] of Object.entries(headers)) validateHeaderValue(name, value.trim())
    const response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(DEADLINE_MS),
      ...body !== undefined && { body },
      ...dispatcher !== undefined && { dispatcher } as object
    })
    const text = await response.text()
    return {
      method,
      url,
      requestHeaders: headers,
      sentBody: body,
      status: response.status,
      statusText: response.statusText,
      headers: response.headers,
      body: text.slice(0, MAX_CHARACTERS)
    }
  } catch (error) {
    throw new NoAnswer(`${method} ${url}: ${reasonOf(error as Error, new URL(url).protocol)}`)
  } finally {
    // Otherwise the tool would wait for connections that are kept.
    await dispatcher?.destroy()
  }
}

/**
 * Sends, and once more when the answer asks for its nonce (RFC 9449 sections 8 and 9). `nonce` is the one that was
 * asked for.
 */
export async function exchangeWithNonce (
  send: (nonce?: string) => Promise<Exchange>
): Promise<{ answer: Exchange, nonce: string | undefined }> {
  const answer = await send()
  const nonce = answer.headers.get('dpop-nonce') ?? undefined
  const challenge = answer.headers.get('www-authenticate') ?? ''
  const isAsked = nonce !== undefined &&
    (/error="use_dpop_nonce"/.test(challenge) || readObject(answer)['error'] === 'use_dpop_nonce')
  return isAsked ? { answer: await send(nonce), nonce } : { answer, nonce: undefined }
}

/** The members of the body, none if it is no JSON object. */
export function readObject ({ body }: Exchange): Record<string, unknown> {
  return asObject(parseJson(body)) ?? {}
}

/** The built-in fetch of Node 20 and 22 knows nothing of proxies. */
async function wayTo (
  url: string,
  env: NodeJS.ProcessEnv,
  addresses: Addresses | undefined
): Promise<Dispatcher | undefined> {
  const [httpProxy, httpsProxy, noProxy = ''] = ['http_proxy', 'https_proxy', 'no_proxy'].map(name =>
    env[name] || env[name.toUpperCase()]
  )
  const to = new URL(url)
  const isHttps = to.protocol === 'https:'
  const address = addresses?.get(`${to.hostname}:${to.port || (isHttps ? 443 : 80)}`)
  if (address === undefined) {
    if (isLoopback(to) || parseNoProxy(noProxy)(to)) return undefined
    const proxy = proxyUrl((isHttps && httpsProxy) || httpProxy)
    return proxy === undefined ? undefined : new (await import('undici')).ProxyAgent(proxy)
  }
  const { Agent } = await import('undici')
  const lookup: LookupFunction = (_host, _options, done) => done(null, [{ address, family: isIP(address) }])
  return new Agent({ connect: { lookup } })
}

function isLoopback ({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')
}

/** fetch says "fetch failed" and hides the reason one or two levels down. */
function reasonOf (error: Error & { code?: string }, protocol: string): string {
  const { cause, code = '' } = error
  if (error.name === 'TimeoutError') return `no answer within ${DEADLINE_MS / 1000} seconds`
  if (cause instanceof Error) return reasonOf(cause, protocol)
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return reasonOf(error.errors[0], protocol)
  const message = error.message || code || 'no answer'
  if (protocol === 'https:' && NOT_TLS.test(code)) {
    return `the port does not speak TLS (${code}). Is it http:// in the place of https://?`
  }
  if (protocol === 'http:' && NOT_HTTP.test(code)) {
    return `${message}. Does the port speak TLS? Then it is https:// in the place of http://`
  }
  return code === 'ECONNREFUSED' ? `${message}. Nothing listens there. Is it still starting?` : message
}

/** What a plain port answers is no TLS record. */
const NOT_TLS = /^(?:EPROTO|ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG))$/
/** A TLS port closes, or answers with an alert that is no HTTP. */
const NOT_HTTP = /^(?:UND_ERR_SOCKET|ECONNRESET|HPE_INVALID_CONSTANT|HPE_INVALID_VERSION)$/
