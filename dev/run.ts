import { SettingsError } from '../lib/settings/settings-error.ts'
import { createApi } from './api.ts'
import { banner } from './banner.ts'
import { stopChild } from './child.ts'
import { startCompiler } from './compiler.ts'
import { freePort } from './listen.ts'
import { differences, readOutputs } from './outputs.ts'
import { removeTenant, writeTenant } from './places.ts'
import type { Tenant } from './places.ts'
import { startPlayground } from './playground.ts'
import { startProvider } from './provider.ts'
import { chooseServiceSettings } from './service-settings.ts'
import type { LocalAddresses, ServiceSettings } from './service-settings.ts'
import { createPaint } from './show.ts'

const AUDIENCE = 'https://holdfast.example/api'

/** The local tenant, the API and the playground, in one terminal, until a signal ends them all. */
export async function main (): Promise<void> {
  const { env, stdout } = process
  const paint = createPaint(stdout, env)
  const say = (text: string): void => { stdout.write(`${text}\n`) }
  const stops: Array<() => Promise<void> | void> = []
  stopOnSignals(stops, say)

  const ports = await choosePorts(env, say)
  const playground = `http://localhost:${ports.playground}`
  const service = await settingsFor({ issuer: `http://localhost:${ports.provider}`, audience: AUDIENCE, playground })
  if (service === undefined) return
  const provider = await startProvider({ port: ports.provider, audience: AUDIENCE, redirectUris: [`${playground}/`] })
  stops.push(() => provider.close())

  let outputs = readOutputs()
  const api = createApi({
    port: ports.api,
    env: service.environment,
    pretty: stdout.isTTY,
    onExit: (code) => say(paint('red', `The API ended${code === null ? '' : ` with exit code ${code}`}; it starts again with the next change.`))
  })
  stops.push(() => api.stop())
  const tenant: Tenant = { ...provider, pid: process.pid, url: api.url, settings: service.shown }
  writeTenant(tenant)
  stops.push(() => removeTenant(process.pid))
  const page = await startPlayground({ port: ports.playground, api: api.url, provider, settings: service.settings })
  stops.push(() => page.close())
  if (await api.start()) say(await banner({ tenant, playground }, paint))

  let turn = Promise.resolve()
  let isWatching = false
  const compiler = startCompiler((complaints) => {
    if (!isWatching) say(paint('dim', 'Watching the code for changes.'))
    isWatching = true
    if (complaints.length > 0) say(`\n${paint('yellow', 'The compiler complains:')}\n${complaints.join('\n')}\n`)
    turn = turn.then(reload)
  })
  stops.push(() => stopChild(compiler))

  async function reload (): Promise<void> {
    const now = readOutputs()
    const changed = differences(outputs, now)
    if (changed.length === 0) return
    outputs = now
    say(paint('dim', `\nChanged: ${changed.join(', ')}`))
    if (await api.start()) say(paint('green', `The API runs the new code on ${api.url}`))
  }
}

async function choosePorts (env: NodeJS.ProcessEnv, say: (text: string) => void): Promise<Record<'api' | 'provider' | 'playground', number>> {
  const wanted = Number(env['PORT'] || (env['API_PROFILE'] === '2' ? 8080 : 8000))
  const api = await freePort(wanted)
  if (api !== wanted) say(`Port ${wanted} is in use: the API takes ${api}.`)
  const provider = await freePort(api + 1)
  return { api, provider, playground: await freePort(provider + 1) }
}

/** Undefined where they are not usable, which has been said then. */
async function settingsFor (addresses: LocalAddresses): Promise<ServiceSettings | undefined> {
  try {
    return await chooseServiceSettings(process.env, addresses)
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
    return undefined
  }
}

/** Stops the last started first; a second signal does not wait. The end of who reads us, or of npm, counts as one. */
function stopOnSignals (stops: Array<() => Promise<void> | void>, say: (text: string) => void): void {
  let stopping = false
  const stop = async (goodbye?: string): Promise<void> => {
    if (stopping) process.exit(1)
    stopping = true
    if (goodbye !== undefined) say(goodbye)
    for (const step of stops.reverse()) await step()
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => { stop('\nStopping.') })
  process.stdout.on('error', () => { stop() })
  // Under npm a shell stands between, which dies of a signal without passing it on.
  const parent = process.ppid
  if (process.env['npm_lifecycle_event'] === undefined) return
  setInterval(() => { if (process.ppid !== parent && !stopping) stop() }, 500).unref()
}
