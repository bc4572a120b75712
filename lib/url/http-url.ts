import type { Authority, Scheme } from './authority.ts'
import { parseAuthority, parseScheme } from './authority.ts'
import { escapeNonAscii, normalizeEscapes, removeDotSegments } from './path.ts'

/** An absolute http or https URL without query and fragment, in normal form. */
export interface HttpUrl extends Authority {
  readonly scheme: Scheme
  readonly path: string
}

/** Why a text is no such URL. */
export type HttpUrlFault = 'not_absolute' | 'user_info' | 'authority' | 'path'

/** The first of `/`, `?` and `#` from `start` on, or the end: where an authority ends (RFC 3986 section 3.2). */
export function findAuthorityEnd (text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    const char = text[at]
    if (char === '/' || char === '?' || char === '#') return at
  }
  return text.length
}

function findPathEnd (text: string, start: number): number {
  const query = text.indexOf('?', start)
  const end = query === -1 ? text.length : query
  const fragment = text.indexOf('#', start)
  return fragment === -1 || fragment > end ? end : fragment
}

function normalizePath (path: string): string | undefined {
  if (/[^\u0021-\u007e\u0080-\uffff]|\\/.test(path)) return undefined
  const ascii = escapeNonAscii(path)
  const normalized = ascii === undefined ? undefined : normalizeEscapes(ascii)
  return normalized === undefined ? undefined : removeDotSegments(normalized)
}

/**
 * Reads an absolute URL and brings it to normal form by syntax and scheme (RFC 3986 sections 6.2.2 and 6.2.3):
 * dot segments resolved, an empty path is `/`. Query and fragment are left out; the scheme's default port is kept.
 * Returns the fault where it is none, never throws.
 */
export function parseHttpUrl (text: string): HttpUrl | HttpUrlFault {
  const colon = text.indexOf(':')
  const scheme = parseScheme(text.slice(0, Math.max(colon, 0)))
  if (scheme === undefined || !text.startsWith('//', colon + 1)) return 'not_absolute'
  const start = colon + 3
  const end = findAuthorityEnd(text, start)
  const authorityText = text.slice(start, end)
  if (authorityText.includes('@')) return 'user_info'
  const authority = parseAuthority(authorityText)
  if (authority === undefined) return 'authority'
  const path = normalizePath(text.slice(end, findPathEnd(text, end)) || '/')
  if (path === undefined) return 'path'
  return { scheme, host: authority.host, port: authority.port, path }
}
