import { readSettings } from '../holdfast.ts'
import { explainRefusal, explainRequest } from '../explain/explain.ts'
import type { CapturedRequest, ExplainedRefusal, Explanation, ExplainOptions } from '../explain/explain.ts'
import { REFUSALS } from '../lib/refusal.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { DpopMode } from '../lib/scheme.ts'
import type { CallOptions } from './call-options.ts'
import { capturedRequest } from './exchange.ts'
import type { Exchange } from './exchange.ts'
import type { Tenant } from './places.ts'
import { openProviderKeys } from './provider-keys.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { lookUpRoute } from './route-lookup.ts'
import { readTold } from './told.ts'
import type { Told } from './told.ts'

/** What is known of the service that was called. */
interface View {
  readonly settings: Settings
  readonly requirements: ExplainOptions['requirements']
  /** Checks whose settings only the service knows. */
  readonly unknown: readonly string[]
}

export interface CallExplanation {
  readonly told: Told
  /** What each check says, seen from here. */
  readonly explanation: Explanation | undefined
  /** Why it was refused: as the answer tells, with what is known here of the cause; else as it looks from here. */
  readonly refusal: ExplainedRefusal | undefined
}

/** Runs the checks of the service on a call that it refused: with its own settings where it is that of `npm run dev`, else with what caller and answer tell. */
export async function explainCall (exchange: Exchange, options: CallOptions, tenant: Tenant | undefined): Promise<CallExplanation> {
  const told = readTold(exchange.headers.get('www-authenticate') ?? '', exchange.body)
  if (exchange.status !== 401 && told.reason === undefined) return { told, explanation: undefined, refusal: undefined }
  // With 429 and 503 nothing is wrong with the request.
  if (told.reason !== undefined && REFUSALS[told.reason].status > 403) return { told, explanation: undefined, refusal: explainRefusal({ reason: told.reason, detail: undefined }) }
  const request = capturedRequest(exchange.method, new URL(exchange.url), Object.entries(exchange.requestHeaders))
  const isLocal = tenant !== undefined && new URL(exchange.url).origin === new URL(tenant.url).origin
  const { settings, requirements, unknown } = isLocal ? await localView(request, tenant) : await foreignView(options, told)
  const keys = unknown.includes('token.iss') ? undefined : openKeys(settings)
  try {
    const explanation = await explainRequest(request, { settings, now: Date.now() / 1000, candidates: keys?.candidates, requirements, unknown })
    const seen = explanation.refusal
    const refusal = told.reason === undefined || told.reason === seen?.reason ? seen : explainRefusal({ reason: told.reason, detail: undefined })
    return { told, explanation, refusal }
  } finally {
    await keys?.close()
  }
}

async function localView ({ method, target }: CapturedRequest, tenant: Tenant): Promise<View> {
  const settings = await readSettings(tenant.settings)
  const route = await lookUpRoute(method, target, settings)
  return { settings, requirements: route.kind === 'guarded' ? route.requirements : undefined, unknown: [] }
}

const NOT_KNOWN = '(not known here)'

/** It is taken to trust the provider that was asked for the token, and to see the URL that was called. */
async function foreignView ({ issuer, audience }: CallOptions, told: Told): Promise<View> {
  const defaults = await readSettings({ IDP_DOMAIN: 'provider.invalid', IDP_AUDIENCE: NOT_KNOWN })
  const settings: Settings = {
    ...defaults,
    issuer: issuer || NOT_KNOWN,
    IDP_AUDIENCE: audience ?? NOT_KNOWN,
    dpopMode: modeOf(told),
    DPOP_NONCE: told.error === 'use_dpop_nonce' ? 'required' : 'off',
    DPOP_ALGS: told.algs as Settings['DPOP_ALGS'] | undefined ?? defaults.DPOP_ALGS
  }
  const unknown = [...issuer === '' ? ['token.iss'] : [], ...audience === undefined ? ['token.aud'] : []]
  return { settings, requirements: told.scopes && [{ scope: told.scopes }], unknown }
}

function modeOf ({ schemes, error }: Told): DpopMode {
  // The challenge that brings a nonce stands alone in every mode.
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
