import { readSettings } from '../holdfast.ts'
import { explainRefusal, explainRequest } from '../explain/explain.ts'
import type { CapturedRequest, ExplainedRefusal, Explanation, ExplainOptions } from '../explain/explain.ts'
import { JWS_ALGS } from '../lib/jose/signature.ts'
import type { RefusalReason } from '../lib/refusal.ts'
import type { DpopMode } from '../lib/credentials.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { CallOptions } from './call-options.ts'
import { capturedRequest } from './exchange.ts'
import type { Exchange } from './exchange.ts'
import { showAdvice, showStep } from './explain-report.ts'
import { isAt } from './places.ts'
import type { Tenant } from './places.ts'
import { openProviderKeys } from './provider-keys.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { lookUpRoute } from './route-lookup.ts'
import { indent, title } from './show.ts'
import type { Paint } from './show.ts'
import { readChallenge, requirementsIn } from './challenge.ts'
import type { AnsweredChallenge } from './challenge.ts'

/** What is known of the service that was called. */
interface View {
  readonly settings: Settings
  readonly requirements: ExplainOptions['requirements']
  /** Checks whose settings only the service knows. */
  readonly unknown: readonly string[]
}

interface CallExplanation {
  readonly answered: AnsweredChallenge
  /** What each check says, seen from here. */
  readonly explanation?: Explanation
  /** Why it was refused: the reason in the answer, with what is known here of the cause; else the result of the checks here. */
  readonly refusal?: ExplainedRefusal | undefined
  /** The path is known with these methods only. */
  readonly otherMethods?: readonly string[]
}

/** Why a call was refused and what to do, with the checks that led to it. Empty if there is nothing to say. */
export async function explainCall (exchange: Exchange, options: CallOptions, paint: Paint): Promise<string> {
  return showVerdict(exchange.status, await checkCall(exchange, options), paint)
}

/** Runs the checks of the service on a call that it refused: with its own settings if it is that of `npm run dev`, else with what caller and answer say. */
async function checkCall (exchange: Exchange, options: CallOptions): Promise<CallExplanation> {
  const answered = readChallenge(exchange.headers.get('www-authenticate') ?? '', exchange.body)
  const { reason } = answered
  const { method, url } = exchange
  const local = options.tenant !== undefined && isAt(options.tenant, url) ? options.tenant : undefined
  const request = capturedRequest(method, new URL(url), Object.entries(exchange.requestHeaders))
  if (exchange.status === 404 && local !== undefined) {
    const route = await lookUpRoute(method, request.target, await readSettings(local.settings))
    return route.kind === 'none' && route.methods.length > 0 ? { answered, otherMethods: route.methods } : { answered }
  }
  if (exchange.status !== 401 && reason === undefined) return { answered }
  const named = reason && explainRefusal({ reason, detail: undefined })
  // With 429 and 503 nothing is wrong with the request.
  if (named !== undefined && named.status > 403) return { answered, refusal: named }
  const { settings, requirements, unknown } = local === undefined ? await foreignView(options, answered) : await localView(request, local, answered)
  const keys = unknown.includes('token.iss') ? undefined : openKeys(settings)
  try {
    const explanation = await explainRequest(request, { settings, now: Date.now() / 1000, candidates: keys?.candidates, requirements, unknown, answeredNonce: exchange.headers.get('dpop-nonce') ?? undefined })
    const seen = explanation.refusal
    return { answered, explanation, refusal: named === undefined || reason === seen?.reason ? seen : named }
  } finally {
    await keys?.close()
  }
}

/** A route that is not in routes/api is judged by its answer. */
async function localView ({ method, target }: CapturedRequest, tenant: Tenant, answered: AnsweredChallenge): Promise<View> {
  const settings = await readSettings(tenant.settings)
  const route = await lookUpRoute(method, target, settings)
  return { settings, requirements: route.kind === 'guarded' ? route.requirements : requirementsIn(answered), unknown: [] }
}

const NOT_KNOWN = '(not known here)'

/** It is taken to trust the provider that was asked for the token, and to see the URL that was called. */
async function foreignView ({ issuer, audience }: CallOptions, answered: AnsweredChallenge): Promise<View> {
  const defaults = await readSettings({ idp: { domain: 'provider.invalid', audience: NOT_KNOWN } })
  const settings: Settings = {
    ...defaults,
    idp: {
      ...defaults.idp,
      // The algorithms are not known either: the service accepts the one of its provider.
      issuers: [{ ...defaults.idp.issuers[0]!, issuer: issuer || NOT_KNOWN, audience: audience ?? NOT_KNOWN, algs: JWS_ALGS, dpopMode: modeOf(answered) }],
      dpopMode: modeOf(answered)
    },
    dpop: {
      ...defaults.dpop,
      nonce: answered.error === 'use_dpop_nonce' ? 'required' : 'off',
      algs: answered.algs as Settings['dpop']['algs'] | undefined ?? defaults.dpop.algs
    }
  }
  const unknown = [...issuer === '' ? ['token.iss'] : [], ...audience === undefined ? ['token.aud'] : []]
  return { settings, requirements: requirementsIn(answered), unknown }
}

function modeOf ({ schemes, error }: AnsweredChallenge): DpopMode {
  // The challenge that brings a nonce is the only one in every mode.
  if (schemes.length !== 1 || error === 'use_dpop_nonce') return 'ALLOWED'
  return schemes[0] === 'DPoP' ? 'REQUIRED' : 'DISABLED'
}

/** A provider that the service itself would not take has no keys to check with. */
function openKeys (settings: Settings): ProviderKeys | undefined {
  try {
    return openProviderKeys(settings, () => {})
  } catch {
    return undefined
  }
}

/** Which option of the call has to do with a reason. What the reason means is in explain/advice.ts. */
const OPTIONS: Partial<Record<RefusalReason, string>> = {
  credentials_missing: '--no-token leaves the token out.',
  scheme_not_offered: '--dpop sends a bound token with a proof; without it a Bearer token is sent.',
  token_malformed: '--audience names the API in the token request. Some providers need --param resource=URI instead.',
  token_issuer: '--issuer says which provider to ask for the token.',
  token_audience: '--audience names the API in the token request.',
  token_bound: '--dpop gets a token bound to a fresh key and sends a proof with it.',
  proof_algorithm: '--alg sets the algorithm of the proof.',
  certificate_missing: '--cert and --key show a certificate.',
  certificate_mismatch: '--cert and --key show a certificate, to the provider and to the API.',
  htu_mismatch: '--htu signs the proof for another URL than the one that is called.',
  scope_missing: '--scope asks for permissions.',
  acr_missing: '--user logs a user of the local tenant in; CALL_TOKEN takes a token from any other login.',
  authentication_too_old: '--user logs a user of the local tenant in; CALL_TOKEN takes a token from any other login.'
}

const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'The answer names no reason, and no check fails here. The service may have other settings or another clock, or it does not get the header.',
  403: 'The service knows the caller and does not allow this. Is a permission missing? --scope asks for it.',
  404: 'There is no such path. Is the prefix of a proxy missing in --url?'
}

function showVerdict (status: number, { answered, explanation, refusal, otherMethods }: CallExplanation, paint: Paint): string {
  const checks = explanation === undefined ? '' : title(paint, 'Checks, as seen from here') + showChecks(explanation, paint)
  if (refusal === undefined) {
    const why = otherMethods === undefined ? BY_STATUS[status] : `The path is there, but not with this method. It takes ${otherMethods.join(', ')}.`
    return checks + (why === undefined ? '' : title(paint, 'Why') + indent(why) + '\n')
  }
  const option = OPTIONS[refusal.reason]
  const lines = [
    ...answered.reason === undefined ? ['The answer names no reason. This is what the checks here say.'] : [],
    ...answered.reason !== undefined && explanation !== undefined && explanation.refusal?.reason !== answered.reason ? [disagreement(explanation)] : [],
    ...loginLines(answered, paint),
    showAdvice(refusal, paint),
    ...option === undefined ? [] : [`${paint('cyan', 'Option')}          ${option}`]
  ]
  return checks + title(paint, `Why: ${refusal.reason}`) + indent(lines.join('\n')) + '\n'
}

/** What the challenge asks for (RFC 9470 section 3), and the same as parameters of an authorization request. */
function loginLines ({ error, acrValues, maxAgeSeconds }: AnsweredChallenge, paint: Paint): string[] {
  if (error !== 'insufficient_user_authentication') return []
  const asked = [
    ...acrValues === undefined ? [] : [`acr_values=${acrValues.join(' ')}`],
    ...maxAgeSeconds === undefined ? [] : [`max_age=${maxAgeSeconds}`]
  ]
  const says = [
    ...maxAgeSeconds === undefined ? [] : [`at most ${maxAgeSeconds} seconds old`],
    ...acrValues === undefined ? [] : [`of the kind ${acrValues.join(' or ')}`]
  ]
  return asked.length === 0 ? [] : [`${paint('cyan', 'Asked for')}       a login ${says.join(', ')}; in the authorization request: ${asked.join('&')}`]
}

/** One line for each check that says nothing new, and all that is known of the one that failed. */
function showChecks ({ steps }: Explanation, paint: Paint): string {
  const reached = steps.filter(({ outcome }) => outcome !== 'not reached')
  const rest = steps.length - reached.length
  const lines = reached.map((step) => showStep(step.outcome === 'failed' ? step : { ...step, compared: [] }, paint))
  return lines.join('') + (rest === 0 ? '' : `  ${paint('dim', `\u2013 ${rest} more, not reached`)}\n`)
}

function disagreement ({ refusal }: Explanation): string {
  const reason = refusal?.reason
  return reason === undefined
    ? 'No check fails here. The service may have other settings or another clock, or it gets a different request.'
    : `The checks here say ${reason}. The service may have other settings, or it gets a different request.`
}
