import { transmitterAuthentication } from '../lib/assembly/client-credentials.ts'
import { fetchKeySet } from '../lib/guard/provider/fetch-key-set.ts'
import { createTransport } from '../lib/guard/provider/transport.ts'
import { hostsOf, parseRedisUrl } from '../lib/guard/redis/redis-url.ts'
import { EVENT_ALGS } from '../lib/revocation/security-event-token.ts'
import {
  configurationUrlOf,
  fetchTransmitterConfiguration,
  type TransmitterConfiguration
} from '../lib/revocation/transmitter/configuration.ts'
import type { RevocationSettings, TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import { readSecret } from '../lib/settings/secret.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { faultsOf, findingsOrFaults } from './check-files.ts'
import { judgeRedis } from './check-store.ts'
import { judgeSubjects, showStream } from './check-stream.ts'
import { fault, fine, quoted, type Finding } from './findings.ts'
import { COMMANDS, readStore, tryStore } from './stored-revocations.ts'
import { askAboutStreams, transmitterFault, type StreamQuestion } from './transmitter-streams.ts'

/** What was found of one part, by its title. */
type Section = readonly [title: string, findings: readonly Finding[]]

/** Looks at the store of revocations, and at each transmitter as the service does. It changes no stream. */
export async function checkRevocation (settings: Settings): Promise<Section[]> {
  const { revocation } = settings
  if (!revocation) return []
  const sections: Section[] = [['Store of revocations', await findingsOrFaults(() => checkRevocationStore(revocation))]]
  for (const [index, transmitter] of revocation.transmitters.entries()) {
    const findings = await checkTransmitter(transmitter, settings, `revocation.transmitters[${index}]`)
    sections.push([`Transmitter ${transmitter.issuer}`, findings])
  }
  return sections
}

const RIGHTS = `Check the URL, and the rights of the user: it needs ${COMMANDS.slice(0, -1).join(', ')} and ` +
  `${COMMANDS.at(-1)} for the keys {holdfast:revocation}:*.`

async function checkRevocationStore ({ store }: RevocationSettings): Promise<Finding[]> {
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
  let records = 0
  const problem = await readStore(store, () => {
    records++
  })
  return [
    ...findings,
    problem === undefined
      ? fine(`It can be read: ${records} records.`)
      : fault(`It cannot be read: ${problem}.`, RIGHTS)
  ]
}

/**
 * Fetches the configuration and the keys of a transmitter as the service does, and looks at its stream.
 * @param path of the transmitter in the settings
 */
async function checkTransmitter (
  given: TransmitterSettings,
  settings: Settings,
  path: string
): Promise<Finding[]> {
  const { pushAuthorization } = given
  const network = createTransport(settings.proxies)
  const url = configurationUrlOf(given)
  const session = network.open()
  const faults = [
    ...await faultsOf(() => transmitterAuthentication(given, path, processSurroundings)),
    ...await faultsOf(() =>
      pushAuthorization && readSecret(pushAuthorization, `${path}.pushAuthorization`, processSurroundings)
    )
  ]
  try {
    const configuration = await fetchTransmitterConfiguration(given, session)
    const { keys: { length } } = await fetchKeySet(configuration.jwksUri, session, [], EVENT_ALGS)
    return [
      fine(`GET ${url} names the issuer ${quoted(configuration.issuer)}.`),
      length > 0
        ? fine(`It publishes ${length} usable ${length === 1 ? 'key' : 'keys'} for events.`)
        : fault(
          `It publishes no key that can be used for ${EVENT_ALGS.join(', ')}, so every event is refused.`,
          'Have the transmitter sign with RS256 and a key of 2048 to 4096 bits.'
        ),
      ...given.delivery === 'poll' && given.endpoint === undefined && !canRead(given, configuration)
        ? [
            fault(
              'Nothing says where to poll: without clientId and its configuration_endpoint the stream cannot be read.',
              'Name the endpoint, or clientId and clientSecret.'
            )
          ]
        : [],
      ...faults.length > 0 ? faults : await findingsOfStream({ configuration, given, settings, path })
    ]
  } catch (error) {
    return [...faults, transmitterFault(error, `Its configuration at ${url}, or its keys, cannot be used`)]
  } finally {
    session.close()
  }
}

const canRead = ({ clientId }: TransmitterSettings, { configurationEndpoint }: TransmitterConfiguration) =>
  clientId !== undefined && configurationEndpoint !== undefined

async function findingsOfStream (question: StreamQuestion): Promise<readonly Finding[]> {
  const { given, configuration } = question
  const unread = judgeSubjects(configuration.defaultSubjects)
  if (!canRead(given, configuration)) {
    return [fine('Without clientId and its configuration_endpoint its stream cannot be read.'), ...unread]
  }
  try {
    return (await askAboutStreams(question, (client, wanted) => showStream(client, wanted, question))).findings
  } catch (error) {
    return [transmitterFault(error, 'Its stream cannot be read'), ...unread]
  }
}
