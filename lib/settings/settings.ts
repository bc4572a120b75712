import type { GateSettings } from '../gate/gate-settings.ts'
import type { DpopMode } from '../credentials.ts'
import { issuersOf, modeOfAll } from './issuer-settings.ts'
import type { IssuerSettings } from './issuer-settings.ts'
import type { RevocationSettings } from './revocation-settings.ts'
import type { SettingValues } from './specs.ts'

/** The validated settings and what follows from them, nested as in the configuration file. */
export interface Settings extends Pick<SettingValues, 'api' | 'dpop' | 'proxies'> {
  readonly idp: Omit<SettingValues['idp'], 'issuers' | 'dpopMode'> & {
    /** Whose tokens pass. Empty if the only domain has a scheme: then no token can be verified. */
    readonly issuers: readonly IssuerSettings[]
    /** It offers every scheme that the mode of any issuer offers. */
    readonly dpopMode: DpopMode
  }
  readonly server: Omit<SettingValues['server'], 'trustProxy' | 'rateLimit' | 'port'> & {
    readonly trustProxy: boolean | readonly string[]
    /** Requests per minute that one client may send to guarded routes. Undefined means any number. */
    readonly rateLimit: number | undefined
    /** Port that the process listens on. */
    readonly port: number
  }
  /** The gate, if the service is one. */
  readonly gate: GateSettings | undefined
  /** Undefined if nothing can be revoked. */
  readonly revocation: RevocationSettings | undefined
  /** True if DPOP_NONCE_SECRET is set beside the replay store in memory. Then it is left out of the settings. */
  readonly isNonceSecretUnused: boolean
  /** Variables that look like settings but are not. */
  readonly unknownVariables: readonly string[]
}

/** Derives the settings from validated values that are complete and do not contradict each other. */
export function resolveSettings ({ idp, api, dpop, server, proxies }: SettingValues, { gate, revocation, unknownVariables }: Pick<Settings, 'gate' | 'revocation' | 'unknownVariables'>): Settings {
  const issuers = issuersOf(idp)
  // A nonce that another process accepts too, or this one after a restart, would let a proof pass there once more: its jti is recorded
  // only here.
  const isNonceSecretUnused = dpop.replay === 'memory' && dpop.nonceSecret !== undefined
  return Object.freeze({
    idp: { ...idp, issuers, dpopMode: modeOfAll(issuers, idp) },
    api,
    dpop: isNonceSecretUnused ? { ...dpop, nonceSecret: undefined } : dpop,
    server: {
      ...server,
      trustProxy: trustProxyOf(server.trustProxy),
      rateLimit: server.rateLimit === 'off' ? undefined : Number(server.rateLimit),
      port: server.port ?? defaultPort(api.profile)
    },
    proxies,
    gate,
    revocation,
    isNonceSecretUnused,
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
