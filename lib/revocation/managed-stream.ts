import { isJsonObject } from '../json.ts'
import type { JsonObject } from '../json.ts'
import { printable } from '../printable.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { KNOWN_EVENT_TYPES, STREAM_UPDATED, VERIFICATION } from './effects.ts'
import type { TransmitterClient } from './transmitter-client.ts'

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

/** What people are told of. */
export interface StreamChangeListeners {
  /** The stream is not as it is wanted, and its transmitter cannot change it. */
  readonly onUnchangeable: (status: number) => void
  /** The events of the stream went elsewhere until now. */
  readonly onRedirected: (from: string) => void
}

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

/**
 * Finds the stream, creates it where there is none, and changes it where it is not as it is wanted (SSF 1.0 section
 * 8.1.1).
 * @throws ProviderFailure
 */
export async function ensureStream (
  client: TransmitterClient,
  wanted: WantedStream,
  listeners: StreamChangeListeners
): Promise<JsonObject> {
  const read = async (): Promise<JsonObject | undefined> =>
    chooseStream(await client.readStreams(wanted.streamId), wanted)
  let found = await read()
  if (!found) {
    const made = await createStream(client, wanted)
    if (made) return made
    found = await read()
  }
  if (!found) throw new ProviderFailure('stream_missing')
  return adjustStream(client, found, wanted, listeners)
}

/** Undefined if the transmitter says that there is one: another instance may have created it. */
async function createStream (client: TransmitterClient, wanted: WantedStream): Promise<JsonObject | undefined> {
  if (wanted.streamId !== undefined) throw new ProviderFailure('stream_missing')
  const made = await client.createStream({
    events_requested: KNOWN_EVENT_TYPES,
    description: 'Holdfast',
    delivery: deliveryOf(wanted)
  })
  return made && readAgain(client, made)
}

async function adjustStream (
  client: TransmitterClient,
  found: JsonObject,
  wanted: WantedStream,
  { onUnchangeable, onRedirected }: StreamChangeListeners
): Promise<JsonObject> {
  const isElsewhere = !isDelivered(found, wanted)
  const isDeliveryChanged = isElsewhere || !hasAuthorization(found, wanted)
  if (!isDeliveryChanged && hasEvents(found)) return found
  // Keycloak forgets the address for polls for good if it is sent a delivery without one.
  const changes = {
    stream_id: found.stream_id,
    events_requested: KNOWN_EVENT_TYPES,
    description: 'Holdfast',
    ...isDeliveryChanged && { delivery: deliveryOf(wanted) }
  }
  const status = await client.changeStream(changes)
  if (status === undefined) {
    if (isElsewhere) onRedirected(destinationOf(found))
    return readAgain(client, found)
  }
  if (isElsewhere) throw new ProviderFailure('status', status)
  onUnchangeable(status)
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
    : {
        method,
        endpoint_url: pushUrl,
        ...pushAuthorization !== undefined && { authorization_header: pushAuthorization }
      }
}

/** Most transmitters keep the header to themselves. Then it may be an old one. */
function hasAuthorization ({ delivery: found }: JsonObject, { delivery, pushAuthorization }: WantedStream): boolean {
  return delivery === 'poll' || (found as JsonObject).authorization_header === pushAuthorization
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
