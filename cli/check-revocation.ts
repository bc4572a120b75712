import { PROVIDER_FAULTS } from '../explain/faults.ts'
import { pushUrlOf } from '../lib/assembly/create-revocation.ts'
import { transmitterAuthentication } from '../lib/assembly/client-credentials.ts'
import type { JsonObject } from '../lib/json.ts'
import { isJsonObject } from '../lib/json.ts'
import { printable } from '../lib/printable.ts'
import { fetchKeySet } from '../lib/provider/fetch-key-set.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import { createTransport } from '../lib/provider/transport.ts'
import { hostsOf, parseRedisUrl } from '../lib/redis/redis-url.ts'
import type { RevocationEntry } from '../lib/revocation/log.ts'
import { KNOWN_EVENT_TYPES } from '../lib/revocation/effects.ts'
import { EVENT_ALGS } from '../lib/revocation/security-event-token.ts'
import { isUnderstood } from '../lib/revocation/subject.ts'
import { chooseStream, DELIVERY_METHODS, destinationOf, isDelivered } from '../lib/revocation/managed-stream.ts'
import type { WantedStream } from '../lib/revocation/managed-stream.ts'
import { createTransmitterClient } from '../lib/revocation/transmitter-client.ts'
import type { TransmitterClient } from '../lib/revocation/transmitter-client.ts'
import { configurationUrlOf, fetchTransmitterConfiguration } from '../lib/revocation/transmitter-configuration.ts'
import type { TransmitterConfiguration } from '../lib/revocation/transmitter-configuration.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { RevocationSettings, TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { judgeRedis } from './check-store.ts'
import { failureText, fault, fine, warning } from './findings.ts'
import type { Finding } from './findings.ts'
import { COMMANDS, readStore, tryStore } from './stored-revocations.ts'

/** What others have said, as a line may hold it. */
const shown = (value: unknown): string => printable([value].flat().map(String))

/** What was found of one part, by its title. */
export type Section = readonly [title: string, findings: readonly Finding[]]

/** Looks at the store of revocations, and at each transmitter as the service does. It changes no stream. */
export async function checkRevocation (settings: Settings): Promise<Section[]> {
  const { revocation } = settings
  if (!revocation) return []
  const news: RevocationEntry[] = []
  const store = await checkRevocationStore(revocation, news)
  const sections: Section[] = [['Store of revocations', store]]
  for (const [index, transmitter] of revocation.transmitters.entries()) {
    const { issuer: name } = transmitter
    sections.push([`Transmitter ${name}`, [
      ...await checkTransmitter(transmitter, settings, `revocation.transmitters[${index}]`),
      lastVerification(revocation, news.filter(({ source, event }) => source === name && event === 'verification'))
    ]])
  }
  return sections
}

const RIGHTS = `Check the URL, and the rights of the user: it needs ${COMMANDS.slice(0, -1).join(', ')} and ` +
  `${COMMANDS.at(-1)} for the keys {holdfast:revocation}:*.`

/** @param news gets what the store knows of streams */
async function checkRevocationStore ({ store }: RevocationSettings, news: RevocationEntry[]): Promise<Finding[]> {
  if (store === 'memory') {
    return [
      fine(
        'It is the memory of the process: for one instance only, and empty after each start. Several instances ' +
          'must share a Redis (revocation.store).'
      )
    ]
  }
  const { reason, lacking } = await tryStore(store)
  const hosts = hostsOf(parseRedisUrl(store))
  const findings = judgeRedis(hosts, reason, {
    works: 'can hold revocations',
    lost: 'Requests with tokens would get 503',
    rights: RIGHTS
  })
  if (findings.some(({ kind }) => kind === 'fault')) return findings
  if (lacking.length > 0) {
    const wrong = `Redis at ${hosts.join(', ')}: the user has no right to ${lacking.join(', ')}`
    return [...findings, fault(`It cannot be used: ${wrong}.`, RIGHTS)]
  }
  let entries = 0
  const problem = await readStore(store, entry => {
    entries++
    if (entry.effect === 'state') news.push(entry)
  })
  return [
    ...findings,
    problem === undefined
      ? fine(`Its log can be read: ${entries} entries.`)
      : fault(`Its log cannot be read: ${problem}.`, RIGHTS)
  ]
}

function lastVerification ({ store }: RevocationSettings, verifications: readonly RevocationEntry[]): Finding {
  if (store === 'memory') {
    return fine('When its stream was last verified, only the running service knows: /health/ready says it.')
  }
  if (verifications.length === 0) {
    return warning(
      'Its stream has not been verified since the log begins.',
      'The service has it verified at its start and every 10 minutes. If it runs, see what it logs as ' +
        'revocation_refused and stream_changed.'
    )
  }
  const at = Math.max(...verifications.map(verification => verification.at))
  return fine(`Its stream was last verified at ${new Date(at * 1000).toISOString()}.`)
}

async function checkTransmitter (given: TransmitterSettings, settings: Settings, path: string): Promise<Finding[]> {
  const network = createTransport(settings.proxies)
  const url = configurationUrlOf(given)
  const session = network.open()
  try {
    const configuration = await fetchTransmitterConfiguration(given, session)
    const { keys } = await fetchKeySet(configuration.jwksUri, session, new Map(), EVENT_ALGS)
    const { size } = keys
    return [
      fine(`GET ${url} names the issuer ${shown(configuration.issuer)}.`),
      size > 0
        ? fine(`It publishes ${size} usable ${size === 1 ? 'key' : 'keys'} for events.`)
        : fault(
          `It publishes no key that can be used for ${EVENT_ALGS.join(', ')}, so every event is refused.`,
          'Have the transmitter sign with RS256 and a key of 2048 to 4096 bits.'
        ),
      ...judgeConfiguration(configuration, given),
      ...await checkStream(configuration, given, settings, path)
    ]
  } catch (error) {
    return [failed(error, `Its configuration at ${url}, or its keys, cannot be used`)]
  } finally {
    session.close()
  }
}

function judgeConfiguration (found: TransmitterConfiguration, given: TransmitterSettings): Finding[] {
  const { delivery, endpoint, manage, clientId, subjectClaims } = given
  const { deliveryMethods, configurationEndpoint, statusEndpoint, verificationEndpoint, criticalMembers } = found
  const unmapped = criticalMembers.filter(member => !isUnderstood(member, { subjectClaims }))
  return [
    ...deliveryMethods !== undefined && !DELIVERY_METHODS[delivery].some(method => deliveryMethods.includes(method))
      ? [
          warning(
          `It does not offer delivery by ${delivery}, only ${shown(deliveryMethods)}.`,
          `Set delivery to ${delivery === 'push' ? 'poll' : 'push'}, if that is offered.`
          )
        ]
      : [],
    ...configurationEndpoint === undefined && manage
      ? [
          fault(
            'It has no configuration_endpoint, so its stream cannot be managed.',
            'Leave out manage, create the stream at the transmitter, and name its audience here.'
          )
        ]
      : [],
    ...configurationEndpoint === undefined && !manage && delivery === 'poll' && endpoint === undefined
      ? [fault('It has no configuration_endpoint, and the settings do not say where to poll.', 'Name the endpoint.')]
      : [],
    ...delivery === 'poll' && endpoint === undefined && clientId === undefined
      ? [
          fault(
            'Nothing says where to poll: without clientId the stream cannot be read.',
            'Name the endpoint, or clientId and clientSecret.'
          )
        ]
      : [],
    ...verificationEndpoint === undefined
      ? [warning('It has no verification_endpoint: a broken stream cannot be distinguished from one without events.')]
      : [],
    ...statusEndpoint === undefined && clientId !== undefined
      ? [warning('It has no status_endpoint: that a stream was paused is known only if the transmitter says so.')]
      : [],
    ...unmapped.length > 0
      ? [
          warning(
          `Events about ${unmapped.join(', ')} are discarded: the transmitter says that these members must be ` +
            'understood.',
          'Map them to claims of access tokens in subjectClaims.'
          )
        ]
      : []
  ]
}

async function checkStream (
  configuration: TransmitterConfiguration,
  given: TransmitterSettings,
  settings: Settings,
  path: string
): Promise<Finding[]> {
  const { clientId, streamId } = given
  const { configurationEndpoint, defaultSubjects } = configuration
  const unread = judgeSubjects(defaultSubjects)
  if (clientId === undefined) return [fine('Without clientId its stream cannot be read.'), ...unread]
  if (configurationEndpoint === undefined) return unread
  const calls = createTransport(settings.proxies)
  try {
    const authenticate = await transmitterAuthentication(given, path, processSurroundings)
    const client = createTransmitterClient({ ...given, authenticate, configuration: () => configuration, calls })
    const streams = await client.readStreams(streamId)
    const stream = chooseStream(streams, wantedOf(given, settings))
    // The stream may say something else of itself.
    if (stream) {
      return [
        ...await judgeStream(stream, client, given, settings),
        ...judgeSubjects(stream.default_subjects ?? defaultSubjects)
      ]
    }
    return [noStream(streams, given), ...unread]
  } catch (error) {
    return [failed(error, 'Its stream cannot be read'), ...unread]
  } finally {
    calls.close()
  }
}

/** What the settings want of a stream. */
export function wantedOf ({ delivery, streamId }: TransmitterSettings, settings: Settings): WantedStream {
  return { delivery, streamId, pushUrl: pushUrlOf(settings.server.publicUrl), pushAuthorization: undefined }
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
      `There is no stream ${shown(streamId)} for this client.`,
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

async function judgeStream (
  stream: JsonObject,
  client: TransmitterClient,
  transmitter: TransmitterSettings,
  settings: Settings
): Promise<Finding[]> {
  const { audience, delivery, endpoint: given, manage } = transmitter
  const { stream_id: id = '', aud, delivery: agreed, events_delivered: delivered } = stream
  const { method, endpoint_url: endpoint } = isJsonObject(agreed) ? agreed : {}
  const status = await client.readStatus(String(id)) ?? 'of unknown status'
  const says = `Its stream ${shown(id)} is ${status}, for ${shown(aud)}, by ${shown(method)}.`
  const pushUrl = pushUrlOf(settings.server.publicUrl)
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
          `Its events are for ${shown(aud)}, and the settings say ${shown(audience)}, so every event is refused.`,
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
          `It pushes to ${shown(endpoint)}, and this service takes events at ${pushUrl}.`,
          'Correct the endpoint of the stream, unless a proxy leads from one to the other.'
          )
        ]
      : [],
    ...manage && !isDelivered(stream, wantedOf(transmitter, settings))
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

/** What is wrong at a transmitter. */
export function failed (error: unknown, what: string): Finding {
  if (!(error instanceof ProviderFailure)) {
    return fault(
      `${what}: ${error instanceof SettingsError ? error.problems.join('; ') : (error as Error).message}.`,
      'docs/reference/revocation.md lists every member of the section revocation.'
    )
  }
  const { meaning, cure } = PROVIDER_FAULTS[error.word]
  return fault(`${what}: ${failureText(error)} (${meaning}).`, `Look at this: ${cure}.`)
}
