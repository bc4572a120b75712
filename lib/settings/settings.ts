import type { GateSettings } from '../gate/gate-settings.ts'
import type { DpopMode } from '../scheme.ts'
import { issuersOf, modeOfAll } from './issuer-settings.ts'
import type { IssuerSettings } from './issuer-settings.ts'
import type { RevocationSettings } from './revocation-settings.ts'
import type { SettingValues } from './specs.ts'

/** The validated values and the values that follow from them. */
export interface Settings extends SettingValues {
  /** Whose tokens pass. Empty if the only domain has a scheme: then no token can be verified. */
  readonly issuers: readonly IssuerSettings[]
  /** It offers every scheme that the mode of any issuer offers. */
  readonly dpopMode: DpopMode
  readonly trustProxy: boolean | readonly string[]
  /** Requests per minute that one client may send to guarded routes. Undefined means any number. */
  readonly rateLimit: number | undefined
  /** The gate, if the service is one. */
  readonly gate: GateSettings | undefined
  /** True if DPOP_NONCE_SECRET is set beside the replay store in memory. Then it is left out of the settings. */
  readonly isNonceSecretUnused: boolean
  /** Undefined if nothing can be revoked. */
  readonly revocation: RevocationSettings | undefined
  /** Port that the process listens on. */
  readonly port: number
  /** Variables that look like settings but are not. */
  readonly unknownVariables: readonly string[]
}

/** Derives the settings from validated values that are complete and do not contradict each other. */
export function resolveSettings (values: SettingValues, { gate, revocation, unknownVariables }: Pick<Settings, 'gate' | 'revocation' | 'unknownVariables'>): Settings {
  const issuers = issuersOf(values)
  // A nonce that another process accepts too, or this one after a restart, would let a proof pass there once more: its jti is recorded
  // only here.
  const isNonceSecretUnused = values.DPOP_REPLAY === 'memory' && values.DPOP_NONCE_SECRET !== undefined
  return Object.freeze({
    ...values,
    DPOP_NONCE_SECRET: isNonceSecretUnused ? undefined : values.DPOP_NONCE_SECRET,
    isNonceSecretUnused,
    issuers,
    dpopMode: modeOfAll(issuers, values),
    trustProxy: trustProxyOf(values.TRUST_PROXY),
    rateLimit: values.RATE_LIMIT === 'off' ? undefined : Number(values.RATE_LIMIT),
    gate,
    revocation,
    port: values.PORT ?? defaultPort(values.API_PROFILE),
    unknownVariables
  })
}

/** 8000 in profile 1, 8080 in profile 2. */
export function defaultPort (profile: unknown): number {
  return String(profile) === '2' ? 8080 : 8000
}

function trustProxyOf (peers: readonly string[]): boolean | readonly string[] {
  if (peers[0] === 'true') return true
  return peers[0] === 'false' ? false : peers
}
