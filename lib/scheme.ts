/** The two schemes that carry an access token here: RFC 6750 section 2.1 and RFC 9449 section 7.1. */
export type AuthScheme = 'Bearer' | 'DPoP'

/** DISABLED: Bearer validation only. ALLOWED: both schemes. REQUIRED: DPoP only. */
export type DpopMode = 'DISABLED' | 'ALLOWED' | 'REQUIRED'

/** The scheme that an Authorization line names, in any case, if it is one of ours. Otherwise undefined. */
export function schemeOf (authorization: string | undefined): AuthScheme | undefined {
  if (authorization === undefined) return undefined
  const end = authorization.indexOf(' ')
  const name = (end === -1 ? authorization : authorization.slice(0, end)).toLowerCase()
  return name === 'bearer' ? 'Bearer' : name === 'dpop' ? 'DPoP' : undefined
}

export function isOffered (scheme: AuthScheme, mode: DpopMode): boolean {
  return scheme === 'Bearer' ? mode !== 'REQUIRED' : mode !== 'DISABLED'
}

/** The schemes that a mode offers, in the order of the challenges. */
export function offeredSchemes (mode: DpopMode): readonly AuthScheme[] {
  return mode === 'DISABLED' ? ['Bearer'] : mode === 'REQUIRED' ? ['DPoP'] : ['Bearer', 'DPoP']
}
