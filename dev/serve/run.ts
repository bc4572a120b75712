import { setTimeout as delay } from 'node:timers/promises'
import getPort, { portNumbers } from 'get-port'
import { SettingsError } from '../../lib/settings/problems.ts'
import { startApi, startTypeChecker } from './children.ts'
import { removeTenant, writeTenant } from '../../cli/places.ts'
import type { Tenant } from '../../cli/places.ts'
import { startProvider } from '../provider/provider.ts'
import { chooseServiceSettings } from './service-settings.ts'
import { createPaint } from '../../cli/show.ts'

// The local tenant, the API and the playground, in one terminal, until a signal ends them all.

const AUDIENCE = 'https://holdfast.example/api'
const { env, stdout } = process
const paint = createPaint(stdout, env)
const say = (text: string): void => { stdout.write(`${text}\n`) }
const stops: Array<() => Promise<void> | void> = []
let isStopping = false

stopOnSignals()
try {
  await run()
} catch (error) {
  if (!(error instanceof SettingsError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}

async function run (): Promise<void> {
  const wanted = Number(env['PORT'] || (env['API_PROFILE'] === '2' ? 8080 : 8000))
  const port = await portFrom(wanted)
  if (port !== wanted) say(`Port ${wanted} is in use, so the API uses ${port}.`)
  const providerPort = await portFrom(port + 1)
  const playgroundPort = await portFrom(providerPort + 1)
  const url = `http://localhost:${port}`
  const playground = `http://localhost:${playgroundPort}`

  const service = await chooseServiceSettings(env, { issuer: `http://localhost:${providerPort}`, audience: AUDIENCE, playground })
  const api = startApi({ ...service.environment, PORT: String(port) }, stdout.isTTY, (file) => say(paint('dim', `${file} has changed: the API starts anew.`)))
  stops.push(() => api.stop())
  const provider = await startProvider({ port: providerPort, audience: AUDIENCE, redirectUris: [`${playground}/`] })
  stops.push(() => provider.close())
  const tenant: Tenant = { ...provider, pid: process.pid, url, settings: service.shown }
  writeTenant(tenant)
  stops.push(() => removeTenant(process.pid))
  // Loaded while the API starts.
  const [{ startPlayground }, { banner }] = await Promise.all([import('./playground.ts'), import('./banner.ts')])
  const page = await startPlayground({ port: playgroundPort, api: url, provider, settings: service.settings })
  stops.push(() => page.close())
  while (!await answers(`${url}/api/public`)) await delay(50)
  say(await banner(tenant, playground, paint))
  watchTypes()
}

/** The first one that is free; 200 are enough. */
function portFrom (first: number): Promise<number> {
  return getPort({ port: portNumbers(first, Math.min(first + 199, 65_535)) })
}

function answers (url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(2000) }).then(({ ok }) => ok, () => false)
}

/** Only now: the API starts sooner with the processor to itself. */
function watchTypes (): void {
  let isWatching = false
  const checker = startTypeChecker((complaints) => {
    if (!isWatching) say(paint('dim', 'Watching the code for changes.'))
    isWatching = true
    if (complaints.length > 0) say(`\n${paint('yellow', 'The compiler reports:')}\n${complaints.join('\n')}\n`)
  })
  stops.push(() => checker.stop())
}

/** Stops the last started first; a second signal does not wait. The end of who reads us, or of npm, counts as one. */
function stopOnSignals (): void {
  const stop = async (goodbye?: string): Promise<void> => {
    if (isStopping) process.exit(1)
    isStopping = true
    if (goodbye !== undefined) say(goodbye)
    for (const step of stops.reverse()) await step()
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => { stop('\nStopping.') })
  stdout.on('error', () => { stop() })
  // Under npm a shell stands between, which dies of a signal without passing it on.
  const parent = process.ppid
  if (env['npm_lifecycle_event'] !== undefined) setInterval(() => { if (process.ppid !== parent && !isStopping) stop() }, 500).unref()
}
