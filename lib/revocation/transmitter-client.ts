import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { parseDocument } from '../provider/provider-document.ts'
import { readDiscovery } from '../provider/fetch-key-set.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, parseIssuer } from '../provider/provider-url.ts'
import type { ProviderAnswer, PostingSession, PostingTransport } from '../provider/transport.ts'
import type { TransmitterConfiguration } from './transmitter-configuration.ts'

export interface TransmitterClientOptions {
  readonly clientId?: string | undefined
  readonly clientSecret: string | undefined
  readonly tokenEndpoint?: string | undefined
  readonly configuration: () => TransmitterConfiguration | undefined
  readonly calls: PostingTransport
}

/** Calls of a receiver to the endpoints of its stream (SSF 1.0 section 8). All of them reject with ProviderFailure. */
export interface TransmitterClient {
  /** Creates the stream. If there is one, it is brought to what is wanted. */
  ensureStream (wanted: JsonObject): Promise<JsonObject>
  /** The stream of this client. */
  readStream (): Promise<JsonObject | undefined>
  /** `enabled`, `paused` or `disabled`. Undefined if it cannot be asked. */
  readStatus (streamId: string): Promise<string | undefined>
  /** Has a verification event sent, if there is an endpoint for it. */
  requestVerification (streamId: string, state: string): Promise<void>
  call (url: string, method: 'GET' | 'POST' | 'PATCH', body?: object): Promise<ProviderAnswer>
}

const SCOPES = 'ssf.manage ssf.read'
const CONFLICT = 409
const TOO_MANY = 429

export function createTransmitterClient ({ clientId, clientSecret, tokenEndpoint, configuration, calls }: TransmitterClientOptions): TransmitterClient {
  let token: string | undefined

  async function exchanging<Result> (run: (exchange: PostingSession) => Promise<Result>): Promise<Result> {
    const exchange = calls.open()
    try {
      return await run(exchange)
    } finally {
      exchange.close()
    }
  }

  async function fetchToken (exchange: PostingSession): Promise<string> {
    const url = tokenEndpoint ?? await discoverTokenEndpoint(exchange)
    const form = (scope: object): string => new URLSearchParams({ grant_type: 'client_credentials', ...scope }).toString()
    const credentials = [clientId!, clientSecret ?? ''].map(encodeURIComponent).join(':')
    const headers = { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }
    let answer = await exchange.post(url, { headers, body: form({ scope: SCOPES }) })
    // Not every provider has scopes for its streams.
    if (answer.status === 400) answer = await exchange.post(url, { headers, body: form({}) })
    if (answer.status !== 200) throw new ProviderFailure('status', answer.status)
    const { access_token: text } = parseDocument(answer.body, 'discovery_malformed')
    if (typeof text !== 'string') throw new ProviderFailure('discovery_malformed')
    return text
  }

  async function discoverTokenEndpoint (exchange: PostingSession): Promise<string> {
    const { issuer } = configuration()!
    const found = await readDiscovery({ issuer, base: parseIssuer(issuer) }, exchange, ({ token_endpoint: named }) => typeof named === 'string' ? parseDiscoveredUri(named, issuer, 'discovery_malformed') : undefined)
    if (found === undefined) throw new ProviderFailure('discovery_malformed')
    return found
  }

  function call (url: string, method: 'GET' | 'POST' | 'PATCH', body?: object): Promise<ProviderAnswer> {
    return exchanging(async exchange => {
      const isNew = token === undefined
      const first = await send(exchange)
      if (first.status !== 401 || isNew || clientId === undefined) return accepted(first)
      token = undefined
      return accepted(await send(exchange))
    })

    async function send (exchange: PostingSession): Promise<ProviderAnswer> {
      if (clientId !== undefined) token ??= await fetchToken(exchange)
      return exchange.post(url, {
        method,
        headers: { ...token !== undefined && { authorization: `Bearer ${token}` }, ...body && { 'content-type': 'application/json' } },
        ...body && { body: JSON.stringify(body) }
      })
    }
  }

  async function readStream (): Promise<JsonObject | undefined> {
    const url = configuration()!.configurationEndpoint
    if (url === undefined) return undefined
    const { body } = await call(url, 'GET')
    const text = body.toString('utf8').trim()
    // A transmitter may answer with the list of the client's streams.
    if (!text.startsWith('[')) return parseDocument(body, 'discovery_malformed')
    const [first] = parseDocument(Buffer.from(`{"streams":${text}}`), 'discovery_malformed').streams as JsonObject[]
    return first
  }

  return {
    call,
    readStream,
    async ensureStream (wanted) {
      const url = configuration()!.configurationEndpoint
      if (url === undefined) throw new ProviderFailure('discovery_malformed')
      try {
        return parseDocument((await call(url, 'POST', wanted)).body, 'discovery_malformed')
      } catch (error) {
        if ((error as ProviderFailure).detail !== CONFLICT) throw error
      }
      const found = await readStream()
      if (!found) throw new ProviderFailure('discovery_malformed')
      const { delivery, ...others } = wanted
      const changes = { ...others, ...!isDelivered(found.delivery, delivery) && { delivery } }
      return parseDocument((await call(url, 'PATCH', { stream_id: found.stream_id, ...changes })).body, 'discovery_malformed')
    },
    async readStatus (streamId) {
      const url = configuration()!.statusEndpoint
      if (url === undefined) return undefined
      const { status } = parseDocument((await call(withStream(url, streamId), 'GET')).body, 'discovery_malformed')
      return status === 'enabled' || status === 'paused' || status === 'disabled' ? status : undefined
    },
    async requestVerification (streamId, state) {
      const url = configuration()!.verificationEndpoint
      if (url === undefined) return
      try {
        await call(url, 'POST', { stream_id: streamId, state })
      } catch (error) {
        // It was verified lately: the next time will do.
        if ((error as ProviderFailure).detail !== TOO_MANY) throw error
      }
    }
  }
}

/**
 * Whether a stream is polled already, as is wanted. Its address is the transmitter's to say, and Keycloak forgets it for good if it is sent
 * a delivery without one.
 */
function isDelivered (found: unknown, wanted: unknown): boolean {
  return isJsonObject(found) && isJsonObject(wanted) && found.method === wanted.method && wanted.endpoint_url === undefined
}

/** @throws ProviderFailure status */
function accepted (answer: ProviderAnswer): ProviderAnswer {
  if (answer.status < 200 || answer.status > 299) throw new ProviderFailure('status', answer.status)
  return answer
}

function withStream (url: string, streamId: string): string {
  const whole = new URL(url)
  whole.searchParams.set('stream_id', streamId)
  return whole.href
}
