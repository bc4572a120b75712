import { hasDotSegment, normalizeEscapes } from './path.ts'

const MAX_CHARS = 2048
const MAX_ENTRIES = 16

// Non-empty segments of pchar (RFC 3986 section 3.3), the comma left out: it separates entries.
const SEGMENTS = /^(?:\/(?:[A-Za-z0-9._~!$&'()*+;=:@-]|%[0-9A-Fa-f]{2})+)*$/
// Escapes that one hop decodes and the next one does not: dot, slash, back-slash, control characters.
const UNCLEAR_ESCAPE = /%(?:2[ef]|5c|[01][0-9a-f]|7f)/i

/**
 * Reads one path under which the service is mounted: plain segments, each after a slash; one slash at the end is
 * dropped, so that `/` is the empty prefix. Returns it in normal form, or undefined where it is none.
 */
export function parsePrefix (text: string): string | undefined {
  if (text.length > MAX_CHARS || text.charCodeAt(0) !== 0x2f) return undefined
  const path = text.endsWith('/') ? text.slice(0, -1) : text
  if (!SEGMENTS.test(path) || UNCLEAR_ESCAPE.test(path)) return undefined
  const prefix = normalizeEscapes(path)
  return prefix === undefined || hasDotSegment(prefix) ? undefined : prefix
}

/** Reads the entries of X-Forwarded-Prefix and joins them in order; undefined where one of them is no prefix. */
export function parsePrefixList (text: string): string | undefined {
  if (text.length > MAX_CHARS) return undefined
  if (!text.includes(',')) return parsePrefix(text)
  const entries = text.split(',', MAX_ENTRIES + 1)
  if (entries.length > MAX_ENTRIES) return undefined
  let joined = ''
  for (const entry of entries) {
    const prefix = parsePrefix(entry.trim())
    if (prefix === undefined) return undefined
    joined += prefix
  }
  return joined
}
