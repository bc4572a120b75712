import type { DpopMode } from '../scheme.ts'
import type { IntrospectedTokens } from '../token/issuer-table.ts'
import { quoteSetting } from '../printable.ts'
import { hasScheme } from './formats.ts'
import { memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName, SettingValues } from './specs.ts'

type Idp = SettingValues['idp']

/** What holds for the tokens of one issuer. */
export interface IssuerSettings extends Pick<Idp, 'jwksUri' | 'keysFile' | 'algs' | 'scopeClaims'> {
  /** Issuer URL. It names the issuer in logs, metrics and answers. */
  readonly issuer: string
  readonly audience: string
  readonly dpopMode: DpopMode
  /** Undefined if the provider is never asked about a token. */
  readonly introspection: IntrospectionSettings | undefined
}

/** How the provider is asked about tokens (RFC 7662). */
export interface IntrospectionSettings extends Omit<Idp['introspection'], 'for' | 'clientId'> {
  readonly covers: IntrospectedTokens
  readonly clientId: string
}

/** The settings of one issuer: those of an entry of the list, or the single ones. */
export type IssuerValues = Partial<Omit<Idp, 'introspection'>> & { readonly introspection?: Partial<Idp['introspection']> }

/** Resolves the issuers from validated values. None if the only domain has a scheme. */
export function issuersOf (idp: Idp): IssuerSettings[] {
  const { issuers, domain, issuer } = idp
  if (issuers) return issuers.map(entry => resolveIssuer(entry, idp))
  // A domain with a scheme yields 401 for every token, whatever else is set. The operator must correct it.
  if (domain === undefined ? issuer === undefined : hasScheme(domain)) return []
  return [resolveIssuer(idp, idp)]
}

/** @param entry validated. What it leaves out is taken from `beside`. */
export function resolveIssuer (entry: IssuerValues, beside: Omit<Idp, 'issuers'>): IssuerSettings {
  const idp = { ...beside, ...entry }
  const { audience, jwksUri, keysFile, algs, scopeClaims } = idp
  const { for: covers, clientId, ...introspection } = { ...beside.introspection, ...entry.introspection }
  return Object.freeze({
    // As a URL, the issuer has lower case, IDN as punycode and no default port. Providers write themselves in this form.
    issuer: entry.issuer ?? new URL(`https://${entry.domain}/`).href,
    audience: audience!,
    jwksUri,
    keysFile,
    algs,
    scopeClaims,
    dpopMode: dpopModeOf(idp),
    introspection: covers === 'off' ? undefined : Object.freeze({ ...introspection, covers, clientId: clientId! })
  })
}

/** The settings that introspection needs and that are not set. */
export function introspectionLacks (entry: RawIssuer, beside: RawIssuer = {}): SettingName[] {
  const introspection = { ...beside.introspection, ...entry.introspection }
  if ((introspection.for ?? 'off') === 'off') return []
  const members = ['clientId', introspection.auth === 'private_key_jwt' ? 'keyFile' : 'clientSecret'] as const
  return members.filter(member => introspection[member] === undefined).map(member => `idp.introspection.${member}` as const)
}

function dpopModeOf ({ dpopMode, dpopEnabled, dpopRequired }: IssuerValues): DpopMode {
  if (dpopMode !== undefined) return dpopMode
  if (dpopEnabled === false) return 'DISABLED'
  return dpopRequired ? 'REQUIRED' : 'ALLOWED'
}

/** The mode of the service as a whole. It offers every scheme that the mode of any issuer offers. */
export function modeOfAll (issuers: readonly IssuerSettings[], idp: Idp): DpopMode {
  const modes = new Set(issuers.map(({ dpopMode }) => dpopMode))
  if (modes.size === 0) return dpopModeOf(idp)
  return modes.size === 1 ? [...modes][0]! : 'ALLOWED'
}

/** An entry of the list, or the section beside it, as it was written. */
export type RawIssuer = Partial<Omit<RawSettings['idp'], 'introspection'>> & { readonly introspection?: Partial<RawSettings['idp']['introspection']> }

/** Whether the provider is asked about opaque tokens. */
export function coversOpaque (covers: unknown): boolean {
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
export function entryProblems (entries: ReadonlyArray<RawIssuer | undefined>, beside: RawIssuer): EntryProblem[] {
  const seen = new Map<string, string>()
  let opaque: string | undefined
  return entries.flatMap((entry, index) => {
    if (!entry) return []
    const path = `idp.issuers[${index}]`
    const { domain, issuer, audience = beside.audience, introspection } = entry
    const problems: EntryProblem[] = []
    const tell = (problem: string): void => { problems.push({ path, problem: path + problem }) }
    const tellMember = (member: 'domain' | 'issuer', problem: string): void => {
      problems.push({ path: `${path}.${member}`, problem: `${path}.${member} is ${quoteSetting(entry[member])}${problem}` })
    }
    for (const name of introspectionLacks(entry, beside)) tell(`.${memberKey(name)} is not set; ${settingSpec(name).unset}`)
    if (issuer === undefined && domain === undefined) tell(`.issuer is not set; allowed: ${settingSpec('idp.issuer').allowed}`)
    if (audience === undefined) tell(`.audience is not set; allowed: ${settingSpec('idp.audience').allowed}`)
    if (hasScheme(String(domain))) tellMember('domain', ', which starts with a scheme; allowed: only the host')
    if (domain !== undefined && issuer !== undefined) tellMember('domain', `, but ${path}.issuer is set too; allowed: one of them`)
    const covers = introspection?.for ?? beside.introspection?.for
    if (coversOpaque(covers)) {
      if (opaque) tell(` and ${opaque} both have introspection for opaque tokens (${quoteSetting(covers)}): an opaque token does not name its issuer; allowed: opaque or all for one issuer`)
      opaque ??= path
    }
    const name = comparable(entry)
    const first = name && seen.get(name)
    if (first) tellMember(issuer === undefined ? 'domain' : 'issuer', `, the same issuer as ${first}; allowed: each issuer once`)
    else if (name) seen.set(name, path)
    return problems
  })
}

/** The issuer in the form in which two are compared: as a URL and without its last slash. Undefined if it is none. */
function comparable ({ issuer, domain }: RawIssuer): string | undefined {
  if (issuer === undefined && domain === undefined) return undefined
  const text = String(issuer ?? `https://${String(domain)}/`)
  return URL.canParse(text) ? new URL(text).href.replace(/\/$/, '') : undefined
}
