import type { JwsAlg } from '../jose/signature.ts'
import type { DpopMode } from '../scheme.ts'
import type { ClientAuthMethod } from '../introspection/client-authentication.ts'
import type { IntrospectedTokens } from '../token/issuer-table.ts'
import type { ScopeClaim } from '../token/verified-tokens.ts'
import { quoteSetting } from '../printable.ts'
import { hasScheme } from './formats.ts'
import { ISSUER_MEMBERS, memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName, SettingValues } from './specs.ts'

/** What holds for the tokens of one issuer. */
export interface IssuerSettings {
  /** Issuer URL. It names the issuer in logs, metrics and answers. */
  readonly issuer: string
  readonly audience: string
  /** Address of the key set. Undefined means discovery. */
  readonly jwksUri: string | undefined
  /** File with the key set. If it is set, the provider is never called. */
  readonly keysFile: string | undefined
  /** Accepted values of `alg`. */
  readonly algs: readonly JwsAlg[]
  readonly scopeClaims: readonly ScopeClaim[]
  readonly dpopMode: DpopMode
  /** Undefined if the provider is never asked about a token. */
  readonly introspection: IntrospectionSettings | undefined
}

/** How the provider is asked about tokens (RFC 7662). */
export interface IntrospectionSettings {
  readonly covers: IntrospectedTokens
  /** Undefined means discovery. */
  readonly endpoint: string | undefined
  readonly cacheSeconds: number
  readonly signed: boolean
  readonly audienceOptional: boolean
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly auth: ClientAuthMethod
  readonly keyFile: string | undefined
}

/** The settings of one issuer, by their environment names: those of an entry of the list, or the single ones. */
type IssuerValues = Partial<Pick<SettingValues, (typeof ISSUER_MEMBERS)[number]>>

/** Resolves the issuers from validated values. None if the only domain has a scheme. */
export function issuersOf (values: SettingValues): IssuerSettings[] {
  if (values.IDP_ISSUERS) return values.IDP_ISSUERS.map(entry => resolveIssuer(entry, values))
  // A domain with a scheme yields 401 for every token, whatever else is set. The operator must correct it.
  if (values.IDP_DOMAIN !== undefined && hasScheme(values.IDP_DOMAIN)) return []
  return values.IDP_DOMAIN === undefined && values.IDP_ISSUER === undefined ? [] : [resolveIssuer(values, values)]
}

/** @param values validated. What the entry leaves out is taken from `defaults`. */
export function resolveIssuer (values: IssuerValues, defaults: SettingValues): IssuerSettings {
  return Object.freeze({
    issuer: issuerUrl(values),
    audience: (values.IDP_AUDIENCE ?? defaults.IDP_AUDIENCE)!,
    jwksUri: values.IDP_JWKS_URI ?? defaults.IDP_JWKS_URI,
    keysFile: values.IDP_KEYS_FILE ?? defaults.IDP_KEYS_FILE,
    algs: values.IDP_ALGS ?? defaults.IDP_ALGS,
    scopeClaims: values.IDP_SCOPE_CLAIMS ?? defaults.IDP_SCOPE_CLAIMS,
    dpopMode: values.IDP_DPOP_MODE ?? dpopModeOf(defaults),
    introspection: introspectionOf(values, defaults)
  })
}

function introspectionOf (values: IssuerValues, defaults: SettingValues): IntrospectionSettings | undefined {
  const covers = values.IDP_INTROSPECTION ?? defaults.IDP_INTROSPECTION
  if (covers === 'off') return undefined
  return Object.freeze({
    covers,
    endpoint: values.IDP_INTROSPECTION_ENDPOINT ?? defaults.IDP_INTROSPECTION_ENDPOINT,
    cacheSeconds: values.IDP_INTROSPECTION_CACHE_SECONDS ?? defaults.IDP_INTROSPECTION_CACHE_SECONDS,
    signed: values.IDP_INTROSPECTION_SIGNED ?? defaults.IDP_INTROSPECTION_SIGNED,
    audienceOptional: values.IDP_INTROSPECTION_AUDIENCE_OPTIONAL ?? defaults.IDP_INTROSPECTION_AUDIENCE_OPTIONAL,
    clientId: (values.IDP_CLIENT_ID ?? defaults.IDP_CLIENT_ID)!,
    clientSecret: values.IDP_CLIENT_SECRET ?? defaults.IDP_CLIENT_SECRET,
    auth: values.IDP_CLIENT_AUTH ?? defaults.IDP_CLIENT_AUTH,
    keyFile: values.IDP_CLIENT_KEY_FILE ?? defaults.IDP_CLIENT_KEY_FILE
  })
}

/** The settings that introspection needs and that are not set. */
export function introspectionLacks (values: RawSettings, defaults: RawSettings): SettingName[] {
  const valueOf = (name: SettingName): unknown => values[name] ?? defaults[name]
  if ((valueOf('IDP_INTROSPECTION') ?? 'off') === 'off') return []
  const proof = valueOf('IDP_CLIENT_AUTH') === 'private_key_jwt' ? 'IDP_CLIENT_KEY_FILE' : 'IDP_CLIENT_SECRET'
  return (['IDP_CLIENT_ID', proof] as const).filter(name => valueOf(name) === undefined)
}

function issuerUrl ({ IDP_DOMAIN, IDP_ISSUER }: IssuerValues): string {
  // As a URL, the issuer has lower case, IDN as punycode and no default port. Providers write themselves in this form.
  return IDP_ISSUER ?? new URL(`https://${IDP_DOMAIN}/`).href
}

function dpopModeOf ({ IDP_DPOP_MODE, DPOP_ENABLED, DPOP_REQUIRED }: SettingValues): DpopMode {
  if (IDP_DPOP_MODE !== undefined) return IDP_DPOP_MODE
  if (DPOP_ENABLED === false) return 'DISABLED'
  return DPOP_REQUIRED ? 'REQUIRED' : 'ALLOWED'
}

/** The mode of the service as a whole. It offers every scheme that the mode of any issuer offers. */
export function modeOfAll (issuers: readonly IssuerSettings[], values: SettingValues): DpopMode {
  const modes = new Set(issuers.map(({ dpopMode }) => dpopMode))
  if (modes.size === 0) return dpopModeOf(values)
  return modes.size === 1 ? [...modes][0]! : 'ALLOWED'
}

/** Whether the provider is asked about opaque tokens. */
export function coversOpaque ({ IDP_INTROSPECTION: covers }: RawSettings): boolean {
  return covers === 'opaque' || covers === 'all'
}

/** One rule that the schema of the values cannot express: what is wrong, and the part of the list that is meant. */
export interface EntryProblem {
  readonly path: string
  readonly problem: string
}

/**
 * Returns what is wrong with the entries of `idp.issuers` as a whole. A value that its schema refuses is reported elsewhere.
 * @param entries undefined for an entry that is no object
 */
export function entryProblems (entries: ReadonlyArray<RawSettings | undefined>, defaults: RawSettings): EntryProblem[] {
  const seen = new Map<string, string>()
  let opaque: string | undefined
  return entries.flatMap((entry, index) => {
    if (!entry) return []
    const path = `idp.issuers[${index}]`
    const problems = [...introspectionLacks(entry, defaults).map(name => ({ path, problem: `${path}.${memberKey(name)} is not set; ${settingSpec(name).unset}` })), ...lacks(entry, defaults).map(name => ({ path, problem: `${path}.${memberKey(name)} is not set; allowed: ${settingSpec(name).allowed}` }))]
    const tell = (member: SettingName, problem: string): void => {
      problems.push({ path: `${path}.${memberKey(member)}`, problem: `${path}.${memberKey(member)} is ${quoteSetting(entry[member])}${problem}` })
    }
    if (isSet(entry, 'IDP_DOMAIN') && hasScheme(String(entry.IDP_DOMAIN))) tell('IDP_DOMAIN', ', which starts with a scheme; allowed: only the host')
    if (isSet(entry, 'IDP_DOMAIN') && isSet(entry, 'IDP_ISSUER')) tell('IDP_DOMAIN', `, but ${path}.issuer is set too; allowed: one of them`)
    const covers = entry.IDP_INTROSPECTION ?? defaults.IDP_INTROSPECTION
    if (coversOpaque({ IDP_INTROSPECTION: covers })) {
      if (opaque) problems.push({ path, problem: `${path} and ${opaque} both have introspection for opaque tokens (${quoteSetting(covers)}): an opaque token does not name its issuer; allowed: opaque or all for one issuer` })
      opaque ??= path
    }
    const name = comparable(entry)
    const first = name && seen.get(name)
    if (first) tell(isSet(entry, 'IDP_ISSUER') ? 'IDP_ISSUER' : 'IDP_DOMAIN', `, the same issuer as ${first}; allowed: each issuer once`)
    else if (name) seen.set(name, path)
    return problems
  })
}

function lacks (entry: RawSettings, defaults: RawSettings): SettingName[] {
  const names: SettingName[] = []
  if (!isSet(entry, 'IDP_ISSUER') && !isSet(entry, 'IDP_DOMAIN')) names.push('IDP_ISSUER')
  if (!isSet(entry, 'IDP_AUDIENCE') && !isSet(defaults, 'IDP_AUDIENCE')) names.push('IDP_AUDIENCE')
  return names
}

const isSet = (values: RawSettings, name: SettingName): boolean => values[name] !== undefined

/** The issuer in the form in which two are compared: as a URL and without its last slash. Undefined if it is none. */
function comparable ({ IDP_ISSUER, IDP_DOMAIN }: RawSettings): string | undefined {
  if (IDP_ISSUER === undefined && IDP_DOMAIN === undefined) return undefined
  const text = String(IDP_ISSUER ?? `https://${String(IDP_DOMAIN)}/`)
  return URL.canParse(text) ? new URL(text).href.replace(/\/$/, '') : undefined
}
