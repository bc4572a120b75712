import type { Message } from '../message.ts'
import { Refusal } from '../refusal.ts'
import { isOffered, schemeOf } from '../scheme.ts'
import type { DpopMode, AuthScheme } from '../scheme.ts'

export interface Credentials {
  readonly scheme: AuthScheme
  readonly token: string
}

// RFC 9110 section 11.2: these characters, then padding. The pattern looks for any other character, so that a long text is read only once.
const NOT_TOKEN68 = /[^A-Za-z0-9\-._~+/]/
const PADDING = /^=+$/

/**
 * Reads the credentials: exactly one Authorization line, with a scheme, one or more spaces, a token68 and nothing after it.
 * The shape is checked first. Then the mode decides whether the scheme is offered.
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

/** @throws Refusal authorization_malformed */
export function verifyToken68 ({ token }: Credentials): void {
  const end = token.search(NOT_TOKEN68)
  if (end === 0 || (end > 0 && !PADDING.test(token.slice(end)))) throw new Refusal('authorization_malformed')
}

/** @throws Refusal scheme_not_offered */
export function verifyOffered ({ scheme }: Credentials, mode: DpopMode): void {
  if (!isOffered(scheme, mode)) throw new Refusal('scheme_not_offered')
}
