import { isUtf8 } from 'node:buffer'
import { isIPv6 } from 'node:net'
import { domainToASCII } from 'node:url'

/** The schemes under which this service can be reached. */
export type HttpScheme = 'http' | 'https'

/** The two parts of an authority without user info (RFC 3986 section 3.2), in normal form. */
export interface Authority {
  /** Lower case, IDN as punycode, IPv6 canonical and in brackets. */
  readonly host: string
  /** 1 to 65535, or undefined if the text names none. */
  readonly port: number | undefined
}

/** An absolute http or https URL without query and fragment, in normal form. */
export interface HttpUrl {
  readonly scheme: HttpScheme
  /** Holds the port if it is not the scheme's default. */
  readonly host: string
  /** Of the address of a service: empty, or plain path segments, each after a slash. */
  readonly path: string
  /** scheme://host and path. */
  readonly href: string
}

const DEFAULT_PORTS: Readonly<Record<HttpScheme, number>> = { http: 80, https: 443 }

// A DNS name has at most 253 characters. The same name may be longer if it is escaped or in another script.
const MAX_HOST_CHARS = 255
const MAX_TEXT_CHARS = 1024

const HOST_CHARS = /^[A-Za-z0-9._~-]+$/
const HOST_CHARS_OR_IDN = /^[A-Za-z0-9._~\u0080-\uffff-]+$/

/** `http` or `https` in any case (RFC 3986 section 3.1), or undefined. */
export function parseScheme (text: string): HttpScheme | undefined {
  const scheme = text.toLowerCase()
  return scheme === 'https' || scheme === 'http' ? scheme : undefined
}

/** A decimal port from 1 to 65535, or undefined. */
export function parsePort (text: string): number | undefined {
  if (!/^[0-9]{1,5}$/.test(text)) return undefined
  const port = Number(text)
  return port >= 1 && port <= 65535 ? port : undefined
}

// RFC 3986 section 3.2.2 allows sub-delims in a registered name. They are refused here: no name that resolves has them,
// and some, such as the comma, have a meaning of their own in a forwarded header.
function parseName (text: string): string | undefined {
  if (HOST_CHARS.test(text)) return text.toLowerCase()
  const name = text.includes('%') ? decodeEscapes(text) : text
  // domainToASCII stops at the first delimiter that it finds, so it must get nothing but a name. It writes lower case.
  if (name === undefined || !HOST_CHARS_OR_IDN.test(name)) return undefined
  const ascii = domainToASCII(name)
  return HOST_CHARS.test(ascii) ? ascii : undefined
}

function parseBracketed (text: string): string | undefined {
  const address = text.slice(1, -1)
  // A zone (RFC 6874) has a meaning on one machine only.
  if (!isIPv6(address) || address.includes('%')) return undefined
  return domainToASCII(text)
}

/**
 * Reads host and port: a registered name (also IDN or percent-encoded), IPv4 or bracketed IPv6, then an optional port,
 * which may be empty (RFC 3986 section 6.2.3). Undefined for any other text, including user info.
 */
export function parseAuthority (text: string): Authority | undefined {
  if (text.length > MAX_TEXT_CHARS) return undefined
  const [, hostText, portText] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text)!
  const host = hostText!.startsWith('[') ? parseBracketed(hostText!) : parseName(hostText!)
  if (host === undefined || host.length > MAX_HOST_CHARS) return undefined
  if (!portText) return { host, port: undefined }
  const port = parsePort(portText)
  return port === undefined ? undefined : { host, port }
}

/** Reads host and port from a header, which has one character for each byte. Bytes outside ASCII are read as UTF-8. */
export function parseWireAuthority (text: string): Authority | undefined {
  if (!/[\u0080-\u00ff]/.test(text)) return parseAuthority(text)
  const bytes = Buffer.from(text, 'latin1')
  return isUtf8(bytes) ? parseAuthority(bytes.toString()) : undefined
}

/** Puts scheme, authority and path together, without a default port (RFC 3986 section 6.2.3). */
export function httpUrlOf (scheme: HttpScheme, authority: Authority, path = ''): HttpUrl {
  const { port = DEFAULT_PORTS[scheme] } = authority
  const host = port === DEFAULT_PORTS[scheme] ? authority.host : `${authority.host}:${port}`
  return { scheme, host, path, href: `${scheme}://${host}${path}` }
}

/** The URL of a path under the address of a service. */
export function urlUnder (base: HttpUrl, path: string): HttpUrl {
  return { scheme: base.scheme, host: base.host, path: base.path + path, href: base.href + path }
}

const UNRESERVED = /[A-Za-z0-9._~-]/

/**
 * Normalises case and percent-encoding (RFC 3986 sections 6.2.2.1 and 6.2.2.2): `%xx` gets upper-case hex, unreserved
 * characters are decoded, because only these mean the same whether they are escaped or plain (section 2.3), and all
 * else stays. Returns undefined if a `%` is not followed by two hex digits.
 */
export function normalizeEscapes (path: string): string | undefined {
  if (/%(?![0-9A-Fa-f]{2})/.test(path)) return undefined
  return path.replace(/%../g, escape => {
    const char = String.fromCharCode(parseInt(escape.slice(1), 16))
    return UNRESERVED.test(char) ? char : escape.toUpperCase()
  })
}

/**
 * Escapes the UTF-8 bytes of characters outside ASCII: each IRI maps to exactly one URI (RFC 3987 section 3.1).
 * Undefined for half a surrogate pair.
 */
export function escapeNonAscii (path: string): string | undefined {
  return path.isWellFormed() ? path.replace(/[\u0080-\uffff]+/g, encodeURIComponent) : undefined
}

/** Decodes every escape. Returns undefined if one is broken, or if the bytes are not UTF-8. */
export function decodeEscapes (text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Resolves the dot segments of an absolute path (RFC 3986 section 5.2.4). `%2e` must be decoded before. */
function removeDotSegments (path: string): string {
  const kept: string[] = []
  const segments = path.split('/')
  segments.forEach((segment, index) => {
    const dots = segment === '.' || segment === '..'
    // The first segment is the empty one before the leading slash. It stays.
    if (segment === '..' && kept.length > 1) kept.pop()
    if (!dots) kept.push(segment)
    else if (index === segments.length - 1) kept.push('')
  })
  return kept.join('/')
}

/** Why a text is not an absolute http or https URL. */
type HttpUrlFault = 'not_absolute' | 'user_info' | 'authority' | 'path'

/**
 * The parts of an absolute http or https URL as they were written. The authority ends at the first `/`, `?` or `#` (RFC
 * 3986 section 3.2).
 */
export function splitHttpUrl (text: string): { scheme: HttpScheme, authority: string, rest: string } | undefined {
  const [start = '', scheme, authority = ''] = /^(https?):\/\/([^/?#]*)/i.exec(text) ?? []
  return scheme === undefined
    ? undefined
    : { scheme: scheme.toLowerCase() as HttpScheme, authority, rest: text.slice(start.length) }
}

function normalizePath (path: string): string | undefined {
  if (/[^\u0021-\u007e\u0080-\uffff]|\\/.test(path)) return undefined
  const ascii = escapeNonAscii(path)
  const normalized = ascii === undefined ? undefined : normalizeEscapes(ascii)
  return normalized === undefined ? undefined : removeDotSegments(normalized)
}

/**
 * Reads an absolute URL into normal form by syntax and scheme (RFC 3986 sections 6.2.2 and 6.2.3), without query and
 * fragment: dot segments are resolved, and an empty path becomes `/`. Returns the fault of any other text.
 */
export function parseHttpUrl (text: string): HttpUrl | HttpUrlFault {
  const parts = splitHttpUrl(text)
  if (parts === undefined) return 'not_absolute'
  if (parts.authority.includes('@')) return 'user_info'
  const authority = parseAuthority(parts.authority)
  if (authority === undefined) return 'authority'
  const path = normalizePath(parts.rest.split(/[?#]/, 1)[0] || '/')
  if (path === undefined) return 'path'
  return httpUrlOf(parts.scheme, authority, path)
}
