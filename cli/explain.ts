import { readSettings } from '../holdfast.ts'
import { explainRequest } from '../explain/explain.ts'
import type { CapturedRequest, ExplainOptions, Explanation } from '../explain/explain.ts'
import { readTextIfThere, collectSettings } from '../lib/settings/sources.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { SettingsSources } from '../lib/settings/sources.ts'
import { BadUsage } from './arguments.ts'
import { has, readCapture, readUrl } from './capture.ts'
import type { Capture } from './capture.ts'
import { readExplainArguments, USAGE } from './explain-options.ts'
import type { ExplainArguments } from './explain-options.ts'
import { showReport } from './explain-report.ts'
import type { Report } from './explain-report.ts'
import { readAtMost } from './input.ts'
import { readTenant } from './places.ts'
import type { Tenant } from './places.ts'
import { openProviderKeys, readProviderKeys } from './provider-keys.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { lookUpRoute } from './route-lookup.ts'
import { createPaint, printable } from './show.ts'
import type { Output } from './show.ts'
import { readTold } from './told.ts'

export interface ExplainWorld {
  readonly env: NodeJS.ProcessEnv
  readonly out: Output
  /** The text of a file, or undefined where there is none. */
  readonly readFile: SettingsSources['readFile']
  readonly readInput: () => Promise<string>
  /** The local tenant, for where no provider is configured. */
  readonly tenant?: Tenant | undefined
  /** Unix seconds. */
  readonly now: number
}

/** Explains one captured request as the arguments say. Returns the exit code: 0 when no check failed, else 1. */
export async function explain (argv: readonly string[], world: ExplainWorld): Promise<number> {
  const { out, env } = world
  const paint = createPaint(out, env)
  try {
    const options = readExplainArguments(argv, world.now)
    if (options === null) {
      out.write(USAGE)
      return 0
    }
    const report = await makeReport(options, world)
    out.write(options.json ? `${JSON.stringify(withoutSignatures(report), null, 2)}\n` : showReport(report, paint))
    return report.explanation.verdict === 'refused' ? 1 : 0
  } catch (error) {
    if (!(error instanceof BadUsage || error instanceof SettingsError)) throw error
    out.write(`${paint('red', printable(error.message))}\nnpm run explain -- --help tells more.\n`)
    return 1
  }
}

async function makeReport (options: ExplainArguments, world: ExplainWorld): Promise<Report> {
  const settings = await settingsOf(options, world)
  const capture = readCapture(await readText(options.file, world))
  const request = requestOf(capture, options, settings)
  const judgedAt = options.at ?? capture.at ?? world.now
  const { notes } = capture
  if (options.at === undefined && capture.at !== undefined) notes.push('Checked as of the time of the capture. With --at now it is checked as if it were sent now.')
  const keys = await keysOf(options, settings, world, notes)
  try {
    const requirements = await requirementsOf(request, options, settings, notes)
    const explanation = await explainRequest(request, { settings, now: judgedAt, candidates: keys?.candidates, requirements })
    noteAnswer(capture, explanation)
    return { request, judgedAt, notes, explanation }
  } finally {
    await keys?.close()
  }
}

/** A report is passed on, and nobody who reads it needs what makes token and proof work. */
function withoutSignatures (report: Report): Report {
  const headers = report.request.headers.map(([name, value]) => [name, value.replace(/(ey[\w-]*\.[\w-]*)\.[\w-]+/g, '$1.(signature)')] as const)
  return { ...report, request: { ...report.request, headers } }
}

function noteAnswer ({ status, challenge = '', notes }: Capture, { refusal }: Explanation): void {
  if (status === undefined) return
  const { reason } = readTold(challenge)
  notes.push(`The capture says that the answer was ${status}${reason === undefined ? '' : `, with the reason ${reason}`}.`)
  if (reason !== undefined && reason !== refusal?.reason) notes.push('The checks below come to another result. The service may have other settings (--set) or another clock, or it got a different request.')
}

/** As the service reads them; a flag wins over all, and what the local tenant's API goes by stands in where nothing names a provider. */
async function settingsOf ({ settings }: ExplainArguments, { env, readFile, tenant }: ExplainWorld): Promise<Settings> {
  const { values, ...faults } = collectSettings({ environment: { ...env, ...settings }, readFile })
  const isNamed = values.IDP_DOMAIN !== undefined || values.IDP_ISSUER !== undefined
  return readSettings(isNamed ? values : { ...tenant?.settings, ...values }, faults)
}

async function readText (file: string | undefined, { readFile, readInput }: ExplainWorld): Promise<string> {
  const text = file === undefined ? await readInput() : tryRead(file, readFile)
  if (text === undefined) throw new BadUsage(`The file ${file} does not exist or cannot be read.`)
  return text
}

function tryRead (file: string, readFile: SettingsSources['readFile']): string | undefined {
  try {
    return readFile(file)
  } catch {
    return undefined
  }
}

/** What is missing in the capture is taken from the options, or assumed and noted. */
function requestOf (capture: Capture, { url, method, peer }: ExplainArguments, settings: Settings): CapturedRequest {
  const { notes } = capture
  if (url !== undefined) {
    const { target } = capture
    readUrl(capture, url)
    if (target !== undefined) capture.target = target
    if (!has(capture, 'host')) capture.headers.push(['Host', new URL(url).host])
  }
  if (capture.method === undefined && method === undefined) notes.push('There is no method; GET is assumed. To set it: --method.')
  if (capture.target === undefined) notes.push('There is no path; / is assumed. To set it: --url.')
  if (capture.headers.length === 0) notes.push('There are no headers.')
  if (capture.scheme === undefined && settings.PUBLIC_URL === undefined) notes.push('The capture does not say whether it was http or https; http is assumed. To set it: --url.')
  return {
    method: method ?? capture.method ?? 'GET',
    target: withoutPrefix(capture, settings),
    headers: capture.headers,
    encrypted: capture.scheme === 'https',
    remoteAddress: peer
  }
}

/** A capture of the client holds the prefix of PUBLIC_URL, which a proxy takes away before the service sees it. */
function withoutPrefix ({ target = '/', headers, byClient, notes }: Capture, { PUBLIC_URL }: Settings): string {
  if (PUBLIC_URL === undefined || !byClient) return target
  const { host, pathname } = new URL(PUBLIC_URL)
  const prefix = pathname.replace(/\/$/, '')
  const isThere = headers.some(([name, value]) => name.toLowerCase() === 'host' && value.toLowerCase() === host)
  if (prefix === '' || !isThere || !target.startsWith(`${prefix}/`)) return target
  notes.push(`The prefix ${prefix} of PUBLIC_URL is removed from the path, as the proxy does.`)
  return target.slice(prefix.length)
}

async function requirementsOf ({ method, target }: CapturedRequest, { scopes }: ExplainArguments, settings: Settings, notes: string[]): Promise<ExplainOptions['requirements']> {
  if (scopes !== undefined) return scopes.length === 0 ? [] : [{ scope: scopes }]
  const route = await lookUpRoute(method, target, settings)
  if (route.kind === 'guarded') return route.requirements
  notes.push(route.kind === 'open' ? 'This route has no guard. It answers whatever the checks below say.' : 'The service has no such route and answers 404. The checks below are those of a guarded route (--scope says what it needs).')
  return undefined
}

async function keysOf ({ keysFile, offline }: ExplainArguments, settings: Settings, { readFile }: ExplainWorld, notes: string[]): Promise<ProviderKeys | undefined> {
  if (keysFile === undefined) return offline ? undefined : openProviderKeys(settings, (sentence) => notes.push(sentence))
  const keys = await readProviderKeys(tryRead(keysFile, readFile) ?? '')
  if (keys === undefined) notes.push(`${keysFile} contains no readable key set, so signatures of tokens are not checked.`)
  return keys
}

const MAX_BYTES = 64 * 1024 * 1024

/** Reads to the end, but not without one. @throws BadUsage */
export async function readInput (stream: AsyncIterable<Buffer>): Promise<string> {
  const text = await readAtMost(stream, MAX_BYTES)
  if (text === undefined) throw new BadUsage('That is more than 64 MiB. Save only the one request.')
  return text
}

/** The command line: the exit code tells whether a check failed. */
export async function main (argv: readonly string[]): Promise<void> {
  const { env, stdin, stdout } = process
  if (stdin.isTTY && argv.length === 0) argv = ['--help']
  process.exitCode = await explain(argv, {
    env,
    out: stdout,
    readFile: readTextIfThere,
    readInput: () => readInput(stdin),
    tenant: readTenant(),
    now: Date.now() / 1000
  })
}
