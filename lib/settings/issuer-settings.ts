import type { DpopMode } from '../credentials.ts'
import type { IntrospectedTokens } from '../token/inquiry.ts'
import { hasScheme } from './formats.ts'
import type { SettingValues } from './specs.ts'

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
