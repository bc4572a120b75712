import type { JwsAlg } from '../jose/signature.ts'
import type { DpopMode } from '../scheme.ts'
import type { ScopeClaim } from '../token/verified-tokens.ts'
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
    dpopMode: values.IDP_DPOP_MODE ?? dpopModeOf(defaults)
  })
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
  return entries.flatMap((entry, index) => {
    if (!entry) return []
    const path = `idp.issuers[${index}]`
    const problems = lacks(entry, defaults).map(name => ({ path, problem: `${path}.${memberKey(name)} is not set; allowed: ${settingSpec(name).allowed}` }))
    if (isSet(entry, 'IDP_DOMAIN') && hasScheme(String(entry.IDP_DOMAIN))) {
      problems.push({ path: `${path}.domain`, problem: `${path}.domain starts with a scheme; write only the host` })
    }
    const name = comparable(entry)
    const first = name && seen.get(name)
    if (first) problems.push({ path, problem: `${path} is the same issuer as ${first}` })
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
