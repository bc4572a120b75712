import type { GateSettings } from '../gate/gate-settings.ts'
import type { DpopMode } from '../guard/credentials.ts'
import type { IntrospectedTokens } from '../guard/token/inquiry.ts'
import { hasScheme } from './formats.ts'
import { resolveRevocation, type RevocationSettings } from './revocation-settings.ts'
import type { SettingValues } from './specs.ts'

type Idp = SettingValues['idp']

/** The validated settings and what follows from them, nested as in the configuration file. */
export interface Settings extends Pick<SettingValues, 'api' | 'dpop' | 'proxies'> {
  readonly idp: Omit<Idp, 'issuers' | 'dpopMode'> & {
    /** Whose tokens pass. Empty if the only domain has a scheme: then no token can be verified. */
    readonly issuers: readonly IssuerSettings[],
    /** It offers every scheme that the mode of any issuer offers. */
    readonly dpopMode: DpopMode
  }
  readonly server: Omit<SettingValues['server'], 'trustProxy' | 'rateLimit' | 'port'> & {
    readonly trustProxy: boolean | readonly string[],
    /** Requests per minute that one client may send to guarded routes. Undefined means any number. */
    readonly rateLimit: number | undefined,
    /** Port that the process listens on. */
    readonly port: number
  }
  /** The gate, if the service is one. */
  readonly gate: GateSettings | undefined
  /** Absent if nothing can be revoked. */
  readonly revocation: RevocationSettings | undefined
  /** Absent if no decision is recorded. */
  readonly audit: SettingValues['audit']
  /** True if DPOP_NONCE_SECRET is set beside the replay store in memory. Then it is left out of the settings. */
  readonly isNonceSecretUnused: boolean
  /** Variables that look like settings but are not. */
  readonly unknownVariables: readonly string[]
}

/** What holds for the tokens of one issuer. */
export interface IssuerSettings extends Pick<
  Idp,
  'audienceClaim' | 'jwksUri' | 'keysFile' | 'algs' | 'scopeClaims' | 'tokenProfile'
> {
  /** Where its own settings stand: `idp`, or its entry, such as `idp.issuers[1]`. */
  readonly path: string
  /** Issuer URL. It names the issuer in logs, metrics and answers. */
  readonly issuer: string
  /** A token is for this API if it is for one of them. The first is the name of this API. */
  readonly audiences: readonly string[]
  readonly dpopMode: DpopMode
  /** Absent if no token is introspected. */
  readonly introspection: IntrospectionSettings | undefined
}

/** How tokens are introspected (RFC 7662). */
export interface IntrospectionSettings extends Omit<Idp['introspection'], 'for' | 'clientId'> {
  /** Where the secret or the key of its client stands: `idp.introspection`, or that of an entry. */
  readonly path: string
  readonly covers: IntrospectedTokens
  readonly clientId: string
}

/** The settings of one issuer: those of an entry of the list, or the single ones. */
export type IssuerValues = Partial<Omit<Idp, 'introspection'>> & {
  readonly introspection?: Partial<Idp['introspection']>
}

/** A copy has it too. */
const kResolved = Symbol('holdfast.settings')

/** Whether these are validated settings. An app may have some of its own under that name. */
export function areResolved (settings: object | undefined): settings is Settings {
  return settings !== undefined && kResolved in settings
}

/** Derives the settings from validated values that are complete and do not contradict each other. */
export function resolveSettings (
  values: SettingValues,
  { issuers, gate, unknownVariables }: Pick<Settings, 'gate' | 'unknownVariables'> & Pick<Settings['idp'], 'issuers'>
): Settings {
  const { idp, api, dpop, server, proxies, audit } = values
  // A nonce that another process accepts too, or this one after a restart, would let a proof pass there once more: its
  // jti is recorded only here.
  const isNonceSecretUnused = dpop.replay === 'memory' && dpop.nonceSecret !== undefined
  return Object.freeze({
    [kResolved]: true,
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
    revocation: resolveRevocation(values, issuers),
    audit: audit?.to === 'off' ? undefined : audit,
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

/** Resolves the issuers from validated values. None if the only domain has a scheme. */
export function issuersOf (idp: Idp): IssuerSettings[] {
  const { issuers, domain, issuer } = idp
  if (issuers) {
    const entries = issuers as readonly IssuerValues[]
    return entries.map((entry, index) => resolveIssuer(entry, idp, `idp.issuers[${index}]`))
  }
  // A domain with a scheme yields 401 for every token, whatever else is set. The operator must correct it.
  if (domain === undefined ? issuer === undefined : hasScheme(domain)) return []
  return [resolveIssuer(idp, idp, 'idp')]
}

/** @param entry validated. What it leaves out is taken from `beside`. */
export function resolveIssuer (entry: IssuerValues, beside: Omit<Idp, 'issuers'>, path: string): IssuerSettings {
  const idp = { ...beside, ...entry }
  const { audience, audienceClaim, jwksUri, keysFile, algs, scopeClaims, tokenProfile } = idp
  const { for: covers, clientId, ...introspection } = { ...beside.introspection, ...entry.introspection }
  const { clientSecret, keyFile } = entry.introspection ?? {}
  return Object.freeze({
    path,
    // As a URL, the issuer has lower case, IDN as punycode and no default port. Providers write themselves in this
    // form.
    issuer: entry.issuer ?? new URL(`https://${entry.domain}/`).href,
    audiences: audience!,
    audienceClaim,
    jwksUri,
    keysFile,
    algs,
    scopeClaims,
    tokenProfile,
    dpopMode: dpopModeOf(idp),
    introspection: covers === 'off'
      ? undefined
      : Object.freeze({
        ...introspection,
        path: `${clientSecret === undefined && keyFile === undefined ? 'idp' : path}.introspection`,
        covers,
        clientId: clientId!
      })
  })
}

function dpopModeOf ({ dpopMode, dpopEnabled, dpopRequired }: IssuerValues): DpopMode {
  if (dpopMode !== undefined) return dpopMode
  if (dpopEnabled === false) return 'DISABLED'
  return dpopRequired ? 'REQUIRED' : 'ALLOWED'
}

/** The mode of the service as a whole. It offers every scheme that the mode of any issuer offers. */
function modeOfAll (issuers: readonly IssuerSettings[], idp: Idp): DpopMode {
  const modes = new Set(issuers.map(({ dpopMode }) => dpopMode))
  if (modes.size === 0) return dpopModeOf(idp)
  return modes.size === 1 ? [...modes][0]! : 'ALLOWED'
}
