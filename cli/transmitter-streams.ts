import { transmitterAuthentication } from '../lib/assembly/client-credentials.ts'
import { pushUrlOf } from '../lib/assembly/create-revocation.ts'
import type { JsonObject } from '../lib/json.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import type { Transport } from '../lib/provider/transport.ts'
import { chooseStream } from '../lib/revocation/transmitter/own-stream.ts'
import type { WantedStream } from '../lib/revocation/transmitter/own-stream.ts'
import { createTransmitterClient } from '../lib/revocation/transmitter/client.ts'
import type { TransmitterClient } from '../lib/revocation/transmitter/client.ts'
import type { TransmitterConfiguration } from '../lib/revocation/transmitter/configuration.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { failedCall, failureText, fault } from './findings.ts'
import type { Finding } from './findings.ts'

/** What the settings want of a stream. */
export function wantedOf ({ delivery, streamId }: TransmitterSettings, settings: Settings): WantedStream {
  return { delivery, streamId, pushUrl: pushUrlOf(settings.server.publicUrl), pushAuthorization: undefined }
}

/** The streams that a transmitter has for the client of the settings. */
export interface TransmitterStreams {
  readonly client: TransmitterClient
  readonly streams: readonly JsonObject[]
  /** The one that the service would take as its own. */
  readonly own: JsonObject | undefined
}

/**
 * Reads the streams as the service does. It changes none.
 * @param path of the transmitter in the settings
 * @throws SettingsError, ProviderFailure
 */
export async function readStreams (
  given: TransmitterSettings,
  settings: Settings,
  { path, configuration, calls }: {
    readonly path: string,
    readonly configuration: TransmitterConfiguration,
    readonly calls: Transport
  }
): Promise<TransmitterStreams> {
  const authenticate = await transmitterAuthentication(given, path, processSurroundings)
  const client = createTransmitterClient({ ...given, authenticate, configuration: () => configuration, calls })
  const streams = await client.readStreams(given.streamId)
  return { client, streams, own: chooseStream(streams, wantedOf(given, settings)) }
}

/** The status of a stream, as a sentence may hold it. */
export const statusOf = async (client: TransmitterClient, { stream_id: id = '' }: JsonObject): Promise<string> =>
  await client.readStatus(String(id)) ?? 'of unknown status'

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
