import type { Message } from '../message.ts'
import { Refusal } from '../refusal.ts'

/** The two schemes that carry an access token here: RFC 6750 section 2.1 and RFC 9449 section 7.1. */
export type Scheme = 'Bearer' | 'DPoP'

/** DISABLED: Bearer validation only. ALLOWED: both schemes. REQUIRED: DPoP only. */
export type DpopMode = 'DISABLED' | 'ALLOWED' | 'REQUIRED'

export interface Credentials {
  readonly scheme: Scheme
  readonly token: string
}

// RFC 9110 section 11.2: these characters, then padding. Looked for from the other side, so that a long text is gone through once.
const NOT_TOKEN68 = /[^A-Za-z0-9\-._~+/]/
const PADDING = /^=+$/

/** The scheme that an Authorization line names, in any case: one of ours, or undefined. */
export function schemeOf (authorization: string | undefined): Scheme | undefined {
  if (authorization === undefined) return undefined
  const end = authorization.indexOf(' ')
  const name = (end === -1 ? authorization : authorization.slice(0, end)).toLowerCase()
  return name === 'bearer' ? 'Bearer' : name === 'dpop' ? 'DPoP' : undefined
}

/** The schemes that a mode offers, in the order in which they are announced. */
export function offeredSchemes (mode: DpopMode): readonly Scheme[] {
  return mode === 'DISABLED' ? ['Bearer'] : mode === 'REQUIRED' ? ['DPoP'] : ['Bearer', 'DPoP']
}

/**
 * Reads the credentials: exactly one Authorization line, with a scheme, one or more spaces, a token68 and nothing after it.
 * The shape is judged first, then what the mode offers.
 * @throws Refusal authorization_repeated, credentials_missing, authorization_malformed, scheme_not_offered
 */
export function parseCredentials (message: Message, mode: DpopMode): Credentials {
  const credentials = splitCredentials(message)
  verifyToken68(credentials)
  verifyOffered(credentials, mode)
  return credentials
}

/** The scheme and what stands after it, whatever that is. @throws Refusal authorization_repeated, credentials_missing, scheme_not_offered */
export function splitCredentials ({ authorization, authorizationCount }: Message): Credentials {
  if (authorizationCount > 1) throw new Refusal('authorization_repeated')
  if (!authorization) throw new Refusal('credentials_missing')
  const scheme = schemeOf(authorization)
  if (!scheme) throw new Refusal('scheme_not_offered')
  let start = scheme.length
  while (authorization.charCodeAt(start) === 0x20) start++
  const token = authorization.slice(start)
  if (token === '') throw new Refusal('credentials_missing')
  return { scheme, token }
}

/** @throws Refusal authorization_malformed */
export function verifyToken68 ({ token }: Credentials): void {
  const end = token.search(NOT_TOKEN68)
  if (end === 0 || (end > 0 && !PADDING.test(token.slice(end)))) throw new Refusal('authorization_malformed')
}

/** @throws Refusal scheme_not_offered */
export function verifyOffered ({ scheme }: Credentials, mode: DpopMode): void {
  if (scheme === 'Bearer' ? mode === 'REQUIRED' : mode === 'DISABLED') throw new Refusal('scheme_not_offered')
}
