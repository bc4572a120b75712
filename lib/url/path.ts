import { Refusal } from '../refusal.ts'

const UNRESERVED = /[A-Za-z0-9._~-]/

/**
 * Normalises case and percent-encoding (RFC 3986 sections 6.2.2.1 and 6.2.2.2): `%xx` gets upper-case hex, unreserved characters
 * are decoded, because only these mean the same whether they are escaped or plain (section 2.3), and all else stays. Undefined if a
 * `%` is not followed by two hex digits.
 */
export function normalizeEscapes (path: string): string | undefined {
  if (/%(?![0-9A-Fa-f]{2})/.test(path)) return undefined
  return path.replace(/%../g, (escape) => {
    const char = String.fromCharCode(parseInt(escape.slice(1), 16))
    return UNRESERVED.test(char) ? char : escape.toUpperCase()
  })
}

/** Escapes the UTF-8 bytes of characters outside ASCII: each IRI maps to exactly one URI (RFC 3987 section 3.1). Undefined for half a surrogate pair. */
export function escapeNonAscii (path: string): string | undefined {
  return path.isWellFormed() ? path.replace(/[\u0080-\uffff]+/g, encodeURIComponent) : undefined
}

/** Decodes every escape. Undefined if one is broken, or if the bytes are not UTF-8. */
export function decodeEscapes (text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Matches a path in normal form that has a segment `.` or `..`. */
const DOT_SEGMENT = /\/\.\.?(?:\/|$)/

/** Resolves the dot segments of an absolute path (RFC 3986 section 5.2.4). `%2e` must be decoded before. */
export function removeDotSegments (path: string): string {
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

function causeOf (char: string): string {
  if (char === '\\') return 'backslash'
  if (char === '#') return 'fragment'
  // No URI holds a byte outside ASCII. A router may read it in another way than its escaped form.
  return char <= ' ' || char === '\u007f' ? 'control_character' : 'non_ascii'
}

/**
 * Returns the path of a request target that begins with its path, in normal form and without the query.
 * @throws Refusal target_path, with the `cause`, if router and proof could read two different resources from the target: dot segments, also
 * as `%2e`, back-slashes, control characters, a fragment, bytes outside ASCII, broken escapes
 */
export function readTargetPath (target: string): string {
  const query = target.indexOf('?')
  const path = query === -1 ? target : target.slice(0, query)
  // Nearly every path is in normal form: no escape, and no segment that begins with a dot.
  if (!/[^\u0021-\u007e]|[#%\\]|\/\./.test(path)) return path
  const char = /[^\u0021-\u007e]|[#\\]/.exec(path)?.[0]
  if (char !== undefined) throw new Refusal('target_path', { detail: { cause: causeOf(char) } })
  const normalized = normalizeEscapes(path)
  if (normalized === undefined) throw new Refusal('target_path', { detail: { cause: 'escape' } })
  if (DOT_SEGMENT.test(normalized)) throw new Refusal('target_path', { detail: { cause: 'dot_segment' } })
  return normalized
}

const MAX_CHARS = 2048
const MAX_ENTRIES = 16

// Non-empty segments of pchar (RFC 3986 section 3.3) without the comma, which separates entries.
const SEGMENTS = /^(?:\/(?:[A-Za-z0-9._~!$&'()*+;=:@-]|%[0-9A-Fa-f]{2})+)*$/
// Escapes that one hop may decode while the next one does not: dot, slash, back-slash, control characters.
const UNCLEAR_ESCAPE = /%(?:2[ef]|5c|[01][0-9a-f]|7f)/i

/**
 * Reads a path under which the service is mounted: plain segments, each after a slash. One slash at the end is dropped, so `/` is the
 * empty prefix. Returns it in normal form, or undefined if it is not such a path.
 */
export function parsePrefix (text: string): string | undefined {
  if (text.length > MAX_CHARS || !text.startsWith('/')) return undefined
  const path = text.endsWith('/') ? text.slice(0, -1) : text
  if (!SEGMENTS.test(path) || UNCLEAR_ESCAPE.test(path)) return undefined
  // Its escapes are whole, so there is a normal form.
  const prefix = normalizeEscapes(path)!
  return DOT_SEGMENT.test(prefix) ? undefined : prefix
}

/** Reads the entries of X-Forwarded-Prefix and joins them in order. Undefined if one of them is not a prefix. */
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
