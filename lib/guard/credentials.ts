import type { CertificateReader } from '../certificate/client-certificate.ts'
import type { Message } from '../message.ts'
import { Refusal } from '../refusal.ts'
import { isOffered, schemeOf } from '../scheme.ts'
import type { AuthScheme, DpopMode } from '../scheme.ts'
import type { Binding } from '../token/verified-tokens.ts'

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
  if (end === 0 || (end !== -1 && !PADDING.test(token.slice(end)))) throw new Refusal('authorization_malformed')
}

/** @throws Refusal scheme_not_offered */
export function verifyOffered ({ scheme }: Credentials, mode: DpopMode): void {
  if (!isOffered(scheme, mode)) throw new Refusal('scheme_not_offered')
}

/**
 * A token that is bound to a certificate passes only with that certificate (RFC 8705 section 3). It is checked before scheme and
 * proof, because it is about the token. For any other token nothing is read.
 * @throws Refusal certificate_missing, certificate_unreadable, certificate_mismatch
 */
export function verifyCertificate ({ x5tS256 }: Binding, { received }: Message, readCertificate: CertificateReader): void {
  if (x5tS256 !== undefined && readCertificate(received) !== x5tS256) throw new Refusal('certificate_mismatch')
}

/**
 * The scheme must fit the token: RFC 9449 section 7.1, and section 7.2 against the downgrade of a bound token.
 * @throws Refusal token_unbound, token_bound, proof_beside_bearer
 */
export function verifySchemeFits (scheme: AuthScheme, { jkt }: Binding, { dpopCount }: Message, mode: DpopMode): void {
  if (scheme === 'DPoP') {
    if (jkt === undefined) throw new Refusal('token_unbound')
  } else if (mode !== 'DISABLED') {
    if (jkt !== undefined) throw new Refusal('token_bound')
    if (dpopCount > 0) throw new Refusal('proof_beside_bearer')
  }
}

/**
 * The only proof of a request (RFC 9449 section 4.3, check 1).
 * @throws Refusal proof_missing, proof_repeated
 */
export function readProofLine ({ dpop, dpopCount }: Message): string {
  if (!dpop) throw new Refusal('proof_missing')
  // RFC 9110 section 5.3: an intermediary may have joined two lines with a comma.
  if (dpopCount > 1 || dpop.includes(',')) throw new Refusal('proof_repeated')
  return dpop
}
