import { readAnswer, requirementsIn, type Answer } from './explain/answer.ts'
import type { CapturedRequest } from './explain/captured-request.ts'
import { explainRefusal, explainRequest, type ExplainOptions, type Explanation } from './explain/explain.ts'
import type { JsonObject } from '../lib/base/json.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { SettingsSources } from '../lib/settings/sources.ts'
import { openIntrospection } from './open-introspection.ts'
import { completeHost, headerOf, readUrl, type Capture } from './capture.ts'
import type { Report } from './explain-report.ts'
import { ownPathsOf } from '../lib/gate/gate-settings.ts'
import { audiencesAt, judgeArguments, judgeAtGate, type GateJudgement, type ToldExplanation } from './gate-judgement.ts'
import { readKnownSettings, withoutPublicPrefix } from './known-settings.ts'
import { explainPreflight, unreached } from './preflight.ts'
import { openProviderKeys } from './provider-keys.ts'
import { lookUpRoute } from './route-lookup.ts'
import { readStoredRevocations } from './stored-revocations.ts'
import { isAt, tenantAt, type Tenant } from './tenants.ts'

/** What is known beside the capture. */
interface JudgeOptions {
  /** The token is sent to its issuer, if introspection is on. */
  readonly introspect?: boolean
  /** By their variables; they win over all others. */
  readonly settings?: Readonly<Record<string, string>>
  /** What the route needs, if it is none of the service's own. */
  readonly scopes?: readonly string[]
  /** Of the request, if the capture lacks it. */
  readonly url?: string
  /** The address that connected to the service. */
  readonly peer?: string
}

interface JudgeWorld {
  readonly env: NodeJS.ProcessEnv
  /** The text of a file, or undefined if there is none. */
  readonly readFile: SettingsSources['readFile']
  /** The local tenants that run, for when no provider is configured. */
  readonly tenants?: readonly Tenant[]
  /** Unix seconds. */
  readonly now: number
}

/** Runs the checks of the service on a captured request. @throws SettingsError */
export async function judgeCapture (
  capture: Capture,
  options: JudgeOptions,
  { env, readFile, tenants, now }: JudgeWorld
): Promise<Report> {
  const { notes, scheme = 'http', status = 0, answerBody, challenge, nonce } = capture
  const url = options.url ?? `${scheme}://${headerOf(capture, 'host')}`
  const tenant = tenantAt(tenants, url)
  const { settings, isKnown } = tenant && isAt(tenant, url)
    ? await readKnownSettings({ env: { ...options.settings }, readFile: () => undefined }, tenant)
    : await readKnownSettings({ env: { ...env, ...options.settings }, readFile }, tenant)
  const request = requestOf(capture, options, settings)
  const judgedAt = capture.at ?? now
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
    const answer = readAnswer({ challenge, ...status >= 400 && { body: answerBody } })
    const judgement = await judgeRoute(request, capture, options, settings)
    let claims: JsonObject | undefined
    const explanation = await explainRequest(request, {
      settings: withAudiences(settings, settings.gate && audiencesAt(request, settings.gate)),
      now: judgedAt,
      keys: isKnown ? providers.keys : undefined,
      introspect: options.introspect ? introspect : undefined,
      revocations: await readStoredRevocations(settings, judgedAt),
      requirements: judgement?.kind === 'guarded' ? judgement.requirements : requirementsIn(answer),
      onClaims (read) {
        claims = read
      },
      unknown: isKnown ? [] : ['token.iss', 'token.aud'],
      answeredNonce: nonce
    })
    const judged = byAnswer(byRules(explanation, judgement, claims), answer, capture)
    return { request, judgedAt, notes, explanation: explainPreflight(judged, request, settings) }
  } finally {
    for (const each of opened) await each.close()
  }
}

/** The settings of a rule that has audiences of its own. */
function withAudiences (settings: Settings, audiences: readonly string[] | undefined): Settings {
  if (!audiences) return settings
  const { idp, server } = settings
  return {
    ...settings,
    idp: { ...idp, issuers: idp.issuers.map(issuer => ({ ...issuer, audiences })) },
    server: { ...server, resource: undefined }
  }
}

/** What is missing in the capture is taken from the options, or assumed and noted. */
function requestOf (capture: Capture, { url, peer }: JudgeOptions, settings: Settings): CapturedRequest {
  const { notes, method = 'GET' } = capture
  if (url !== undefined) {
    const { target } = capture
    readUrl(capture, url)
    if (target !== undefined) capture.target = target
    completeHost(capture, url)
  }
  if (capture.scheme === undefined && settings.server.publicUrl === undefined) {
    notes.push('The capture does not say whether it was http or https; http is assumed. To set it: --url.')
  }
  return {
    method,
    target: withoutPrefix(capture, settings),
    headers: capture.headers,
    encrypted: capture.scheme === 'https',
    remoteAddress: peer
  }
}

/** A capture of the client holds the prefix of PUBLIC_URL. */
function withoutPrefix (capture: Capture, settings: Settings): string {
  const { target = '/', byClient, notes } = capture
  const rest = byClient ? withoutPublicPrefix(target, headerOf(capture, 'host'), settings) : undefined
  if (rest === undefined) return target
  notes.push(`The prefix ${target.slice(0, -rest.length)} of PUBLIC_URL is removed from the path, as the proxy does.`)
  return rest
}

/** What the route asks for, if it is known. */
async function judgeRoute (
  request: CapturedRequest,
  { body, status = 404, notes }: Capture,
  { scopes }: JudgeOptions,
  settings: Settings
): Promise<GateJudgement | undefined> {
  if (scopes !== undefined) return { kind: 'guarded', requirements: scopes.length === 0 ? [] : [{ scope: scopes }] }
  const { method, target } = request
  const { operators } = settings.revocation ?? {}
  const [path] = target.split('?', 1)
  if (method === 'POST' && path === '/revocation/subjects') {
    return operators && { kind: 'guarded', requirements: [{ scope: [operators.scope] }] }
  }
  const route = settings.gate
    ? judgeAtGate(request, body, settings.gate)
    : ownPathsOf('').some(own => `${path}/`.startsWith(`${own}/`))
      ? { kind: 'open' as const }
      : await lookUpRoute(method, target, settings)
  if (route.kind === 'unjudged') {
    notes.push('The message in the body decides here, and the capture has none: what its rule asks for is not checked.')
  }
  if (route.kind === 'open') notes.push('This route has no guard. It answers whatever the checks below say.')
  if (route.kind === 'unknown') {
    notes.push(`The routes cannot be loaded here (${route.fault}), so what this one needs is not known: --scope says it.`)
    return undefined
  }
  if (route.kind !== 'none') return route
  if (status === 404) {
    notes.push(
      'The service has no such route and answers 404. The checks below are those of a guarded route (--scope sets ' +
        'what it requires).'
    )
  }
  return undefined
}

/** A rule that is missing refuses, whatever the checks say: before the credentials are looked at, or after. */
function byRules (
  explanation: Explanation,
  judgement: GateJudgement | undefined,
  claims: JsonObject | undefined
): ToldExplanation {
  const isOpen = judgement?.kind === 'open'
  if (judgement && 'asked' in judgement) {
    if (!isOpen && explanation.refusal) return explanation
    const refusal = judgeArguments(judgement.asked ?? [], isOpen ? {} : claims)
    if (refusal) return { ...explanation, verdict: 'refused', refusal }
  }
  if (isOpen) return { ...explanation, verdict: 'accepted', refusal: undefined }
  if (judgement?.kind !== 'refused' || (!judgement.isFirst && explanation.refusal?.status === 401)) return explanation
  const { refusal, isFirst } = judgement
  return { ...isFirst ? unreached(explanation) : explanation, verdict: 'refused', refusal }
}

/** The reason in the answer counts, since the service knows best. */
function byAnswer (explanation: ToldExplanation, { reason }: Answer, { status, notes }: Capture): ToldExplanation {
  if (status === undefined) return explanation
  const answered = `The answer was ${status}`
  const found = explanation.refusal?.reason
  if (reason === undefined || reason === found) {
    notes.push(`${answered}${reason === undefined ? '' : `, with the reason ${reason}`}.`)
    return explanation
  }
  notes.push(
    `${answered}, with the reason ${reason}, and the checks here come to ${found ?? 'no refusal'}. The service may ` +
      'have other settings (--set) or another clock, it may have seen the proof before, or it got a different request.'
  )
  return { ...explanation, verdict: 'refused', refusal: explainRefusal({ reason, detail: undefined }) }
}
