import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { printable } from '../../base/printable.ts'
import { verifyNamedIssuer } from '../../guard/provider/provider-document.ts'
import { ProviderFailure } from '../../guard/provider/provider-failure.ts'
import { parseOwnUri } from '../../guard/provider/provider-url.ts'
import { KNOWN_EVENT_TYPES, STREAM_UPDATED, VERIFICATION } from '../effects.ts'
import type { TransmitterClient } from './client.ts'
import { originsOf, type TransmitterAddress } from './configuration.ts'

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
  /** Where events are pushed, or undefined if the address of the service is not known. */
  readonly pushUrl: string | undefined
  readonly audience?: string
  /** Which of several streams it is. */
  readonly streamId?: string
}

/** What the settings say of the stream of a transmitter. */
export interface StreamOptions extends WantedStream, TransmitterAddress {
  /** Where it is polled, unless it says that itself. */
  readonly endpoint?: string
}

/** Whether a stream is delivered as it is wanted. The address for polls is the transmitter's own. */
export function isDelivered ({ delivery: found }: JsonObject, { delivery, pushUrl }: WantedStream): boolean {
  if (!isJsonObject(found) || !DELIVERY_METHODS[delivery].some(method => method === found.method)) return false
  return delivery === 'poll' || found.endpoint_url === pushUrl
}

/**
 * Reads the streams of this client. What is found in a list is then read by its ID. `own` is the one that the settings
 * name, else the one that is delivered here, else the only one, or undefined if there is none: the others may be those
 * of other services.
 * @throws ProviderFailure
 */
export async function readOwnStream (client: TransmitterClient, wanted: WantedStream) {
  const { streamId } = wanted
  const found = await client.readStreams(streamId)
  const { streams } = found
  const own = streamId === undefined
    ? streams.find(stream => isDelivered(stream, wanted)) ?? (streams.length === 1 ? streams[0] : undefined)
    : streams.find(({ stream_id: id }) => id === streamId)
  return { ...found, own: own && found.isList && streamId === undefined ? await readAgain(client, own) : own }
}

/** What a stream is now, else what was known of it. @throws ProviderFailure */
export async function readAgain (client: TransmitterClient, stream: JsonObject): Promise<JsonObject> {
  const { stream_id: id } = stream
  return (await client.readStreams(String(id))).streams.find(({ stream_id: other }) => other === id) ?? stream
}

/** What can be other than it is wanted: there is none, or where it goes, what it sends, for whom. */
export type StreamDifference = 'missing' | 'delivery' | 'events' | 'audience'

/** In what a stream is not as it is wanted. */
export function differencesOf (stream: JsonObject, wanted: WantedStream): StreamDifference[] {
  const { audience, delivery, pushUrl } = wanted
  // Without PUBLIC_URL nothing says where pushes would come.
  const isUnknown = delivery === 'push' && pushUrl === undefined
  const isAmong = audience === undefined || stream.aud === undefined || [stream.aud].flat().includes(audience)
  return [
    ...isUnknown || isDelivered(stream, wanted) ? [] : ['delivery' as const],
    ...hasEvents(stream) ? [] : ['events' as const],
    ...isAmong ? [] : ['audience' as const]
  ]
}

/** What the service needs to know of its stream. @throws ProviderFailure for one that is not its own, or not polled */
export function factsOf (stream: JsonObject | undefined, { issuer, metadata, delivery, endpoint }: StreamOptions) {
  const { stream_id: id = '', aud, default_subjects: subjects, min_verification_interval: interval, iss } = stream ?? {}
  if (typeof iss === 'string') verifyNamedIssuer(iss, issuer)
  const { method = DELIVERY_METHODS.poll[0], endpoint_url: url } = isJsonObject(stream?.delivery) ? stream.delivery : {}
  const isPolled = typeof url === 'string' && DELIVERY_METHODS.poll.some(name => name === method)
  if (delivery === 'poll' && endpoint === undefined && !isPolled) {
    throw new ProviderFailure('discovery_malformed', undefined, { expected: 'an address for polls' })
  }
  const names = [aud].flat().filter(value => typeof value === 'string')
  return {
    /** Empty if there is none. */
    id: String(id),
    /** The `aud` of its events. */
    audience: names.length > 0 ? names : undefined,
    /** Where it is polled. The token of the client is sent there. */
    pollUrl: endpoint ?? (isPolled ? parseOwnUri(url, originsOf({ issuer, metadata })) : undefined),
    defaultSubjects: typeof subjects === 'string' ? subjects : undefined,
    /** The shortest time between two verifications that its transmitter allows. */
    minimumSeconds: typeof interval === 'number' ? interval : 0
  }
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
