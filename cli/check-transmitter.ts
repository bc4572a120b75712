import { transmitterAuthentication } from '../lib/assembly/client-credentials.ts'
import { fetchKeySet } from '../lib/guard/provider/fetch-key-set.ts'
import { createTransport } from '../lib/guard/provider/transport.ts'
import { EVENT_ALGS } from '../lib/revocation/security-event-token.ts'
import {
  configurationUrlOf,
  fetchTransmitterConfiguration,
  type TransmitterConfiguration
} from '../lib/revocation/transmitter/configuration.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import { readSecret } from '../lib/settings/secret.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { faultsOf } from './check-files.ts'
import { judgeSubjects, showStream } from './check-stream.ts'
import { fault, fine, quoted, type Finding } from './findings.ts'
import { askAboutStreams, transmitterFault, type StreamQuestion } from './transmitter-streams.ts'

/**
 * Fetches the configuration and the keys of a transmitter as the service does, and looks at its stream.
 * @param path of the transmitter in the settings
 */
export async function checkTransmitter (
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
