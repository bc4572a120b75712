import { transmitterAuthentication } from '../lib/assembly/client-credentials.ts'
import { fetchKeySet } from '../lib/guard/provider/fetch-key-set.ts'
import { createTransport } from '../lib/guard/provider/transport.ts'
import { DELIVERY_METHODS } from '../lib/revocation/transmitter/own-stream.ts'
import { EVENT_ALGS } from '../lib/revocation/security-event-token.ts'
import { isUnderstood } from '../lib/revocation/subject.ts'
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
import { checkStream } from './check-stream.ts'
import { fault, fine, quoted, warning, type Finding } from './findings.ts'
import { transmitterFault } from './transmitter-streams.ts'

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
      ...judgeConfiguration(configuration, given),
      ...faults.length > 0 ? faults : await checkStream({ configuration, given, settings, path })
    ]
  } catch (error) {
    return [...faults, transmitterFault(error, `Its configuration at ${url}, or its keys, cannot be used`)]
  } finally {
    session.close()
  }
}

function judgeConfiguration (found: TransmitterConfiguration, given: TransmitterSettings): Finding[] {
  const { delivery, endpoint, clientId, subjectClaims } = given
  const { deliveryMethods, configurationEndpoint, statusEndpoint, verificationEndpoint, criticalMembers } = found
  const unmapped = criticalMembers.filter(member => !isUnderstood(member, { subjectClaims }))
  return [
    ...deliveryMethods !== undefined && !DELIVERY_METHODS[delivery].some(method => deliveryMethods.includes(method))
      ? [
          warning(
          `It does not offer delivery by ${delivery}, only ${quoted(deliveryMethods)}.`,
          `Set delivery to ${delivery === 'push' ? 'poll' : 'push'}, if that is offered.`
          )
        ]
      : [],
    ...configurationEndpoint === undefined && delivery === 'poll' && endpoint === undefined
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
