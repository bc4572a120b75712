import { isJsonObject } from '../../json.ts'
import type { JsonObject } from '../../json.ts'
import { printable } from '../../printable.ts'
import { ProviderFailure } from '../../provider/provider-failure.ts'
import { parseOwnUri, withoutTrailingSlash } from '../../provider/provider-url.ts'
import { KNOWN_EVENT_TYPES, STREAM_UPDATED, VERIFICATION } from '../effects.ts'
import type { TransmitterClient } from './client.ts'
import { originsOf } from './configuration.ts'
import type { TransmitterAddress } from './configuration.ts'

/** How events come, by the names of RFC 8935 and RFC 8936, and of the drafts before them. */
export const DELIVERY_METHODS = Object.freeze(
  {
    push: ['urn:ietf:rfc:8935', 'https://schemas.openid.net/secevent/risc/delivery-method/push'],
    poll: ['urn:ietf:rfc:8936', 'https://schemas.openid.net/secevent/risc/delivery-method/poll']
  } as const
)

/** What the settings want of a stream. */
export interface WantedStream {
  readonly delivery: 'push' | 'poll'
  /** Where events are pushed. */
  readonly pushUrl: string | undefined
  readonly pushAuthorization: string | undefined
  /** Which of several streams it is. */
  readonly streamId?: string | undefined
}

/** What the settings say of the stream of a transmitter. */
export interface StreamOptions extends WantedStream, TransmitterAddress {
  /** Whether it is created and changed. */
  readonly manage: boolean
  /** Where it is polled, unless it says that itself. */
  readonly endpoint?: string | undefined
}

/** What people are told of. */
export type StreamChange =
  /**
   * It is delivered here, but not all is as it is wanted, and its transmitter cannot change it: the status of its
   * answer.
   */
  | { readonly name: 'stream_unchangeable', readonly transmitter: string, readonly status: number }
  /** Its events went elsewhere until now. */
  | { readonly name: 'stream_redirected', readonly transmitter: string, readonly from: string }

/**
 * Which stream is the one of this service: the one that the settings name, else the one that is delivered here, else
 * the only one. Undefined if there is none: the others may be those of other services.
 */
export function chooseStream (streams: readonly JsonObject[], wanted: WantedStream): JsonObject | undefined {
  if (wanted.streamId !== undefined) return streams.find(({ stream_id: id }) => id === wanted.streamId)
  return streams.find(stream => isDelivered(stream, wanted)) ?? (streams.length === 1 ? streams[0] : undefined)
}

/** Whether a stream is delivered as it is wanted. The address for polls is the transmitter's own. */
export function isDelivered ({ delivery: found }: JsonObject, { delivery, pushUrl }: WantedStream): boolean {
  if (!isJsonObject(found) || !DELIVERY_METHODS[delivery].some(method => method === found.method)) return false
  return delivery === 'poll' || found.endpoint_url === pushUrl
}

/** A stream, as far as it matters here. */
export type FoundStream = Awaited<ReturnType<typeof findStream>>

/**
 * Finds the stream, which the instance that leads creates or changes first if it is to.
 * @throws ProviderFailure
 */
export async function findStream (
  client: TransmitterClient,
  options: StreamOptions,
  isLeader: boolean,
  onEvent: (event: StreamChange) => void
) {
  const { issuer, manage, delivery, endpoint, streamId } = options
  const stream = manage && isLeader
    ? await ensureStream(client, options, onEvent)
    : chooseStream(await client.readStreams(streamId), options)
  // Without a stream to read, polling and pushes need only what the settings say.
  if (!stream && (manage || (delivery === 'poll' && endpoint === undefined))) {
    throw new ProviderFailure('stream_missing')
  }
  const { stream_id: id = '', aud, default_subjects: subjects, min_verification_interval: interval, iss } = stream ?? {}
  if (typeof iss === 'string' && withoutTrailingSlash(iss) !== withoutTrailingSlash(issuer)) {
    throw new ProviderFailure('discovery_issuer')
  }
  const { method = DELIVERY_METHODS.poll[0], endpoint_url: url } = isJsonObject(stream?.delivery) ? stream.delivery : {}
  const isPolled = endpoint === undefined && DELIVERY_METHODS.poll.some(name => name === method)
  const found = {
    /** Empty if there is none. */
    id: String(id),
    /** The `aud` of its events. */
    audience: [aud].flat().find(value => typeof value === 'string'),
    /** Where it says that it is polled. The token of the client is sent there. */
    pollUrl: isPolled && typeof url === 'string' ? parseOwnUri(url, originsOf(options)) : undefined,
    defaultSubjects: typeof subjects === 'string' ? subjects : undefined,
    /** The shortest time between two verifications that its transmitter allows. */
    minimumSeconds: typeof interval === 'number' ? interval : 0
  }
  if (delivery === 'poll') pollUrlOf(options, found)
  return { ...found, status: stream && (await client.readStatus(found.id) ?? 'enabled') }
}

/** @throws ProviderFailure if nothing says where to poll */
export function pollUrlOf (
  { endpoint }: Pick<StreamOptions, 'endpoint'>,
  stream: { readonly pollUrl: string | undefined } | undefined
): string {
  const url = endpoint ?? stream?.pollUrl
  if (url !== undefined) return url
  throw new ProviderFailure('discovery_malformed', undefined, { expected: 'an address for polls' })
}

/** What is asked of a stream that is created or changed. */
const WISHES = { events_requested: KNOWN_EVENT_TYPES, description: 'Holdfast' } as const

/**
 * Finds the stream, creates it where there is none, and changes it where it is not as it is wanted (SSF 1.0 section
 * 8.1.1).
 * @throws ProviderFailure
 */
export async function ensureStream (
  client: TransmitterClient,
  wanted: WantedStream & { readonly issuer: string },
  onEvent: (event: StreamChange) => void
): Promise<JsonObject> {
  const { streamId } = wanted
  const read = async (): Promise<JsonObject | undefined> => chooseStream(await client.readStreams(streamId), wanted)
  let found = await read()
  if (!found && streamId === undefined) {
    const made = await client.createStream({ ...WISHES, delivery: deliveryOf(wanted) })
    if (made) return readAgain(client, made)
    // Another instance may have created it.
    found = await read()
  }
  if (!found) throw new ProviderFailure('stream_missing')
  return adjustStream(client, found, wanted, onEvent)
}

async function adjustStream (
  client: TransmitterClient,
  found: JsonObject,
  wanted: Parameters<typeof ensureStream>[1],
  onEvent: (event: StreamChange) => void
): Promise<JsonObject> {
  const isElsewhere = !isDelivered(found, wanted)
  // Most transmitters keep the header to themselves. Then it may be an old one.
  const isDeliveryChanged = isElsewhere ||
    (wanted.delivery === 'push' && (found.delivery as JsonObject).authorization_header !== wanted.pushAuthorization)
  if (!isDeliveryChanged && hasEvents(found)) return found
  // Keycloak forgets the address for polls for good if it is sent a delivery without one.
  const status = await client.changeStream({
    stream_id: found.stream_id,
    ...WISHES,
    ...isDeliveryChanged && { delivery: deliveryOf(wanted) }
  })
  if (status === undefined) {
    if (isElsewhere) onEvent({ name: 'stream_redirected', transmitter: wanted.issuer, from: destinationOf(found) })
    return readAgain(client, found)
  }
  if (isElsewhere) throw new ProviderFailure('status', status)
  onEvent({ name: 'stream_unchangeable', transmitter: wanted.issuer, status })
  return found
}

/** What a stream is now, else what was known of it. */
async function readAgain (client: TransmitterClient, stream: JsonObject): Promise<JsonObject> {
  const { stream_id: id } = stream
  return (await client.readStreams(String(id))).find(({ stream_id: other }) => other === id) ?? stream
}

function deliveryOf ({ delivery, pushUrl, pushAuthorization }: WantedStream): JsonObject {
  const [method] = DELIVERY_METHODS[delivery]
  return delivery === 'poll'
    ? { method }
    : { method, endpoint_url: pushUrl, authorization_header: pushAuthorization }
}

/** Transmitters send these two whether they were asked for or not. */
const OF_THE_STREAM: readonly unknown[] = [VERIFICATION, STREAM_UPDATED]

function hasEvents ({ events_requested: requested, events_supported: supported }: JsonObject): boolean {
  if (!Array.isArray(requested)) return false
  const wanted = KNOWN_EVENT_TYPES.filter(type =>
    !OF_THE_STREAM.includes(type) && !(Array.isArray(supported) && !supported.includes(type))
  )
  return wanted.every(type => requested.includes(type)) && requested.every(type => KNOWN_EVENT_TYPES.includes(type))
}

/** Where the events of a stream go, for people. */
export function destinationOf ({ delivery }: JsonObject): string {
  const { method, endpoint_url: url } = isJsonObject(delivery) ? delivery : {}
  return printable(String(url ?? method ?? 'unknown'))
}
