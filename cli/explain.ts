import { readAnswer, type Answer } from './explain/answer.ts'
import type { CapturedRequest } from './explain/captured-request.ts'
import { explainRequest, type ExplainOptions, type Explanation } from './explain/explain.ts'
import type { JsonObject } from '../lib/base/json.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { SettingsSources } from '../lib/settings/sources.ts'
import { runTool, type World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { completeHost, hostOf, readUrl, type Capture } from './capture.ts'
import { openIntrospection } from './ask-about-token.ts'
import { readCurlWords } from './read-curl.ts'
import { readExplainArguments, TOOL, type ExplainArguments } from './explain-options.ts'
import { showReport, type Report } from './explain-report.ts'
import { readAtMost } from './input.ts'
import { readKnownSettings, withoutPublicPrefix } from './known-settings.ts'
import { completePart } from './lone-part.ts'
import { tenantAt, type Tenant } from './tenants.ts'
import { openProviderKeys, readProviderKeys, type ProviderKeys } from './provider-keys.ts'
import { NO_REQUEST, readCapture } from './read-capture.ts'
import { judgeArguments, judgeAtGate, type GateJudgement, type ToldExplanation } from './gate-judgement.ts'
import { explainPreflight, unreached } from './preflight.ts'
import { lookUpRoute } from './route-lookup.ts'
import { readStoredRevocations } from './stored-revocations.ts'

interface ExplainWorld extends World {
  /** The text of a file, or undefined if there is none. */
  readonly readFile: SettingsSources['readFile']
  readonly input: AsyncIterable<Buffer> & { readonly isTTY?: boolean }
  /** The local tenants that run, for when no provider is configured. */
  readonly tenants?: readonly Tenant[]
  /** Unix seconds. */
  readonly now: number
}

/** Explains one request as the arguments say. Returns the exit code: 0 if no check failed, else 1. */
export function explain (argv: readonly string[], world: ExplainWorld): Promise<number> {
  // What follows the word curl are the options of curl.
  const at = argv.findIndex(word => /^curl(?:\.exe)?$/.test(word))
  const own = at < 0 ? argv : argv.slice(0, at)
  return runTool(
    TOOL,
    world.input.isTTY === true && argv.length === 0 ? ['--help'] : own,
    world,
    async (args, paint) => {
      const options = readExplainArguments(args, world.now)
      const capture = at < 0 ? await readSource(options.source, world) : readCurlWords(argv.slice(at + 1))
      if (capture === undefined) throw new BadUsage(NO_REQUEST)
      const report = await makeReport(capture, options, world)
      world.out.write(
        options.json
          ? `${JSON.stringify(withoutSignatures(report), null, 2)}\n`
          : showReport(report, options.full, paint)
      )
      return report.explanation.verdict === 'refused' ? 1 : 0
    }
  )
}

/** The file of that name; if there is none, the text may itself be what to explain. */
async function readSource (source: string | undefined, { readFile, input }: ExplainWorld): Promise<Capture> {
  const text = source === undefined ? await readInput(input) : tryRead(source, readFile)
  if (text !== undefined) return readCapture(text)
  if (/\s|^ey/.test(source!)) return readCapture(source!)
  throw new BadUsage(`The file ${source} does not exist or cannot be read.`)
}

async function makeReport (capture: Capture, options: ExplainArguments, world: ExplainWorld): Promise<Report> {
  const { notes, only, scheme = 'http' } = capture
  const { env, readFile, tenants, now } = world
  const { settings, isKnown } = await readKnownSettings(
    // An option wins over all.
    { env: { ...env, ...options.settings }, readFile },
    tenantAt(tenants, options.url ?? `${scheme}://${hostOf(capture)}`)
  )
  const part = completePart(capture, options, settings)
  const request = requestOf(capture, options, settings)
  const judgedAt = options.at ?? capture.at ?? now
  if (options.at === undefined && capture.at !== undefined) {
    notes.push('Checked as of the time of the capture. With --at now it is checked as if it were sent now.')
  }
  if (!isKnown) {
    notes.push(
      'No setting names a provider (IDP_DOMAIN), so issuer, audience and signature of the token are not checked. ' +
        'To name it: --set IDP_DOMAIN=tenant.example --set IDP_AUDIENCE=...'
    )
  }
  const opened: Array<{ close (): Promise<void> }> = []
  const introspect: ExplainOptions['introspect'] = async issuer => {
    const { introspection, ...rest } = await openIntrospection(issuer, settings)
    opened.push(rest)
    return introspection.inquiry
  }
  const providers = openProviderKeys(settings, sentence => notes.push(sentence))
  opened.push(providers)
  try {
    const keys = isKnown && only !== 'proof' ? await keysOf(options, providers, world, notes) : undefined
    const answer = readAnswer(capture)
    const asksRoute = only === undefined || options.scopes !== undefined
    const judgement = asksRoute ? await judgeRoute(request, capture.body, options, settings, notes) : undefined
    let claims: JsonObject | undefined
    const explanation = part.select(
      await explainRequest(request, {
        settings: { ...settings, idp: { ...settings.idp, ...part.idp } },
        now: judgedAt,
        keys,
        introspect: options.introspect ? introspect : undefined,
        revocations: options.offline || only === 'proof' ? undefined : await readStoredRevocations(settings, judgedAt),
        requirements: judgement?.kind === 'guarded' ? judgement.requirements : undefined,
        onClaims (read) {
          claims = read
        },
        unknown: [...part.unknown, ...isKnown ? [] : ['token.iss', 'token.aud']],
        answer
      })
    )
    noteAnswer(capture, answer, explanation)
    const ruled = byRules(explanation, judgement, claims)
    return { request, only, judgedAt, notes, explanation: explainPreflight(ruled, request, settings) }
  } finally {
    for (const each of opened) await each.close()
  }
}

/** A report is passed on, and its readers do not need what makes token and proof work. */
function withoutSignatures (report: Report): Report {
  const headers = report.request.headers.map(([name, value]) =>
    [name, value.replace(/(ey[\w-]*\.[\w-]*)\.[\w-]+/g, '$1.(signature)')] as const
  )
  return { ...report, request: { ...report.request, headers } }
}

function noteAnswer (
  { status, notes }: Capture,
  { reason }: Answer,
  { foundHere, isContradicted }: Explanation
): void {
  if (status === undefined) return
  notes.push(
    `The capture says that the answer was ${status}${reason === undefined ? '' : `, with the reason ${reason}`}.`
  )
  if (isContradicted) {
    notes.push(
      `The checks here come to ${foundHere ?? 'no refusal'}. The service may have other settings (--set) or ` +
        'another clock, or it got a different request.'
    )
  }
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
    completeHost(capture, url)
  }
  // A lone token or proof needs no other headers.
  if (capture.only === undefined) notes.push(...missingIn(capture, method, settings))
  return {
    method: method ?? capture.method ?? 'GET',
    target: withoutPrefix(capture, settings),
    headers: capture.headers,
    encrypted: capture.scheme === 'https',
    remoteAddress: peer
  }
}

function missingIn (
  { method, target, scheme, headers }: Capture,
  given: string | undefined,
  { server: { publicUrl } }: Settings
): string[] {
  return [
    ...method === undefined && given === undefined ? ['There is no method; GET is assumed. To set it: --method.'] : [],
    ...target === undefined ? ['There is no path; / is assumed. To set it: --url.'] : [],
    ...headers.length === 0 ? ['There are no headers.'] : [],
    ...scheme === undefined && publicUrl === undefined
      ? ['The capture does not say whether it was http or https; http is assumed. To set it: --url.']
      : []
  ]
}

/** A capture of the client holds the prefix of PUBLIC_URL. */
function withoutPrefix (capture: Capture, settings: Settings): string {
  const { target = '/', byClient, notes } = capture
  const rest = byClient ? withoutPublicPrefix(target, hostOf(capture), settings) : undefined
  if (rest === undefined) return target
  notes.push(`The prefix ${target.slice(0, -rest.length)} of PUBLIC_URL is removed from the path, as the proxy does.`)
  return rest
}

/** What the route asks for, if it is known. */
async function judgeRoute (
  request: CapturedRequest,
  body: string | undefined,
  { scopes }: ExplainArguments,
  settings: Settings,
  notes: string[]
): Promise<GateJudgement | undefined> {
  if (scopes !== undefined) return { kind: 'guarded', requirements: scopes.length === 0 ? [] : [{ scope: scopes }] }
  const { method, target } = request
  const route = settings.gate
    ? judgeAtGate(request, body, settings.gate)
    : await lookUpRoute(method, target, settings)
  if (route.kind === 'unjudged') {
    notes.push('The message in the body decides here, and the capture has none: what its rule asks for is not checked.')
  }
  if (route.kind === 'open') notes.push('This route has no guard. It answers whatever the checks below say.')
  if (route.kind !== 'none') return route
  notes.push(
    'The service has no such route and answers 404. The checks below are those of a guarded route (--scope sets ' +
      'what it requires).'
  )
  return undefined
}

/** A rule that is missing refuses, whatever the checks say: before the credentials are looked at, or after. */
function byRules (
  explanation: Explanation,
  judgement: GateJudgement | undefined,
  claims: JsonObject | undefined
): ToldExplanation {
  if (judgement && 'asked' in judgement) {
    const isOpen = judgement.kind === 'open'
    if (!isOpen && explanation.refusal) return explanation
    const refusal = judgeArguments(judgement.asked ?? [], isOpen ? {} : claims)
    return refusal ? { ...explanation, verdict: 'refused', refusal } : explanation
  }
  if (judgement?.kind !== 'refused' || (!judgement.isFirst && explanation.refusal?.status === 401)) return explanation
  const { refusal, isFirst } = judgement
  return { ...(isFirst ? unreached(explanation) : explanation), verdict: 'refused', refusal }
}

async function keysOf (
  { keysFile: file, offline }: ExplainArguments,
  providers: ProviderKeys,
  { readFile }: ExplainWorld,
  notes: string[]
): Promise<ExplainOptions['keys']> {
  if (file === undefined) return offline ? undefined : providers.keys
  const keys = await readProviderKeys(tryRead(file, readFile) ?? '')
  if (!keys) notes.push(`${file} contains no readable key set, so signatures of tokens are not checked.`)
  return keys
}

const MAX_BYTES = 64 * 1024 * 1024

/** Reads to the end, but only so much. @throws BadUsage */
export async function readInput (stream: AsyncIterable<Buffer>): Promise<string> {
  const text = await readAtMost(stream, MAX_BYTES)
  if (text === undefined) throw new BadUsage('That is more than 64 MiB. Save only the one request.')
  return text
}
