import type { ClientAuthentication } from '../../guard/provider/client-authentication.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { documentUrls, parseDocument, readAnswer, verifyNamedIssuer } from '../../guard/provider/provider-document.ts'
import { ProviderFailure } from '../../guard/provider/provider-failure.ts'
import { parseIssuer, parseOwnUri } from '../../guard/provider/provider-url.ts'
import {
  withSession,
  type ProviderAnswer,
  type ProviderRequest,
  type Transport
} from '../../guard/provider/transport.ts'
import { isStreamStatus } from './stream-news.ts'
import { isBeyondEvents } from '../security-event-token.ts'
import { originsOf, type TransmitterAddress, type TransmitterConfiguration } from './configuration.ts'

export interface TransmitterClientOptions extends TransmitterAddress {
  /** Absent if calls carry no token. */
  readonly authenticate: ClientAuthentication | undefined
  readonly tokenEndpoint?: string
  /** For calls that do more than fetch keys. */
  readonly calls: Transport
  /** The newest one. It must be known before the first call. */
  readonly configuration: () => TransmitterConfiguration | undefined
  /** Ends every call. */
  readonly closing?: AbortSignal
}

export type TransmitterClient = ReturnType<typeof createTransmitterClient>

/** The streams of a client, as their transmitter says. */
interface StreamList {
  readonly streams: readonly JsonObject[]
  /** Whether it answered with a list, in which a stream may be shortened. */
  readonly isList: boolean
  /** Not if there is no endpoint for them, or if it cannot be read: none are known then. */
  readonly isRead: boolean
}

const SCOPES = 'ssf.manage ssf.read'
const TOO_MANY = 429
/** Of an endpoint that does not know the method, or that is not there. */
export const CANNOT: readonly number[] = Object.freeze([404, 405, 501])
/** The beginning of the first event in the answer to a poll, up to its text. The next quotation mark ends that. */
const FIRST_SET = /"sets"\s*:\s*\{\s*("(?:[^"\\]|\\.){1,1000}")\s*:\s*"/

/**
 * Calls of a receiver to the endpoints of its stream (SSF 1.0 section 8). All of them reject with ProviderFailure. Each
 * request has its own deadline. Those that change a stream are in `ensure-stream.ts`.
 */
export function createTransmitterClient (
  { issuer, metadata, authenticate, tokenEndpoint, configuration, calls, closing }: TransmitterClientOptions
) {
  let token: string | undefined

  const send = (url: string, request?: ProviderRequest) =>
    withSession(calls, session => session.send(url, request), closing)

  async function fetchToken (prove: ClientAuthentication): Promise<string> {
    const url = tokenEndpoint ?? await discoverTokenEndpoint()
    const ask = async (scope: object) =>
      send(url, await prove({ grant_type: 'client_credentials', ...scope }))
    let answer = await ask({ scope: SCOPES })
    // Not every provider has scopes for its streams.
    if (answer.status === 400) answer = await ask({})
    const { access_token: text } = await readAnswer(answer, parse)
    if (typeof text !== 'string') throw new ProviderFailure('discovery_malformed')
    return text
  }

  /**
   * By OpenID Connect Discovery 1.0, else by RFC 8414: an address that fails does not end the search. The client's
   * secret goes there.
   */
  async function discoverTokenEndpoint (): Promise<string> {
    let failure: ProviderFailure | undefined
    for (const url of documentUrls(parseIssuer(issuer))) {
      try {
        const answer = await send(url)
        // Some servers forbid what they do not have.
        if (answer.status >= 400 && answer.status < 500) continue
        const found = await readAnswer(answer, readTokenEndpoint)
        if (found !== undefined) return found
      } catch (error) {
        failure ??= error as ProviderFailure
      }
    }
    throw failure ?? new ProviderFailure('discovery_malformed', undefined, { expected: 'a token_endpoint' })
  }

  function readTokenEndpoint (body: Buffer): string | undefined {
    const { issuer: named, token_endpoint: endpoint } = parse(body)
    verifyNamedIssuer(named, issuer)
    return typeof endpoint === 'string' ? parseOwnUri(endpoint, originsOf({ issuer, metadata })) : undefined
  }

  /**
   * One call with the token of the client.
   * @param passing statuses that are no failure, beside those of success
   */
  async function call (
    method: NonNullable<ProviderRequest['method']>,
    url: string,
    { body, passing = [], ...more }: {
      body?: object,
      passing?: readonly number[],
      isCuttable?: boolean
    } = {}
  ): Promise<ProviderAnswer> {
    const isNew = token === undefined
    let answer = await attempt()
    if (answer.status === 401 && !isNew && authenticate) {
      token = undefined
      answer = await attempt()
    }
    const { status } = answer
    if ((status < 200 || status > 299) && !passing.includes(status)) throw new ProviderFailure('status', status)
    return answer

    async function attempt (): Promise<ProviderAnswer> {
      if (authenticate) token ??= await fetchToken(authenticate)
      return send(url, {
        ...more,
        method,
        headers: {
          ...token !== undefined && { authorization: `Bearer ${token}` },
          ...body && { 'content-type': 'application/json' }
        },
        ...body && { body: JSON.stringify(body) }
      })
    }
  }

  return {
    call,
    /**
     * One poll (RFC 8936 section 2). Resolves with the events by their `jti`. Of an answer that is too large it is only
     * the first, as far as it was read.
     */
    async poll (url: string, body: object): Promise<{ sets: ReadonlyArray<[string, unknown]>, isWhole: boolean }> {
      const answer = await call('POST', url, { body, isCuttable: true })
      // More entries than could be events take long to parse.
      if (answer.isCut || isBeyondEvents(answer.body)) return { sets: [firstSetIn(answer.body)], isWhole: false }
      const { sets } = parse(answer.body)
      // RFC 8936 section 2.3: always there. Some write an empty object as a list.
      const events = Array.isArray(sets) && sets.length === 0 ? {} : sets
      if (!isJsonObject(events)) throw new ProviderFailure('discovery_malformed')
      return { sets: Object.entries(events), isWhole: true }
    },
    /** The streams of this client, or the one with an ID. */
    async readStreams (streamId?: string): Promise<StreamList> {
      const url = configuration()!.configurationEndpoint
      if (url === undefined) return { streams: [], isList: false, isRead: false }
      const { status, body } = await call('GET', withStreamId(url, streamId), { passing: CANNOT })
      const text = body.toString('utf8').trim()
      // No stream has this ID.
      const isAbsent = status === 404 && streamId !== undefined
      if (CANNOT.includes(status) || text === '') {
        return { streams: [], isList: false, isRead: isAbsent || !CANNOT.includes(status) }
      }
      // A transmitter may answer with one stream, or with the list of all.
      const isList = text.startsWith('[')
      const streams = isList ? parse(Buffer.from(`{"streams":${text}}`)).streams as unknown[] : [parse(body)]
      return { streams: streams.filter(isJsonObject), isList, isRead: true }
    },
    /** `enabled`, `paused` or `disabled`, or undefined if there is no endpoint for it, or another word. */
    async readStatus (streamId: string): Promise<string | undefined> {
      const endpoint = configuration()!.statusEndpoint
      if (endpoint === undefined) return undefined
      const { status } = parse((await call('GET', withStreamId(endpoint, streamId))).body)
      return isStreamStatus(status) ? status : undefined
    },
    /** Has a verification event sent, if there is an endpoint for it. */
    async requestVerification (streamId: string, state: string) {
      const url = configuration()!.verificationEndpoint
      // If it was verified lately, the next time will do.
      if (url !== undefined) await call('POST', url, { body: { stream_id: streamId, state }, passing: [TOO_MANY] })
    }
  }
}

/** The address of one stream, or of all. */
export function withStreamId (endpoint: string, streamId: string | undefined): string {
  const url = new URL(endpoint)
  if (streamId !== undefined) url.searchParams.set('stream_id', streamId)
  return url.href
}

/** @throws ProviderFailure not_json, discovery_malformed */
function parse (body: Buffer): JsonObject {
  return parseDocument(body, 'discovery_malformed')
}

/** @throws ProviderFailure too_large if there is none */
function firstSetIn (body: Buffer): [jti: string, text: string] {
  const text = body.toString('utf8')
  const found = FIRST_SET.exec(text)
  if (!found) throw new ProviderFailure('too_large')
  const start = found.index + found[0].length
  const end = text.indexOf('"', start)
  return [(parse(Buffer.from(`{"jti":${found[1]}}`)).jti) as string, text.slice(start, end < 0 ? undefined : end)]
}
