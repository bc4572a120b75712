import { setTimeout as delay } from 'node:timers/promises'
import { withoutTrailingSlash } from '../lib/guard/provider/provider-url.ts'
import { isJsonObject, type JsonObject } from '../lib/base/json.ts'
import { createTransport, withSession } from '../lib/guard/provider/transport.ts'
import type { TransmitterClient } from '../lib/revocation/transmitter/client.ts'
import { fetchTransmitterConfiguration } from '../lib/revocation/transmitter/configuration.ts'
import { endStream, ensureStream, type Ensured } from '../lib/revocation/transmitter/ensure-stream.ts'
import {
  DELIVERY_METHODS,
  destinationOf,
  isDelivered,
  readOwnStream,
  type WantedStream
} from '../lib/revocation/transmitter/own-stream.ts'
import type { TransmitterSettings } from '../lib/settings/revocation-settings.ts'
import { readSecret } from '../lib/settings/secret.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { collectSettings } from '../lib/settings/sources.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { flag, runTool, type Arguments, type Tool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { judgeStream, noStream, showStream, withoutSecret, type SeenStream } from './check-stream.ts'
import type { CheckWorld } from './check.ts'
import { fault, fine, warning, type Finding } from './findings.ts'
import { indent, terminalText, title } from './show.ts'
import { askAboutStreams, transmitterFault, type StreamQuestion } from './transmitter-streams.ts'

const TOOL = {
  name: 'stream',
  options: {
    ensure: { ...flag, says: 'create the stream if there is none, and change it if it is not as the settings want it' },
    take: { ...flag, says: 'with --ensure: turn the only stream here, if there can be no second one' },
    delete: { ...flag, says: 'end the stream: its transmitter then sends nothing more' }
  },
  mostWords: 1,
  help: run =>
    `Shows the stream of each transmitter in the settings: its configuration and its status.

  ${run}
  ${run} --ensure
  ${run} https://tenant.example --delete

Run it where the service runs, with the same environment. Name the issuer of a transmitter if there are several.
--ensure may run before each start, at many instances at once.`,
  ending: () => 'Exit code: 0 if each stream was shown, is as it is wanted, or was ended, else 1.'
} as const satisfies Tool

type Chosen = Arguments<typeof TOOL.options>['values']

/** Shows the streams of transmitters, makes them what the settings want, or ends one. Returns the exit code. */
export function stream (argv: readonly string[], world: CheckWorld): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values, positionals: [issuer] }, paint) => {
    if (values.delete && (values.ensure || values.take)) throw new BadUsage('--delete goes with no other option')
    const settings = await validateSettings(
      collectSettings({ environment: world.env, readFile: world.readFile }),
      processSurroundings
    )
    let code = 0
    for (const [path, transmitter] of chosenTransmitters(settings, issuer, values)) {
      const { findings, shown } = await look(transmitter, path, settings, values)
      const parts = [
        ...shown === undefined ? [] : [terminalText(JSON.stringify(shown, null, 2))],
        ...findings.flatMap(({ kind, says, cure = [] }) =>
          [paint(COLOURS[kind], says), cure].flat()
        )
      ]
      if (findings.some(({ kind }) => kind === 'fault')) code = 1
      world.out.write(`${title(paint, transmitter.issuer)}${indent(parts.join('\n'))}\n`)
    }
    return code
  })
}

const COLOURS = { fine: 'green', warning: 'yellow', fault: 'red' } as const

/** By their paths in the settings. None if there are none, for which all is as it is wanted. @throws BadUsage */
function chosenTransmitters (
  { revocation }: Settings,
  issuer: string | undefined,
  values: Chosen
): ReadonlyArray<readonly [path: string, transmitter: TransmitterSettings]> {
  const all = (revocation?.transmitters ?? []).map((transmitter, index) =>
    [`revocation.transmitters[${index}]`, transmitter] as const
  )
  const chosen = issuer === undefined
    ? all
    : all.filter(([, transmitter]) => withoutTrailingSlash(transmitter.issuer) === withoutTrailingSlash(issuer))
  const names = all.map(([, transmitter]) => transmitter.issuer).join(', ')
  if (all.length === 0 && values.ensure && issuer === undefined) return []
  if (all.length === 0) throw new BadUsage('There is no transmitter in the settings (revocation.transmitters)')
  if (chosen.length === 0) throw new BadUsage(`There is no transmitter ${issuer!} in the settings; there are: ${names}`)
  if (values.delete && chosen.length > 1) throw new BadUsage(`Say whose stream to end: ${names}`)
  return chosen
}

async function look (
  given: TransmitterSettings,
  path: string,
  settings: Settings,
  values: Chosen
): Promise<SeenStream> {
  const isEnsured = values.ensure || values.take
  if (given.clientId === undefined) {
    const says = 'Without clientId its stream can be neither read nor changed.'
    const cure = 'Set clientId, and clientSecret or keyFile, unless the stream is made by hand.'
    return { findings: [isEnsured ? warning(says, cure) : fault(says, cure)] }
  }
  try {
    const configuration = await withSession(
      createTransport(settings.proxies),
      session => fetchTransmitterConfiguration(given, session)
    )
    const { configurationEndpoint: endpoint } = configuration
    if (endpoint === undefined) {
      const says = 'It has no configuration_endpoint, so its stream can be neither read nor changed.'
      return { findings: [fault(says, 'Create the stream at the transmitter, and name its audience here.')] }
    }
    const question = { given, path, settings, configuration, endpoint }
    return await askAboutStreams(question, (client, wanted) =>
      isEnsured
        ? ensure(client, wanted, question, values.take === true)
        : values.delete ? end(client, wanted, question) : showStream(client, wanted, question)
    )
  } catch (error) {
    const what = isEnsured ? 'created or changed' : values.delete ? 'ended' : 'read'
    return { findings: [transmitterFault(error, `Its stream cannot be ${what}`)] }
  }
}

/** Once more after this time, a stream that another instance has created is there. */
const PAUSE_MS = 500

async function ensure (
  client: TransmitterClient,
  wanted: WantedStream,
  { given, path, endpoint }: StreamQuestion & { readonly endpoint: string },
  isTaking: boolean
): Promise<SeenStream> {
  if (wanted.delivery === 'push' && wanted.pushUrl === undefined) {
    const says = 'PUBLIC_URL (server.publicUrl) is not set: it makes the address for pushes.'
    return { findings: [fault(says, 'Set it to the address at which the transmitter reaches this service.')] }
  }
  const pushAuthorization = given.pushAuthorization &&
    await readSecret(given.pushAuthorization, `${path}.pushAuthorization`, processSurroundings)
  const ensured = await ensureStream(client, { ...wanted, pushAuthorization }, {
    endpoint,
    isTaking,
    pause: () => delay(PAUSE_MS)
  })
  if (ensured.did === 'nothing') return { findings: [elsewhere(ensured.streams)] }
  return { findings: [whatWasDone(ensured), ...judgeStream(ensured.stream, given, wanted)] }
}

function elsewhere (streams: readonly JsonObject[]): Finding {
  const list = streams.slice(0, 20).map(stream => `${idOf(stream)} to ${destinationOf(stream)}`).join(', ')
  return fault(
    `Its streams go elsewhere (${list}), and it allows no further one.`,
    streams.length > 1
      ? 'Set streamId to the one that is meant.'
      : 'If its events are meant for this service, `holdfast stream --ensure --take` turns it here.'
  )
}

const DONE = { kept: 'is as it was', created: 'was created', changed: 'was changed' } as const

function whatWasDone ({ did, stream, status, from, ended }: Exclude<Ensured, { did: 'nothing' }>): Finding {
  const also = ended.length > 0 ? ` What was like it was ended: ${ended.join(', ')}.` : ''
  if (from !== undefined) {
    return warning(`Stream ${idOf(stream)} went to ${from} until now, and is delivered here now.${also}`)
  }
  return status === undefined
    ? fine(`Stream ${idOf(stream)} ${DONE[did]}.${also}`)
    : warning(`Stream ${idOf(stream)} is delivered here. Its transmitter cannot change it (status ${status}).${also}`)
}

/** Ends a stream only if it is this service's: another one may be that of a service that shares the client. */
async function end (
  client: TransmitterClient,
  wanted: WantedStream,
  { given, endpoint }: StreamQuestion & { readonly endpoint: string }
): Promise<SeenStream> {
  const { streams, own } = await readOwnStream(client, wanted)
  if (!own) return { findings: [noStream(streams, given)] }
  // Without PUBLIC_URL nothing says where pushes would come.
  const isUnknown = wanted.pushUrl === undefined && isJsonObject(own.delivery) &&
    DELIVERY_METHODS.push.some(method => method === (own.delivery as JsonObject).method)
  if (given.streamId === undefined && !isUnknown && !isDelivered(own, wanted)) {
    const says = `Stream ${idOf(own)} goes to ${destinationOf(own)}: it may be that of another service, and was not ` +
      'ended.'
    return { findings: [fault(says, `If it is meant, set streamId: ${idOf(own)}.`)], shown: withoutSecret(own) }
  }
  return {
    findings: [
      await endStream(client, endpoint, idOf(own))
        ? fine(`Stream ${idOf(own)} was ended.`)
        : fault(`Stream ${idOf(own)} cannot be ended by this client.`, 'End it at the transmitter.')
    ]
  }
}

const idOf = ({ stream_id: id }: JsonObject) => String(id)
