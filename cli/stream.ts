import type { JsonObject } from '../lib/json.ts'
import { isJsonObject } from '../lib/json.ts'
import { withoutTrailingSlash } from '../lib/provider/provider-url.ts'
import { DELIVERY_METHODS, destinationOf, isDelivered } from '../lib/revocation/transmitter/own-stream.ts'
import type { TransmitterClient } from '../lib/revocation/transmitter/client.ts'
import { createTransport, withSession } from '../lib/provider/transport.ts'
import { fetchTransmitterConfiguration } from '../lib/revocation/transmitter/configuration.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { collectSettings } from '../lib/settings/sources.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { flag, runTool } from './arguments.ts'
import type { Tool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import type { CheckWorld } from './check.ts'
import { fault, fine } from './findings.ts'
import type { Finding } from './findings.ts'
import { indent, terminalText, terminalLine, title } from './show.ts'
import { readStreams, statusOf, transmitterFault, wantedOf } from './transmitter-streams.ts'

const TOOL = {
  name: 'stream',
  options: {
    delete: { ...flag, says: 'end the stream: its transmitter then sends nothing more' }
  },
  help: run =>
    `Shows the stream of each transmitter in the settings: its configuration and its status.

  ${run}
  ${run} https://tenant.example --delete

Run it where the service runs, with the same environment. Name the issuer of a transmitter if there are several.
A service with manage: true creates its stream again: stop it before, or take manage out of its settings.`,
  ending: () => 'Exit code: 0 if the stream was shown, or ended, else 1.'
} as const satisfies Tool

/** Shows the streams of transmitters, or ends one. Returns the exit code. */
export function stream (argv: readonly string[], world: CheckWorld): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values, positionals: [issuer, ...more] }, paint) => {
    if (more.length > 0) {
      throw new BadUsage(`Unexpected argument ${more.join(' ')}: only the issuer of a transmitter is named`)
    }
    const settings = await validateSettings(
      collectSettings({ environment: world.env, readFile: world.readFile }),
      processSurroundings
    )
    const chosen = chosenTransmitters(settings, issuer, values.delete === true)
    let code = 0
    for (const [path, transmitter] of chosen) {
      const { finding, shown } = await look(transmitter, path, settings, values.delete === true)
      if (finding.kind === 'fault') code = 1
      const text = [
        ...shown === undefined ? [] : [terminalText(JSON.stringify(shown, null, 2))],
        paint(finding.kind === 'fault' ? 'red' : 'green', terminalLine(finding.says)),
        ...finding.cure === undefined ? [] : [finding.cure]
      ]
      world.out.write(`${title(paint, transmitter.issuer)}${indent(text.join('\n'))}\n`)
    }
    return code
  })
}

/** By their paths in the settings. @throws BadUsage */
function chosenTransmitters (
  { revocation }: Settings,
  issuer: string | undefined,
  isEnd: boolean
): ReadonlyArray<readonly [path: string, transmitter: TransmitterSettings]> {
  const all = (revocation?.transmitters ?? []).map((transmitter, index) =>
    [`revocation.transmitters[${index}]`, transmitter] as const
  )
  const chosen = issuer === undefined
    ? all
    : all.filter(([, transmitter]) => withoutTrailingSlash(transmitter.issuer) === withoutTrailingSlash(issuer))
  const names = all.map(([, transmitter]) => transmitter.issuer).join(', ')
  if (all.length === 0) throw new BadUsage('There is no transmitter in the settings (revocation.transmitters)')
  if (chosen.length === 0) throw new BadUsage(`There is no transmitter ${issuer!} in the settings; there are: ${names}`)
  if (isEnd && chosen.length > 1) throw new BadUsage(`Say whose stream to end: ${names}`)
  return chosen
}

interface Seen {
  readonly finding: Finding
  /** The stream, or the streams, as the transmitter says. */
  readonly shown?: unknown
}

async function look (given: TransmitterSettings, path: string, settings: Settings, isEnd: boolean): Promise<Seen> {
  if (given.clientId === undefined) {
    return {
      finding: fault('Without clientId its stream cannot be read.', 'Set clientId, and clientSecret or keyFile.')
    }
  }
  const calls = createTransport(settings.proxies)
  try {
    const configuration = await withSession(calls, session => fetchTransmitterConfiguration(given, session))
    const { client, streams, own } = await readStreams(given, settings, { path, configuration, calls })
    if (own) return isEnd ? await end(own, client, given, settings) : await show(own, streams, client)
    if (streams.length === 0) {
      return {
        finding: fault('There is no stream for this client.', 'With manage: true the service creates it at its start.')
      }
    }
    return {
      finding: fault(
        `None of its ${streams.length} streams is delivered here.`,
        'Set streamId to the stream that is meant.'
      ),
      shown: streams.map(withoutSecret)
    }
  } catch (error) {
    return { finding: transmitterFault(error, isEnd ? 'Its stream cannot be ended' : 'Its stream cannot be read') }
  } finally {
    calls.close()
  }
}

async function show (own: JsonObject, streams: readonly JsonObject[], client: TransmitterClient): Promise<Seen> {
  const status = await statusOf(client, own)
  const others = streams.filter(stream => stream !== own).map(idOf)
  return {
    finding: fine(
      `Stream ${idOf(own)} is ${status}.${
        others.length > 0 ? ` Other streams of this client: ${others.join(', ')}.` : ''
      }`
    ),
    shown: withoutSecret(own)
  }
}

/** Ends a stream only if it is this service's: another one may be that of a service that shares the client. */
async function end (
  own: JsonObject,
  client: TransmitterClient,
  given: TransmitterSettings,
  settings: Settings
): Promise<Seen> {
  const wanted = wantedOf(given, settings)
  // Without PUBLIC_URL nothing says where pushes would come.
  const isUnknown = wanted.pushUrl === undefined && isJsonObject(own.delivery) &&
    DELIVERY_METHODS.push.some(method => method === (own.delivery as JsonObject).method)
  if (given.streamId === undefined && !isUnknown && !isDelivered(own, wanted)) {
    return {
      finding: fault(
        `Stream ${idOf(own)} goes to ${destinationOf(own)}: it may be that of another service, and was not ended.`,
        `If it is meant, set streamId: ${idOf(own)}.`
      ),
      shown: withoutSecret(own)
    }
  }
  await client.deleteStream(idOf(own))
  return { finding: fine(`Stream ${idOf(own)} was ended.`) }
}

const idOf = ({ stream_id: id }: JsonObject): string => String(id)

function withoutSecret (stream: JsonObject): JsonObject {
  const { delivery } = stream
  if (!isJsonObject(delivery) || delivery.authorization_header === undefined) return stream
  return { ...stream, delivery: { ...delivery, authorization_header: '(not shown)' } }
}
