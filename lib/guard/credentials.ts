import { Message, receivedFrom, type ReceivedRequest } from './message.ts'
import { Refusal } from '../refusal.ts'

/** The two schemes that carry an access token here: RFC 6750 section 2.1 and RFC 9449 section 7.1. */
export type AuthScheme = 'Bearer' | 'DPoP'

/** DISABLED: Bearer validation only. ALLOWED: both schemes. REQUIRED: DPoP only. */
export type DpopMode = 'DISABLED' | 'ALLOWED' | 'REQUIRED'

export interface Credentials {
  readonly scheme: AuthScheme
  readonly token: string
}

// RFC 9110 section 11.2: these characters, then padding. The pattern looks for any other character, so that a long text
// is read only once.
const NOT_TOKEN68 = /[^A-Za-z0-9\-._~+/]/
const PADDING = /^=+$/

/**
 * Reads the credentials: exactly one Authorization line, with a scheme, one or more spaces, a token68 and nothing after
 * it. The shape is checked first. Then the mode decides whether the scheme is offered.
 * @throws Refusal authorization_repeated, credentials_missing, authorization_malformed, scheme_not_offered
 */
export function parseCredentials (message: Message, mode: DpopMode): Credentials {
  const credentials = splitCredentials(message)
  verifyToken68(credentials)
  verifyOffered(credentials, mode)
  return credentials
}

/**
 * The scheme and the text after it, which may be anything.
 * @throws Refusal authorization_repeated, credentials_missing, scheme_not_offered
 */
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

/** The scheme that an Authorization line names, in any case, if it is one of ours. Otherwise undefined. */
export function schemeOf (authorization: string | undefined): AuthScheme | undefined {
  if (authorization === undefined) return undefined
  const end = authorization.indexOf(' ')
  const name = (end === -1 ? authorization : authorization.slice(0, end)).toLowerCase()
  return name === 'bearer' ? 'Bearer' : name === 'dpop' ? 'DPoP' : undefined
}

/** The same of a request, by its raw lines: an app may add one there, or change `headers`. */
export function schemeSent (raw: ReceivedRequest): AuthScheme | undefined {
  return schemeOf(new Message(receivedFrom(raw)).authorization)
}

/** @throws Refusal authorization_malformed */
export function verifyToken68 ({ token }: Credentials): void {
  const end = token.search(NOT_TOKEN68)
  if (end === 0 || (end !== -1 && !PADDING.test(token.slice(end)))) throw new Refusal('authorization_malformed')
}

const OFFERED: Readonly<Record<DpopMode, readonly AuthScheme[]>> = {
  DISABLED: ['Bearer'],
  ALLOWED: ['Bearer', 'DPoP'],
  REQUIRED: ['DPoP']
}

/** The schemes that a mode offers, in the order of the challenges. */
export function offeredSchemes (mode: DpopMode): readonly AuthScheme[] {
  return OFFERED[mode]
}

export function isOffered (scheme: AuthScheme, mode: DpopMode): boolean {
  return OFFERED[mode].includes(scheme)
}

/** @throws Refusal scheme_not_offered */
export function verifyOffered ({ scheme }: Credentials, mode: DpopMode): void {
  if (!isOffered(scheme, mode)) throw new Refusal('scheme_not_offered')
}
