import { readAnswer, requirementsIn, type Answer } from './explain/answer.ts'
import { capturedRequest, type CapturedRequest } from './explain/captured-request.ts'
import {
  explainRefusal,
  explainRequest,
  type ExplainedRefusal,
  type Explanation,
  type ExplainOptions
} from './explain/explain.ts'
import { JWS_ALGS } from '../lib/guard/jose/signature.ts'
import type { DpopMode } from '../lib/guard/credentials.ts'
import { SettingsError } from '../lib/base/settings-error.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { CallOptions, CallWorld } from './call-options.ts'
import { clockAheadOf } from './compare-clocks.ts'
import type { Exchange } from './exchange.ts'
import { NOT_KNOWN, readKnownSettings, withoutPublicPrefix } from './known-settings.ts'
import { isAt, type Tenant } from './tenants.ts'
import { openProviderKeys } from './provider-keys.ts'
import { lookUpRoute } from './route-lookup.ts'

/** What is known of the service that was called. */
interface View extends Pick<ExplainOptions, 'requirements' | 'unknown' | 'assumed'> {
  readonly request: CapturedRequest
  readonly settings: Settings
}

/** Why a call was refused, as far as answer and checks tell. */
export interface CallExplanation {
  readonly answer: Answer
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
  const { method, url, status, headers } = exchange
  const answer = readAnswer({
    challenge: headers.get('www-authenticate') ?? '',
    body: exchange.body,
    nonce: headers.get('dpop-nonce') ?? undefined
  })
  const { reason } = answer
  const local = options.tenant !== undefined && isAt(options.tenant, url) ? options.tenant : undefined
  const request = capturedRequest(method, new URL(url), Object.entries(exchange.requestHeaders))
  if (status === 404 && local) {
    const route = await lookUpRoute(method, request.target, await readSettings(local))
    return route.kind === 'none' && route.methods.length > 0 ? { answer, otherMethods: route.methods } : { answer }
  }
  if (status !== 401 && reason === undefined) return { answer }
  const named = reason && explainRefusal({ reason, detail: undefined })
  // With 429 and 503 nothing is wrong with the request.
  if (named && named.status > 403) return { answer, refusal: named }
  const nowMs = Date.now()
  const clockAhead = clockAheadOf(headers, nowMs)
  const view = local
    ? await localView(request, local, answer)
    : await settingsView(request, answer, world) ?? await foreignView(request, options, answer)
  const { keys, close } = openProviderKeys(view.settings)
  try {
    const explanation = await explainRequest(view.request, {
      ...view,
      now: nowMs / 1000 - (clockAhead ?? 0),
      keys: view.unknown?.includes('token.iss') ? undefined : keys,
      answer
    })
    return { answer, explanation, refusal: explanation.refusal, clockAhead }
  } finally {
    await close()
  }
}

/** Those of the local tenant's API, or those that are usual. */
async function readSettings (tenant?: Tenant): Promise<Settings> {
  return (await readKnownSettings({ env: {}, readFile: () => undefined }, tenant)).settings
}

/** A route that is not in routes/api is judged by its answer. */
async function localView (request: CapturedRequest, tenant: Tenant, answer: Answer): Promise<View> {
  const settings = await readSettings(tenant)
  const route = await lookUpRoute(request.method, request.target, settings)
  return {
    request,
    settings,
    requirements: route.kind === 'guarded' ? route.requirements : requirementsIn(answer)
  }
}

/** Undefined if no settings here name a provider, or if they cannot be used. */
async function settingsView (
  request: CapturedRequest,
  answer: Answer,
  { env, readFile = () => undefined }: CallWorld
): Promise<View | undefined> {
  try {
    const { settings, isKnown } = await readKnownSettings({ env, readFile })
    if (!isKnown) return undefined
    const { host } = new URL(`http://${request.headers[0]![1]}`)
    const target = withoutPublicPrefix(request.target, host, settings) ?? request.target
    const route = await lookUpRoute(request.method, target, settings)
    return {
      request: { ...request, target },
      settings,
      requirements: requirementsIn(answer) ?? (route.kind === 'guarded' ? route.requirements : undefined)
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
  answer: Answer
): Promise<View> {
  const { idp, dpop, ...usual } = await readSettings()
  const dpopMode = modeOf(answer)
  // The algorithms are not known either: the service accepts the one of its provider.
  const own = { issuer: issuer || NOT_KNOWN, audiences: [audience ?? NOT_KNOWN], algs: JWS_ALGS, dpopMode }
  return {
    request,
    settings: {
      ...usual,
      idp: { ...idp, issuers: [{ ...idp.issuers[0]!, ...own }], dpopMode },
      dpop: {
        ...dpop,
        nonce: answer.error === 'use_dpop_nonce' ? 'required' : 'off',
        algs: answer.algs as Settings['dpop']['algs'] | undefined ?? dpop.algs
      }
    },
    requirements: requirementsIn(answer),
    unknown: [...issuer === '' ? ['token.iss'] : [], ...audience === undefined ? ['token.aud'] : []],
    assumed: ['token.iss', 'token.aud']
  }
}

function modeOf ({ schemes, error }: Answer): DpopMode {
  // The challenge that brings a nonce is the only one in every mode.
  if (schemes.length !== 1 || error === 'use_dpop_nonce') return 'ALLOWED'
  return schemes[0] === 'DPoP' ? 'REQUIRED' : 'DISABLED'
}
