import type { DpopMode } from '../scheme.ts'
import { hasScheme } from './formats.ts'
import type { SettingValues } from './specs.ts'

/** The validated values and the values that follow from them. */
export interface Settings extends SettingValues {
  /** Issuer URL. Undefined if the domain has a scheme: then no token can be verified. */
  readonly issuer: string | undefined
  readonly dpopMode: DpopMode
  readonly trustProxy: boolean | readonly string[]
  /** Requests per minute that one client may send to guarded routes. Undefined means any number. */
  readonly rateLimit: number | undefined
  /** Port that the process listens on. */
  readonly port: number
  /** Variables that look like settings but are not. */
  readonly unknownVariables: readonly string[]
}

/** Derives the settings from validated values that are complete and do not contradict each other. */
export function resolveSettings (values: SettingValues, unknownVariables: readonly string[]): Settings {
  return Object.freeze({
    ...values,
    issuer: issuerOf(values),
    dpopMode: dpopModeOf(values),
    trustProxy: trustProxyOf(values.TRUST_PROXY),
    rateLimit: values.RATE_LIMIT === 'off' ? undefined : Number(values.RATE_LIMIT),
    port: values.PORT ?? defaultPort(values.API_PROFILE),
    unknownVariables
  })
}

/** 8000 in profile 1, 8080 in profile 2. */
export function defaultPort (profile: unknown): number {
  return String(profile) === '2' ? 8080 : 8000
}

function issuerOf ({ IDP_DOMAIN, IDP_ISSUER }: SettingValues): string | undefined {
  // A domain with a scheme yields 401 for every token, whatever else is set. The operator must correct it.
  if (IDP_DOMAIN !== undefined && hasScheme(IDP_DOMAIN)) return undefined
  // As a URL, the issuer has lower case, IDN as punycode and no default port. Providers write themselves in this form.
  return IDP_ISSUER ?? new URL(`https://${IDP_DOMAIN}/`).href
}

function dpopModeOf ({ IDP_DPOP_MODE, DPOP_ENABLED, DPOP_REQUIRED }: SettingValues): DpopMode {
  if (IDP_DPOP_MODE !== undefined) return IDP_DPOP_MODE
  if (DPOP_ENABLED === false) return 'DISABLED'
  return DPOP_REQUIRED ? 'REQUIRED' : 'ALLOWED'
}

function trustProxyOf (peers: readonly string[]): boolean | readonly string[] {
  if (peers[0] === 'true') return true
  return peers[0] === 'false' ? false : peers
}
