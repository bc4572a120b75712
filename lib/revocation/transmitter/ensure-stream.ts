import type { JsonObject } from '../../base/json.ts'
import { parseDocument } from '../../guard/provider/provider-document.ts'
import { ProviderFailure } from '../../guard/provider/provider-failure.ts'
import { KNOWN_EVENT_TYPES } from '../effects.ts'
import { CANNOT, withStreamId, type TransmitterClient } from './client.ts'
import {
  DELIVERY_METHODS,
  destinationOf,
  differencesOf,
  isDelivered,
  readAgain,
  readOwnStream,
  type WantedStream
} from './own-stream.ts'

/** A stream as the settings want it, with what its transmitter keeps to itself. */
export interface EnsuredStream extends WantedStream {
  readonly pushAuthorization: string | undefined
}

interface EnsureOptions {
  /** Where streams are created, changed and ended. */
  readonly endpoint: string
  /** Whether the only stream may be turned here, if there can be no second one. */
  readonly isTaking: boolean
  /** A moment, in which a stream that another has just created may come into view. */
  readonly pause: () => Promise<void>
}

/** What was done about a stream. */
export type Ensured =
  | {
    /** `kept`: it was as it is wanted, or its transmitter cannot change it: the status of its answer. */
    readonly did: 'kept' | 'created' | 'changed',
    readonly stream: JsonObject,
    readonly status?: number,
    /** Where its events went until now, if that was elsewhere. */
    readonly from?: string,
    /** Those that were like it, and younger. */
    readonly ended: readonly string[]
  }
  /** All streams go elsewhere, and there can be no further one. */
  | { readonly did: 'nothing', readonly streams: readonly JsonObject[] }

/** What is asked of a stream that is created or changed. */
const WISHES = { events_requested: KNOWN_EVENT_TYPES, description: 'Holdfast' } as const
const CONFLICT = 409
const MAX_ROUNDS = 10
/** Bounds the work for a transmitter that lists streams without end. */
const MAX_ENDED = 50

/**
 * Creates the stream where none is the one of this service, and changes it where it is not as it is wanted (SSF 1.0
 * section 8.1.1). Many may run at once: who creates one looks again, and of two that are alike the younger, which a
 * transmitter lists later, is ended.
 * @throws ProviderFailure
 */
export async function ensureStream (
  client: TransmitterClient,
  wanted: EnsuredStream,
  { endpoint, isTaking, pause }: EnsureOptions
): Promise<Ensured> {
  const { streamId } = wanted
  const ended: string[] = []
  const tried = new Set<string>()
  let made: JsonObject | undefined
  /** What was said to the wish for one more. */
  let refusal: number | undefined
  for (let left = MAX_ROUNDS; left > 0; left--) {
    const { streams, own } = await readOwnStream(client, wanted)
    const isOurs = own && (streamId !== undefined || isDelivered(own, wanted))
    if (isOurs && !await endYounger(streams)) {
      return made && idOf(made) === idOf(own) ? { did: 'created', stream: own, ended } : adjust(own)
    }
    if (isOurs) continue
    // The answer that it was created says enough of one that cannot be read.
    if (made && !tried.has(idOf(made))) return { did: 'created', stream: made, ended }
    if (streamId !== undefined) break
    if (refusal === undefined) {
      const answer = await client.call('POST', endpoint, {
        body: { ...WISHES, delivery: deliveryOf(wanted) },
        passing: [CONFLICT, ...CANNOT]
      })
      if (answer.status === CONFLICT || CANNOT.includes(answer.status)) refusal = answer.status
      else made = parseDocument(answer.body, 'discovery_malformed')
    } else if (own && isTaking) return adjust(own)
    else if (streams.length > 0) return { did: 'nothing', streams }
    else if (refusal !== CONFLICT) throw new ProviderFailure('status', refusal)
    else {
      await pause()
      refusal = undefined
    }
  }
  throw new ProviderFailure('stream_missing')

  /** @returns whether there were any */
  async function endYounger (streams: readonly JsonObject[]) {
    if (streamId !== undefined) return false
    const [, ...younger] = streams.filter(stream => isDelivered(stream, wanted))
    // Where it is polled says nothing of whose a stream is.
    const alike = younger.filter(stream =>
      wanted.delivery === 'push' || stream.description === WISHES.description || (made && idOf(stream) === idOf(made))
    ).map(idOf).filter(id => !tried.has(id)).slice(0, MAX_ENDED - tried.size)
    for (const id of alike) {
      tried.add(id)
      if (await endStream(client, endpoint, id)) ended.push(id)
    }
    return alike.length > 0
  }

  async function adjust (stream: JsonObject): Promise<Ensured> {
    const isElsewhere = !isDelivered(stream, wanted)
    const { delivery, pushAuthorization } = wanted
    // Most transmitters keep the header to themselves. Then it may be an old one.
    const isDeliveryChanged = isElsewhere ||
      (delivery === 'push' && (stream.delivery as JsonObject).authorization_header !== pushAuthorization)
    const areEventsChanged = differencesOf(stream, wanted).includes('events')
    if (!isDeliveryChanged && !areEventsChanged) return { did: 'kept', stream, ended }
    const { status } = await client.call('PATCH', endpoint, {
      body: {
        stream_id: stream.stream_id,
        ...areEventsChanged && { events_requested: KNOWN_EVENT_TYPES },
        // Keycloak forgets the address for polls for good if it is sent a delivery without one.
        ...isDeliveryChanged && { delivery: deliveryOf(wanted) }
      },
      passing: CANNOT
    })
    if (!CANNOT.includes(status)) {
      const from = isElsewhere ? { from: destinationOf(stream) } : {}
      return { did: 'changed', stream: await readAgain(client, stream), ...from, ended }
    }
    if (isElsewhere) throw new ProviderFailure('status', status)
    return { did: 'kept', stream, status, ended }
  }
}

/** Ends a stream. Resolves with whether it is gone: some transmitters cannot. @throws ProviderFailure */
export async function endStream (client: TransmitterClient, endpoint: string, streamId: string): Promise<boolean> {
  const { status } = await client.call('DELETE', withStreamId(endpoint, streamId), { passing: CANNOT })
  return !CANNOT.includes(status)
}

const idOf = ({ stream_id: id }: JsonObject) => String(id)

function deliveryOf ({ delivery, pushUrl, pushAuthorization }: EnsuredStream): JsonObject {
  const [method] = DELIVERY_METHODS[delivery]
  return delivery === 'poll'
    ? { method }
    : { method, endpoint_url: pushUrl, authorization_header: pushAuthorization }
}
