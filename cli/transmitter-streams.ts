import { transmitterAuthentication } from '../lib/assembly/client-credentials.ts'
import { pushUrlOf } from '../lib/assembly/create-revocation.ts'
import { ProviderFailure } from '../lib/guard/provider/provider-failure.ts'
import { createTransport } from '../lib/guard/provider/transport.ts'
import { createTransmitterClient, type TransmitterClient } from '../lib/revocation/transmitter/client.ts'
import type { TransmitterConfiguration } from '../lib/revocation/transmitter/configuration.ts'
import type { WantedStream } from '../lib/revocation/transmitter/own-stream.ts'
import { SettingsError } from '../lib/base/settings-error.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { failedCall, failureText, fault, type Finding } from './findings.ts'

/** What a transmitter is asked about, and how. */
export interface StreamQuestion {
  readonly given: TransmitterSettings
  readonly settings: Settings
  /** Of the transmitter in the settings. */
  readonly path: string
  readonly configuration: TransmitterConfiguration
}

/** However many streams there are, and however slow it is, a transmitter has this time. */
const MAX_MS = 60_000

/**
 * Asks about streams by the calls of the service.
 * @throws SettingsError, ProviderFailure
 */
export async function askAboutStreams<Answer> (
  { given, settings, path, configuration }: StreamQuestion,
  ask: (client: TransmitterClient, wanted: WantedStream) => Promise<Answer>
): Promise<Answer> {
  const calls = createTransport(settings.proxies)
  const authenticate = await transmitterAuthentication(given, path, processSurroundings)
  const closing = AbortSignal.timeout(MAX_MS)
  const client = createTransmitterClient({ ...given, authenticate, configuration: () => configuration, calls, closing })
  return ask(client, { ...given, pushUrl: pushUrlOf(settings.server.publicUrl) })
}

/** What is wrong at a transmitter. */
export function transmitterFault (error: unknown, what: string): Finding {
  if (!(error instanceof ProviderFailure)) {
    return fault(
      `${what}: ${error instanceof SettingsError ? error.problems.join('; ') : (error as Error).message}.`,
      'docs/reference/revocation.md lists every member of the section revocation.'
    )
  }
  return failedCall(error.word, `${what}: ${failureText(error)}`)
}
