import type { ClientAuthentication } from '../../provider/client-authentication.ts'
import { isJsonObject } from '../../json.ts'
import type { JsonObject } from '../../json.ts'
import { parseDocument, readAnswer, verifyNamedIssuer } from '../../provider/provider-document.ts'
import { ProviderFailure } from '../../provider/provider-failure.ts'
import { parseIssuer, parseOwnUri } from '../../provider/provider-url.ts'
import { withSession } from '../../provider/transport.ts'
import type { ProviderAnswer, ProviderRequest, ProviderSession, Transport } from '../../provider/transport.ts'
import { isStreamStatus } from './stream-news.ts'
import { isBeyondEvents } from '../security-event-token.ts'
import { originsOf, wellKnownUrlOf } from './configuration.ts'
import type { TransmitterAddress, TransmitterConfiguration } from './configuration.ts'

export interface TransmitterClientOptions extends TransmitterAddress {
  /** Undefined if calls carry no token. */
  readonly authenticate: ClientAuthentication | undefined
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
/** Of an endpoint that does not know the method, or that is not there. */
export const CANNOT: readonly number[] = Object.freeze([404, 405, 501])

/** Calls of a receiver to the endpoints of its stream (SSF 1.0 section 8). All of them reject with ProviderFailure. */
export function createTransmitterClient (
  { issuer, metadata, authenticate, tokenEndpoint, configuration, calls }: TransmitterClientOptions
) {
  let token: string | undefined

  async function fetchToken (session: ProviderSession, prove: ClientAuthentication): Promise<string> {
    const url = tokenEndpoint ?? await discoverTokenEndpoint(session)
    const ask = async (scope: object): Promise<ProviderAnswer> =>
      session.send(url, await prove({ grant_type: 'client_credentials', ...scope }))
    let answer = await ask({ scope: SCOPES })
    // Not every provider has scopes for its streams.
    if (answer.status === 400) answer = await ask({})
    if (answer.status !== 200) throw new ProviderFailure('status', answer.status)
    const { access_token: text } = documentOf(answer)
    if (typeof text !== 'string') throw new ProviderFailure('discovery_malformed')
    return text
  }

  /** By OpenID Connect Discovery 1.0, else by RFC 8414. The client's secret goes there. */
  async function discoverTokenEndpoint (session: ProviderSession): Promise<string> {
    for (
      const url of [
        `${parseIssuer(issuer)}.well-known/openid-configuration`,
        wellKnownUrlOf(issuer, 'oauth-authorization-server')
      ]
    ) {
      const answer = await session.send(url)
      // Some servers forbid what they do not have.
      if (answer.status >= 400 && answer.status < 500) continue
      const found = await readAnswer(answer, readTokenEndpoint)
      if (found !== undefined) return found
    }
    throw new ProviderFailure('discovery_malformed', undefined, { expected: 'a token_endpoint' })
  }

  function readTokenEndpoint (body: Buffer): string | undefined {
    const { issuer: named, token_endpoint: endpoint } = documentOf({ body })
    verifyNamedIssuer(named, issuer)
    return typeof endpoint === 'string' ? parseOwnUri(endpoint, originsOf({ issuer, metadata })) : undefined
  }

  /** @param passing statuses that are no failure, beside those of success */
  function call (
    url: string,
    method: NonNullable<ProviderRequest['method']>,
    body?: object,
    passing: readonly number[] = []
  ): Promise<ProviderAnswer> {
    return withSession(calls, async session => {
      const isNew = token === undefined
      let answer = await send(session)
      if (answer.status === 401 && !isNew && authenticate) {
        token = undefined
        answer = await send(session)
      }
      const { status } = answer
      if ((status < 200 || status > 299) && !passing.includes(status)) throw new ProviderFailure('status', status)
      return answer
    })

    async function send (session: ProviderSession): Promise<ProviderAnswer> {
      if (authenticate) token ??= await fetchToken(session, authenticate)
      return session.send(url, {
        method,
        headers: {
          ...token !== undefined && { authorization: `Bearer ${token}` },
          ...body && { 'content-type': 'application/json' }
        },
        ...body && { body: JSON.stringify(body) }
      })
    }
  }

  const streamsUrl = (): string => configuration()!.configurationEndpoint ?? malformed()

  return {
    /** One poll (RFC 8936 section 2). Resolves with what the transmitter says. */
    async poll (url: string, request: object): Promise<JsonObject> {
      const answer = await call(url, 'POST', request)
      // More entries than could be events take long to parse.
      if (isBeyondEvents(answer.body)) throw new ProviderFailure('too_large')
      return documentOf(answer)
    },
    /** The streams of this client, or the one with an ID. None if the transmitter has no endpoint for them. */
    async readStreams (streamId?: string): Promise<readonly JsonObject[]> {
      const url = configuration()!.configurationEndpoint
      if (url === undefined) return []
      const answer = await call(streamId === undefined ? url : withStreamId(url, streamId), 'GET', undefined, CANNOT)
      const text = answer.body.toString('utf8').trim()
      if (CANNOT.includes(answer.status) || text === '') return []
      // A transmitter may answer with one stream, or with the list of all.
      const streams = text.startsWith('[')
        ? documentOf({ body: Buffer.from(`{"streams":${text}}`) }).streams as unknown[]
        : [documentOf(answer)]
      return streams.filter(isJsonObject)
    },
    /** Creates a stream. Undefined if the transmitter says that there is one already. */
    async createStream (wanted: object): Promise<JsonObject | undefined> {
      const answer = await call(streamsUrl(), 'POST', wanted, [CONFLICT])
      return answer.status === CONFLICT ? undefined : documentOf(answer)
    },
    /** Changes a stream. Resolves with the status of the answer if the transmitter cannot. */
    async changeStream (changes: object): Promise<number | undefined> {
      const { status } = await call(streamsUrl(), 'PATCH', changes, CANNOT)
      return CANNOT.includes(status) ? status : undefined
    },
    /** Ends a stream. */
    async deleteStream (streamId: string): Promise<void> {
      await call(withStreamId(streamsUrl(), streamId), 'DELETE')
    },
    /** `enabled`, `paused` or `disabled`. Undefined if there is no endpoint for it, or another word. */
    async readStatus (streamId: string): Promise<string | undefined> {
      const endpoint = configuration()!.statusEndpoint
      if (endpoint === undefined) return undefined
      const { status } = documentOf(await call(withStreamId(endpoint, streamId), 'GET'))
      return isStreamStatus(status) ? status : undefined
    },
    /** Has a verification event sent, if there is an endpoint for it. */
    async requestVerification (streamId: string, state: string): Promise<void> {
      const url = configuration()!.verificationEndpoint
      // If it was verified lately, the next time will do.
      if (url !== undefined) await call(url, 'POST', { stream_id: streamId, state }, [TOO_MANY])
    }
  }
}

function withStreamId (endpoint: string, streamId: string): string {
  const url = new URL(endpoint)
  url.searchParams.set('stream_id', streamId)
  return url.href
}

/** @throws ProviderFailure not_json, discovery_malformed */
function documentOf ({ body }: Pick<ProviderAnswer, 'body'>): JsonObject {
  return parseDocument(body, 'discovery_malformed')
}

function malformed (): never {
  throw new ProviderFailure('discovery_malformed', undefined, { expected: 'a configuration_endpoint' })
}
