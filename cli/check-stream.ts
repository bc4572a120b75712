import { isJsonObject, type JsonObject } from '../lib/base/json.ts'
import { KNOWN_EVENT_TYPES } from '../lib/revocation/effects.ts'
import {
  destinationOf,
  differencesOf,
  readOwnStream,
  type WantedStream
} from '../lib/revocation/transmitter/own-stream.ts'
import type { TransmitterClient } from '../lib/revocation/transmitter/client.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import { fault, fine, quoted, warning, type Finding } from './findings.ts'
import type { StreamQuestion } from './transmitter-streams.ts'

/** What was found of a stream. */
export interface SeenStream {
  readonly findings: readonly Finding[]
  /** The stream, or the streams, as the transmitter says. */
  readonly shown?: unknown
}

/** Reads the stream of a transmitter, and judges whether its events come to this service. */
export async function showStream (
  client: TransmitterClient,
  wanted: WantedStream,
  { given, configuration: { defaultSubjects } }: StreamQuestion
): Promise<SeenStream> {
  const { streams, own } = await readOwnStream(client, wanted)
  if (!own) {
    const findings = [noStream(streams, given), ...judgeSubjects(defaultSubjects)]
    return streams.length > 0 ? { findings, shown: streams.map(withoutSecret) } : { findings }
  }
  return {
    findings: [
      judgeStatus(own, await client.readStatus(String(own.stream_id)) ?? 'of unknown status'),
      ...judgeStream(own, given, wanted),
      // The stream may say something else of itself.
      ...judgeSubjects(own.default_subjects ?? defaultSubjects)
    ],
    shown: withoutSecret(own)
  }
}

export function withoutSecret (stream: JsonObject): JsonObject {
  const { delivery } = stream
  if (!isJsonObject(delivery) || delivery.authorization_header === undefined) return stream
  return { ...stream, delivery: { ...delivery, authorization_header: '(not shown)' } }
}

export const judgeSubjects = (defaultSubjects: unknown): Finding[] =>
  defaultSubjects === 'NONE'
    ? [
        warning(
          'Its default_subjects is NONE: it sends nothing until subjects are added to the stream.',
          'Set it to ALL at the transmitter (in Keycloak the attribute ssf.defaultSubjects of the receiver ' +
          'client), or add the subjects there.'
        )
      ]
    : []

/** That none of the streams is the one of this service. */
export function noStream ({ length }: readonly JsonObject[], { streamId }: TransmitterSettings): Finding {
  if (streamId !== undefined) {
    return fault(
      `There is no stream ${quoted(streamId)} for this client.`,
      'Correct streamId, or leave it out. `holdfast stream` shows the streams that there are.'
    )
  }
  const cure = '`holdfast stream --ensure` creates it.'
  return length > 0
    ? fault(`None of its ${length} streams is delivered here.`, `Set streamId, if one is. Else ${cure}`)
    : fault('There is no stream for this client.', cure)
}

function judgeStatus ({ stream_id: id = '', aud, delivery }: JsonObject, status: string): Finding {
  const { method } = isJsonObject(delivery) ? delivery : {}
  const says = `Its stream ${quoted(id)} is ${status}, for ${quoted(aud)}, by ${quoted(method)}.`
  return status === 'paused' || status === 'disabled'
    ? fault(
      says,
      'Enable the stream at the transmitter. Events of a disabled stream are lost: revoke by hand what ended ' +
        'meanwhile, by holdfast revoke.'
    )
    : fine(says)
}

/** What is not as it should be with a stream. */
export function judgeStream (
  stream: JsonObject,
  { audience, delivery, endpoint }: TransmitterSettings,
  wanted: WantedStream
): Finding[] {
  const { aud, delivery: agreed, events_delivered: delivered } = stream
  const differs = differencesOf(stream, wanted)
  const missing = Array.isArray(delivered)
    ? KNOWN_EVENT_TYPES.filter(type =>
      /\/(?:session-revoked|credential-change|account-disabled)$/.test(type) && !delivered.includes(type)
    ).map(type => type.slice(type.lastIndexOf('/') + 1))
    : []
  const isPolledNowhere = delivery === 'poll' && endpoint === undefined && isJsonObject(agreed) &&
    agreed.endpoint_url === undefined
  return [
    ...differs.includes('audience')
      ? [
          fault(
          `Its events are for ${quoted(aud)}, and the settings say ${quoted(audience)}, so every event is refused.`,
          'Set audience to what the stream says.'
          )
        ]
      : [],
    ...isPolledNowhere
      ? [fault('It does not say where to poll.', 'Name the endpoint, or end the stream and have it created again.')]
      : [],
    ...differs.includes('delivery')
      ? [
          warning(
          `Its events go to ${destinationOf(stream)}.`,
          '`holdfast stream --ensure` creates one that is delivered here, unless a proxy leads from there to here.'
          )
        ]
      : [],
    ...missing.length > 0 || differs.includes('events')
      ? [
          warning(
            missing.length > 0 ? `It does not deliver ${missing.join(', ')}.` : 'It does not ask for all event types.',
            '`holdfast stream --ensure` asks for all known types; what is missing then, the transmitter does not have.'
          )
        ]
      : []
  ]
}
