import { printable } from '../../base/printable.ts'
import { ProviderFailure } from './provider-failure.ts'

/**
 * 127.0.0.0/8 as the URL parser writes it, ::1, and `localhost`, which RFC 6761 section 6.3 reserves for the machine
 * itself.
 */
const LOOPBACK = /^(?:localhost|\[::1\]|127\.\d{1,3}\.\d{1,3}\.\d{1,3})$/

/** Whether the URL is `http:` to this machine. Over a network, `http:` would let anyone on the way choose the keys. */
export function isLoopbackHttp (url: URL): boolean {
  return url.protocol === 'http:' && LOOPBACK.test(url.hostname)
}

/**
 * Reads an absolute URL without user info: `https:` anywhere, `http:` only to this machine. Undefined for any other
 * text.
 */
function parseSafeUrl (text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.username === '' && url.password === '' && (url.protocol === 'https:' || isLoopbackHttp(url))
    ? url
    : undefined
}

/** The text without its last slash. Issuers are compared in this form. No other difference is accepted. */
export function withoutTrailingSlash (text: string): string {
  return text.endsWith('/') ? text.slice(0, -1) : text
}

/** The spellings of an issuer in a token: with and without its last slash. No other difference is accepted. */
export function issuerSpellings (issuer: string): readonly [string, string] {
  const bare = withoutTrailingSlash(issuer)
  return [bare, `${bare}/`]
}

/**
 * Reads the configured issuer: an absolute `https:` URL (`http:` on loopback only) without user info, query and
 * fragment (RFC 8414 section 2). Returns the address of its documents, with a trailing slash. Throws TypeError.
 */
export function parseIssuer (text: string): string {
  const url = parseSafeUrl(text)
  if (url === undefined || text.includes('?') || text.includes('#')) {
    throw new TypeError(
      'The issuer must be an https URL (http on loopback only) without user info, query and fragment.'
    )
  }
  return url.href.endsWith('/') ? url.href : `${url.href}/`
}

/** Whether documents may be fetched under an issuer. */
export function isFetchableIssuer (text: string): boolean {
  try {
    parseIssuer(text)
    return true
  } catch {
    return false
  }
}

/**
 * Whether a text can name an issuer, though perhaps nothing may be fetched under it: AD FS writes `http:` issuers,
 * whose keys are elsewhere.
 */
export function isIssuerName (text: string): boolean {
  return isFetchableIssuer(text.replace(/^http:/i, 'https:'))
}

/**
 * Reads the address of the set from the settings: `https:`, or `http:` on loopback, whatever the issuer is. Returns it
 * without fragment. Throws TypeError.
 */
export function parseConfiguredJwksUri (text: string): string {
  const url = parseSafeUrl(text)
  if (url === undefined) {
    throw new TypeError('The address of the keys must be an https URL (http on loopback only) without user info.')
  }
  return withoutFragment(url)
}

/**
 * Reads an address from a discovery document (RFC 8414 section 2). Another host is accepted, because the configured
 * provider names it. `http:` is refused, unless the issuer itself is loopback `http:`. Returns it without fragment.
 * Throws ProviderFailure with the word `refused`.
 */
export function parseDiscoveredUri (
  text: string,
  issuer: string,
  refused: 'jwks_uri_refused' | 'introspection_endpoint' | 'discovery_malformed'
): string {
  const url = parseSafeUrl(text)
  if (url === undefined || (url.protocol === 'http:' && new URL(issuer).protocol !== 'http:')) {
    throw new ProviderFailure(refused, undefined, { expected: 'an https URL', found: printable(text) })
  }
  return withoutFragment(url)
}

/**
 * Reads an address that must be at one of these origins, because what is sent there is secret, or what comes from there
 * is trusted. Returns it without fragment. Throws ProviderFailure foreign_address.
 */
export function parseOwnUri (text: string, origins: readonly string[]): string {
  const url = parseSafeUrl(text)
  if (url === undefined || !origins.includes(url.origin)) {
    throw new ProviderFailure('foreign_address', undefined, {
      expected: `an address at ${origins.join(' or ')}`,
      found: printable(text)
    })
  }
  return withoutFragment(url)
}

function withoutFragment (url: URL): string {
  url.hash = ''
  return url.href
}
