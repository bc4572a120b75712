import type { JsonObject } from '../lib/json.ts'
import { isJsonObject } from '../lib/json.ts'
import { createTransport } from '../lib/provider/transport.ts'
import { KNOWN_EVENT_TYPES } from '../lib/revocation/effects.ts'
import { destinationOf, isDelivered } from '../lib/revocation/transmitter/own-stream.ts'
import type { TransmitterConfiguration } from '../lib/revocation/transmitter/configuration.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { fault, fine, quoted, warning } from './findings.ts'
import type { Finding } from './findings.ts'
import { readStreams, statusOf, transmitterFault, wantedOf } from './transmitter-streams.ts'

/** Reads the stream of a transmitter, and judges whether its events come to this service. */
export async function checkStream (
  configuration: TransmitterConfiguration,
  given: TransmitterSettings,
  settings: Settings,
  path: string
): Promise<Finding[]> {
  const { clientId } = given
  const { configurationEndpoint, defaultSubjects } = configuration
  const unread = judgeSubjects(defaultSubjects)
  if (clientId === undefined) return [fine('Without clientId its stream cannot be read.'), ...unread]
  if (configurationEndpoint === undefined) return unread
  const calls = createTransport(settings.proxies)
  try {
    const { client, streams, own } = await readStreams(given, settings, { path, configuration, calls })
    // The stream may say something else of itself.
    if (own) {
      return [
        ...judgeStream(own, await statusOf(client, own), given, settings),
        ...judgeSubjects(own.default_subjects ?? defaultSubjects)
      ]
    }
    return [noStream(streams, given), ...unread]
  } catch (error) {
    return [transmitterFault(error, 'Its stream cannot be read'), ...unread]
  } finally {
    calls.close()
  }
}

const judgeSubjects = (defaultSubjects: unknown): Finding[] =>
  defaultSubjects === 'NONE'
    ? [
        warning(
          'Its default_subjects is NONE: it sends nothing until subjects are added to the stream.',
          'Set it to ALL at the transmitter (in Keycloak the attribute ssf.defaultSubjects of the receiver ' +
          'client), or add the subjects there.'
        )
      ]
    : []

function noStream (streams: readonly JsonObject[], { manage, streamId }: TransmitterSettings): Finding {
  if (streamId !== undefined) {
    return fault(
      `There is no stream ${quoted(streamId)} for this client.`,
      'Correct streamId, or leave it out. `holdfast stream` shows the streams that there are.'
    )
  }
  if (manage) {
    return fine(
      streams.length > 0
        ? `None of its ${streams.length} streams is delivered here: the service creates one.`
        : 'There is no stream yet: the service creates it.'
    )
  }
  if (streams.length > 0) {
    return fault(
      `None of its ${streams.length} streams is delivered here.`,
      'Set streamId. `holdfast stream` shows them.'
    )
  }
  return fault('There is no stream for this client.', 'Create it at the transmitter, or set manage: true.')
}

function judgeStream (
  stream: JsonObject,
  status: string,
  transmitter: TransmitterSettings,
  settings: Settings
): Finding[] {
  const { audience, delivery, endpoint: given, manage } = transmitter
  const { stream_id: id = '', aud, delivery: agreed, events_delivered: delivered } = stream
  const { method, endpoint_url: endpoint } = isJsonObject(agreed) ? agreed : {}
  const says = `Its stream ${quoted(id)} is ${status}, for ${quoted(aud)}, by ${quoted(method)}.`
  const wanted = wantedOf(transmitter, settings)
  const { pushUrl } = wanted
  const missing = Array.isArray(delivered)
    ? KNOWN_EVENT_TYPES.filter(type =>
      /\/(?:session-revoked|credential-change|account-disabled)$/.test(type) && !delivered.includes(type)
    )
    : []
  return [
    status === 'paused' || status === 'disabled'
      ? fault(
        says,
        'Enable the stream at the transmitter. Events of a disabled stream are lost: revoke by hand what ended ' +
          'meanwhile, by holdfast revoke.'
      )
      : fine(says),
    ...audience !== undefined && ![aud].flat().includes(audience)
      ? [
          fault(
          `Its events are for ${quoted(aud)}, and the settings say ${quoted(audience)}, so every event is refused.`,
          'Set audience to what the stream says.'
          )
        ]
      : [],
    ...delivery === 'poll' && given === undefined && endpoint === undefined
      ? [
          fault(
            'It does not say where to poll.',
            'Name the endpoint, or delete the stream at the transmitter and have it created again (manage: true).'
          )
        ]
      : [],
    ...!manage && delivery === 'push' && pushUrl !== undefined && endpoint !== pushUrl
      ? [
          warning(
          `It pushes to ${quoted(endpoint)}, and this service takes events at ${pushUrl}.`,
          'Correct the endpoint of the stream, unless a proxy leads from one to the other.'
          )
        ]
      : [],
    ...manage && !isDelivered(stream, wanted)
      ? [
          warning(
          `Its events go to ${destinationOf(stream)}: at its start the service turns the stream to itself.`,
          'If the stream is that of another service, use another client.'
          )
        ]
      : [],
    ...missing.length > 0
      ? [
          warning(
          `It does not deliver ${missing.map(type => type.slice(type.lastIndexOf('/') + 1)).join(', ')}.`,
          manage
            ? 'The service asks for all known types at its start; what is missing then, the transmitter does not have.'
            : 'Ask for them at the transmitter.'
          )
        ]
      : []
  ]
}
