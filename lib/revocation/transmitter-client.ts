import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { printable } from '../printable.ts'
import { parseDocument, readAnswer, readDiscovery } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import type { ProviderAnswer, ProviderSession, Transport } from '../provider/transport.ts'
import { isStreamStatus } from './effects.ts'

/** Where a transmitter is found: one of them, or both. */
export interface TransmitterAddress {
  readonly issuer?: string | undefined
  readonly metadata?: string | undefined
}

/** The address of the configuration: the well-known path is put before the path of the issuer (RFC 8615, SSF 1.0 section 7.2). */
export function configurationUrlOf ({ issuer, metadata }: TransmitterAddress): string {
  if (metadata !== undefined) return metadata
  const { origin, pathname } = new URL(issuer!)
  return `${origin}/.well-known/ssf-configuration${withoutTrailingSlash(pathname)}`
}

/** The configuration of a transmitter (SSF 1.0 section 7.1), as far as a receiver needs it. */
export type TransmitterConfiguration = Awaited<ReturnType<typeof fetchTransmitterConfiguration>>

/**
 * Fetches the configuration. Its keys must be at its own host: whoever can change one document must not make others sign.
 * @throws ProviderFailure
 */
export async function fetchTransmitterConfiguration (address: TransmitterAddress, exchange: ProviderSession) {
  const url = configurationUrlOf(address)
  return readAnswer(await exchange.send(url), body => {
    const document = documentOf({ body })
    const { issuer, jwks_uri: jwksUri, default_subjects: defaultSubjects, critical_subject_members: critical, delivery_methods_supported: methods } = document
    if (typeof issuer !== 'string' || typeof jwksUri !== 'string') throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
    if (address.issuer !== undefined && withoutTrailingSlash(issuer) !== withoutTrailingSlash(address.issuer)) {
      throw new ProviderFailure('discovery_issuer', undefined, { expected: address.issuer, found: printable(issuer) })
    }
    const keysUrl = parseDiscoveredUri(jwksUri, url, 'jwks_uri_refused')
    if (new URL(keysUrl).host !== new URL(url).host) throw new ProviderFailure('jwks_uri_refused', undefined, { expected: `an address at ${new URL(url).host}`, found: printable(jwksUri) })
    return Object.freeze({
      issuer,
      jwksUri: keysUrl,
      configurationEndpoint: endpoint('configuration_endpoint'),
      statusEndpoint: endpoint('status_endpoint'),
      verificationEndpoint: endpoint('verification_endpoint'),
      /** `NONE`: nothing is sent until subjects are added. */
      defaultSubjects: typeof defaultSubjects === 'string' ? defaultSubjects : undefined,
      /** Undefined if it does not say. */
      deliveryMethods: Array.isArray(methods) ? textsIn(methods) : undefined,
      criticalMembers: Array.isArray(critical) ? textsIn(critical) : []
    })

    function endpoint (name: string): string | undefined {
      const value = document[name]
      return typeof value === 'string' ? parseDiscoveredUri(value, url, 'discovery_malformed') : undefined
    }
  })
}

function textsIn (values: readonly unknown[]): readonly string[] {
  return values.filter(value => typeof value === 'string')
}

/** Runs something with an exchange of its own. */
export async function exchanging<Result> (transport: Transport, run: (exchange: ProviderSession) => Promise<Result>): Promise<Result> {
  const exchange = transport.open()
  try {
    return await run(exchange)
  } finally {
    exchange.close()
  }
}

export interface TransmitterClientOptions {
  readonly clientId?: string | undefined
  readonly clientSecret: string | undefined
  readonly tokenEndpoint?: string | undefined
  /** For calls that do more than fetch keys. */
  readonly calls: Transport
  /** The newest one. It must be known before the first call. */
  readonly configuration: () => TransmitterConfiguration | undefined
}

export type TransmitterClient = ReturnType<typeof createTransmitterClient>

const SCOPES = 'ssf.manage ssf.read'
const CONFLICT = 409
const TOO_MANY = 429

/** Calls of a receiver to the endpoints of its stream (SSF 1.0 section 8). All of them reject with ProviderFailure. */
export function createTransmitterClient ({ clientId, clientSecret, tokenEndpoint, configuration, calls }: TransmitterClientOptions) {
  let token: string | undefined

  async function fetchToken (exchange: ProviderSession): Promise<string> {
    const url = tokenEndpoint ?? await discoverTokenEndpoint(exchange)
    const form = (scope: object): string => new URLSearchParams({ grant_type: 'client_credentials', ...scope }).toString()
    const credentials = [clientId!, clientSecret ?? ''].map(encodeURIComponent).join(':')
    const headers = { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }
    let answer = await exchange.send(url, { headers, body: form({ scope: SCOPES }) })
    // Not every provider has scopes for its streams.
    if (answer.status === 400) answer = await exchange.send(url, { headers, body: form({}) })
    if (answer.status !== 200) throw new ProviderFailure('status', answer.status)
    const { access_token: text } = documentOf(answer)
    if (typeof text !== 'string') throw new ProviderFailure('discovery_malformed')
    return text
  }

  async function discoverTokenEndpoint (exchange: ProviderSession): Promise<string> {
    const { issuer } = configuration()!
    const found = await readDiscovery(issuer, exchange, ({ token_endpoint: named }) => typeof named === 'string' ? parseDiscoveredUri(named, issuer, 'discovery_malformed') : undefined)
    return found ?? malformed()
  }

  /** @param passing a status that is no failure, beside those of success */
  function call (url: string, method: 'GET' | 'POST' | 'PATCH', body?: object, passing?: number): Promise<ProviderAnswer> {
    return exchanging(calls, async exchange => {
      const isNew = token === undefined
      let answer = await send(exchange)
      if (answer.status === 401 && !isNew && clientId !== undefined) {
        token = undefined
        answer = await send(exchange)
      }
      const { status } = answer
      if ((status < 200 || status > 299) && status !== passing) throw new ProviderFailure('status', status)
      return answer
    })

    async function send (exchange: ProviderSession): Promise<ProviderAnswer> {
      if (clientId !== undefined) token ??= await fetchToken(exchange)
      return exchange.send(url, {
        method,
        headers: { ...token !== undefined && { authorization: `Bearer ${token}` }, ...body && { 'content-type': 'application/json' } },
        ...body && { body: JSON.stringify(body) }
      })
    }
  }

  async function readStream (): Promise<JsonObject | undefined> {
    const url = configuration()!.configurationEndpoint
    if (url === undefined) return undefined
    const answer = await call(url, 'GET')
    const text = answer.body.toString('utf8').trim()
    // A transmitter may answer with the list of the client's streams.
    if (!text.startsWith('[')) return documentOf(answer)
    const [first] = documentOf({ body: Buffer.from(`{"streams":${text}}`) }).streams as JsonObject[]
    return first
  }

  return {
    /** One poll (RFC 8936 section 2). Resolves with what the transmitter says. */
    poll: async (url: string, request: object): Promise<JsonObject> => documentOf(await call(url, 'POST', request)),
    /** The stream of this client. */
    readStream,
    /** Creates the stream. If it exists already, its settings are changed to what is wanted. */
    async ensureStream (wanted: JsonObject): Promise<JsonObject> {
      const url = configuration()!.configurationEndpoint ?? malformed()
      const created = await call(url, 'POST', wanted, CONFLICT)
      if (created.status !== CONFLICT) return documentOf(created)
      const { stream_id: id, delivery: found } = await readStream() ?? malformed()
      const { delivery, ...others } = wanted
      return documentOf(await call(url, 'PATCH', { stream_id: id, ...others, ...!isDelivered(found, delivery) && { delivery } }))
    },
    /** `enabled`, `paused` or `disabled`. Undefined if there is no endpoint for it, or another word. */
    async readStatus (streamId: string): Promise<string | undefined> {
      const endpoint = configuration()!.statusEndpoint
      if (endpoint === undefined) return undefined
      const url = new URL(endpoint)
      url.searchParams.set('stream_id', streamId)
      const { status } = documentOf(await call(url.href, 'GET'))
      return isStreamStatus(status) ? status : undefined
    },
    /** Has a verification event sent, if there is an endpoint for it. */
    async requestVerification (streamId: string, state: string): Promise<void> {
      const url = configuration()!.verificationEndpoint
      // If it was verified lately, the next time will do.
      if (url !== undefined) await call(url, 'POST', { stream_id: streamId, state }, TOO_MANY)
    }
  }
}

/**
 * Whether a stream is polled already, as is wanted. The transmitter chooses its address, and Keycloak forgets it for good if it is sent
 * a delivery without one.
 */
function isDelivered (found: unknown, wanted: unknown): boolean {
  return isJsonObject(found) && isJsonObject(wanted) && found.method === wanted.method && wanted.endpoint_url === undefined
}

/** @throws ProviderFailure not_json, discovery_malformed */
function documentOf ({ body }: Pick<ProviderAnswer, 'body'>): JsonObject {
  return parseDocument(body, 'discovery_malformed')
}

function malformed (): never {
  throw new ProviderFailure('discovery_malformed')
}
