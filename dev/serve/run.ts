import { setTimeout as delay } from 'node:timers/promises'
import getPort, { portNumbers } from 'get-port'
import { runTool, text } from '../../cli/arguments.ts'
import { BadUsage } from '../../cli/bad-usage.ts'
import { createTypeChecker, startApi } from './children.ts'
import { readTenants, removeTenant, writeTenant, type Tenant } from '../../cli/tenants.ts'
import { readOwnClient } from '../provider/own-client.ts'
import { startProvider } from '../provider/provider.ts'
import { startTransmitter } from '../provider/transmitter.ts'
import { originsOf } from '../provider/tenant-configuration.ts'
import { revocationBy, SAMPLES } from './samples.ts'
import { OWN_CALL } from './own-calls.ts'
import { chooseServiceSettings } from './service-settings.ts'
import { createPaint } from '../../cli/show.ts'

const TOOL = {
  name: 'dev',
  options: {
    port: {
      ...text,
      value: 'PORT',
      says: 'of the API; the provider and the playground take the next free ones',
      env: 'PORT'
    }
  },
  help: (run: string) =>
    `Starts a local identity provider, the API and a playground for the browser, and prints lines to paste.

  ${run} [options]`,
  ending: () => 'The API also reads the settings of the service: docs/reference/settings.md. Ctrl-C stops everything.'
} as const

// The local tenant, the API and the playground, in one terminal, until a signal ends them all.

const AUDIENCE = 'https://holdfast.example/api'
const LAST_PORT = 65_535
const { env, stdout } = process
const paint = createPaint(stdout, env)
const say = (text: string) => {
  stdout.write(`${text}\n`)
}
const stops: Array<() => Promise<void> | void> = []
let isStopping = false
let isWatching = false
let hasComplaints = false
const types = createTypeChecker(complaints => {
  if (!isWatching) say(paint('dim', 'Watching the code for changes.'))
  isWatching = true
  if (complaints.length > 0) say(`\n${paint('yellow', 'The compiler reports:')}\n${complaints.join('\n')}\n`)
  else if (hasComplaints) say(paint('green', 'The compiler has nothing more to report.'))
  hasComplaints = complaints.length > 0
})
stops.push(() => types.stop())

stopOnSignals()
const code = await runTool(TOOL, process.argv.slice(2), { env, out: stdout }, async ({ values }) => {
  await run(readPort(values.port))
  return 0
})
if (code !== 0) process.exitCode = code

function readPort (given: string | undefined): number {
  const named = given ?? (env['PORT'] || (env['API_PROFILE'] === '2' ? '8080' : '8000'))
  if (!/^\d{4,5}$/.test(named) || Number(named) < 1024 || Number(named) > LAST_PORT) {
    throw new BadUsage(`${given === undefined ? 'PORT' : '--port'} ${named} is not a port from 1024 to ${LAST_PORT}`)
  }
  return Number(named)
}

async function run (wanted: number) {
  const ownClient = readOwnClient(env)
  const port = await portFrom(wanted)
  if (port !== wanted) say(`Port ${wanted} is in use, so the API uses ${port}.`)
  const providerPort = await portFrom(port + 1)
  const playgroundPort = await portFrom(providerPort + 1)
  const transmitterPort = await portFrom(playgroundPort + 1)
  const [url, issuer, playground, sender] = [port, providerPort, playgroundPort, transmitterPort].map(free =>
    `http://localhost:${free}`
  ) as [string, string, string, string]
  const service = await chooseServiceSettings(env, {
    issuer,
    audience: AUDIENCE,
    origins: [playground, ...originsOf(ownClient?.redirectUris ?? [])],
    revocation: revocationBy(sender, issuer, AUDIENCE)
  })
  // Before the API, whose first fetch of keys would fail otherwise.
  const transmitter = await startTransmitter({ port: transmitterPort, audience: AUDIENCE })
  stops.push(() => transmitter.close())
  const api = startApi(
    { ...service.environment, PORT: String(port) },
    {
      isPretty: stdout.isTTY,
      onChange: file => say(paint('dim', `${file} has changed: the API starts anew.`)),
      onRestart: () => isWatching && types.check()
    }
  )
  stops.push(() => api.stop())
  const provider = await startProvider({
    port: providerPort,
    audience: AUDIENCE,
    redirectUris: [`${playground}/`],
    logoutUri: `${url}/revocation/logout`,
    ownClient
  })
  stops.push(() => provider.close())
  const tenant: Tenant = {
    ...provider,
    pid: process.pid,
    url,
    settings: service.shown
  }
  writeTenant(tenant)
  stops.push(() => removeTenant(process.pid))
  // Loaded while the API starts.
  const [{ startPlayground }, { banner }] = await Promise.all([import('./playground.ts'), import('./banner.ts')])
  const page = await startPlayground({
    port: playgroundPort,
    api: url,
    provider,
    transmitter,
    settings: service.settings
  })
  stops.push(() => page.close())
  while (!await answers(url + SAMPLES.open)) await delay(50)
  const isFirst = readTenants()[0]?.pid === process.pid
  say(
    await banner(tenant, playground, paint, {
      to: isFirst ? '' : ` --url ${url}`,
      ownClient,
      transmitter: transmitter.issuer
    })
  )
  // Last, so that the API has the processor to itself when it starts.
  types.check()
}

/** The first free one of 200, else any. */
function portFrom (first: number): Promise<number> {
  return getPort({ port: portNumbers(Math.min(first, LAST_PORT), Math.min(first + 199, LAST_PORT)) })
}

function answers (url: string): Promise<boolean> {
  return fetch(url, { headers: OWN_CALL, signal: AbortSignal.timeout(2000) }).then(({ ok }) => ok, () => false)
}

/**
 * Stops everything, the last started first. A second signal ends at once. If the reader of the output or npm ends, that
 * counts as a signal.
 */
function stopOnSignals () {
  const stop = async (goodbye?: string): Promise<void> => {
    if (isStopping) process.exit(1)
    isStopping = true
    if (goodbye !== undefined) say(goodbye)
    for (const step of stops.reverse()) await step()
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      stop('\nStopping.')
    })
  }
  stdout.on('error', () => {
    stop()
  })
  // npm starts a shell that a signal ends. The shell does not pass the signal on.
  const parent = process.ppid
  if (env['npm_lifecycle_event'] !== undefined) {
    setInterval(() => {
      if (process.ppid !== parent && !isStopping) stop()
    }, 500).unref()
  }
}
