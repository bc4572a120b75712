import { readSettings } from '../holdfast.ts'
import { explainRefusal, explainRequest } from '../explain/explain.ts'
import type { CapturedRequest, ExplainedRefusal, Explanation, ExplainOptions } from '../explain/explain.ts'
import type { StepName } from '../explain/steps.ts'
import { JWS_ALGS } from '../lib/jose/signature.ts'
import type { DpopMode } from '../lib/message.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { readChallenge, requirementsIn } from './challenge.ts'
import type { AnsweredChallenge } from './challenge.ts'
import type { CallOptions, CallWorld } from './call-options.ts'
import { capturedRequest } from './exchange.ts'
import type { Exchange } from './exchange.ts'
import { NOT_KNOWN, readKnownSettings, withoutPublicPrefix } from './known-settings.ts'
import { isAt } from './tenants.ts'
import type { Tenant } from './tenants.ts'
import { openProviderKeys } from './provider-keys.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { lookUpRoute } from './route-lookup.ts'

/** What is known of the service that was called. */
interface View {
  readonly request: CapturedRequest
  readonly settings: Settings
  readonly requirements: ExplainOptions['requirements']
  /** Checks whose settings only the service knows. */
  readonly unknown: readonly StepName[]
  /** Checks whose settings are taken from the call itself. That they pass says nothing about the service. */
  readonly assumed: readonly StepName[]
}

/** Why a call was refused, as far as answer and checks tell. */
export interface CallExplanation {
  readonly answered: AnsweredChallenge
  /** What each check says, seen from here. */
  readonly explanation?: Explanation
  /**
   * Why it was refused: the reason in the answer, with what is known here of the cause; else the result of the checks
   * here.
   */
  readonly refusal?: ExplainedRefusal | undefined
  /** The path is known with these methods only. */
  readonly otherMethods?: readonly string[]
  /** Seconds by which this machine's clock is ahead of that of the service, by its `Date`. Undefined without one. */
  readonly clockAhead?: number | undefined
}

/**
 * Runs the checks of the service on a call that it refused: with its own settings if it is that of `npm run dev`, else
 * with those that `explain` would read here, else with what caller and answer say. Time is that of the service, if its
 * answer has a `Date`.
 */
export async function checkCall (exchange: Exchange, options: CallOptions, world: CallWorld): Promise<CallExplanation> {
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
  const here = Date.now() / 1000
  const there = Date.parse(exchange.headers.get('date') ?? '') / 1000
  const clock = Number.isNaN(there) ? { now: here } : { now: there, clockAhead: here - there }
  const view = local === undefined
    ? await settingsView(request, answered, world) ?? await foreignView(request, options, answered)
    : await localView(request, local, answered)
  const keys = view.unknown.includes('token.iss') ? undefined : openKeys(view.settings)
  try {
    const explanation = await explainRequest(view.request, {
      ...view,
      now: clock.now,
      candidates: keys?.candidates,
      answered: reason,
      answeredNonce: exchange.headers.get('dpop-nonce') ?? undefined
    })
    return {
      answered,
      explanation: withoutAssumed(explanation, view),
      refusal: explanation.refusal,
      clockAhead: clock.clockAhead
    }
  } finally {
    await keys?.close()
  }
}

/** A route that is not in routes/api is judged by its answer. */
async function localView (request: CapturedRequest, tenant: Tenant, answered: AnsweredChallenge): Promise<View> {
  const settings = await readSettings(tenant.settings)
  const route = await lookUpRoute(request.method, request.target, settings)
  return {
    request,
    settings,
    requirements: route.kind === 'guarded' ? route.requirements : requirementsIn(answered),
    unknown: [],
    assumed: []
  }
}

/** Undefined if no settings here name a provider, or if they cannot be used. */
async function settingsView (
  request: CapturedRequest,
  answered: AnsweredChallenge,
  { env, readFile = () => undefined }: CallWorld
): Promise<View | undefined> {
  try {
    const { settings, isKnown } = await readKnownSettings({ env, readFile })
    if (!isKnown) return undefined
    const { host } = new URL(`http://${request.headers[0]![1]}`)
    const reached = { ...request, target: withoutPublicPrefix(request.target, host, settings) ?? request.target }
    const route = await lookUpRoute(reached.method, reached.target, settings)
    return {
      request: reached,
      settings,
      requirements: requirementsIn(answered) ?? (route.kind === 'guarded' ? route.requirements : undefined),
      unknown: [],
      assumed: []
    }
  } catch (error) {
    if (error instanceof SettingsError) return undefined
    throw error
  }
}

/** It is taken to trust the provider that was asked for the token, and to see the URL that was called. */
async function foreignView (
  request: CapturedRequest,
  { issuer, audience }: CallOptions,
  answered: AnsweredChallenge
): Promise<View> {
  const defaults = await readSettings({ idp: { domain: 'provider.invalid', audience: NOT_KNOWN } })
  const settings: Settings = {
    ...defaults,
    idp: {
      ...defaults.idp,
      // The algorithms are not known either: the service accepts the one of its provider.
      issuers: [{
        ...defaults.idp.issuers[0]!,
        issuer: issuer || NOT_KNOWN,
        audience: audience ?? NOT_KNOWN,
        algs: JWS_ALGS,
        dpopMode: modeOf(answered)
      }],
      dpopMode: modeOf(answered)
    },
    dpop: {
      ...defaults.dpop,
      nonce: answered.error === 'use_dpop_nonce' ? 'required' : 'off',
      algs: answered.algs as Settings['dpop']['algs'] | undefined ?? defaults.dpop.algs
    }
  }
  const unknown: StepName[] = [
    ...issuer === '' ? ['token.iss' as const] : [],
    ...audience === undefined ? ['token.aud' as const] : []
  ]
  return { request, settings, requirements: requirementsIn(answered), unknown, assumed: ['token.iss', 'token.aud'] }
}

const ASSUMED =
  'It is what the call asked for. Whether the service expects that, only its settings say (IDP_DOMAIN, IDP_AUDIENCE).'

function withoutAssumed (explanation: Explanation, { assumed }: View): Explanation {
  const steps = explanation.steps.map(step =>
    step.outcome === 'passed' && assumed.includes(step.name)
      ? { ...step, outcome: 'not checked' as const, note: ASSUMED }
      : step
  )
  return { ...explanation, steps }
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
