import { Refusal } from '../refusal.ts'

const HASH = 0x23
const PERCENT = 0x25
const DOT = 0x2e
const SLASH = 0x2f
const QUESTION = 0x3f
const BACKSLASH = 0x5c
const LAST_VISIBLE = 0x7e

// Unreserved characters of RFC 3986 section 2.3: only these mean the same whether they are escaped or plain.
const UNRESERVED = new Uint8Array(256)
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~') UNRESERVED[char.charCodeAt(0)] = 1

// A path in plain form holds none of these characters. A path with one of them takes the slow way.
const UNCOMMON = new Uint8Array(LAST_VISIBLE + 1)
UNCOMMON.fill(1, 0, 0x21)
for (const code of [HASH, PERCENT, BACKSLASH]) UNCOMMON[code] = 1

const ESCAPES = Array.from({ length: 256 }, (_, code) => '%' + code.toString(16).toUpperCase().padStart(2, '0'))

// The value of a hex digit, or -1. NaN, which is read after the end of the text, also gives -1.
function hexValue (code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/**
 * Normalises case and percent-encoding (RFC 3986 sections 6.2.2.1 and 6.2.2.2): `%xx` gets upper-case hex, unreserved characters
 * are decoded, and all else stays. Undefined if a `%` is not followed by two hex digits.
 */
export function normalizeEscapes (path: string): string | undefined {
  let normalized = ''
  let done = 0
  for (let at = path.indexOf('%'); at !== -1; at = path.indexOf('%', done)) {
    const high = hexValue(path.charCodeAt(at + 1))
    const low = hexValue(path.charCodeAt(at + 2))
    if (high === -1 || low === -1) return undefined
    const code = high * 16 + low
    normalized += path.slice(done, at) + (UNRESERVED[code] === 1 ? String.fromCharCode(code) : ESCAPES[code])
    done = at + 3
  }
  return done === 0 ? path : normalized + path.slice(done)
}

/**
 * Writes characters outside ASCII as the escapes of their UTF-8 bytes, so that a path in another script may be written plainly.
 * Each IRI maps to exactly one URI (RFC 3987 section 3.1). Undefined for half a surrogate pair.
 */
export function escapeNonAscii (path: string): string | undefined {
  try {
    return path.replace(/[\u0080-\uffff]+/g, encodeURIComponent)
  } catch {
    return undefined
  }
}

/** True if a segment of the path, in normalised form, is `.` or `..`. */
export function hasDotSegment (path: string): boolean {
  return path.split('/').some((segment) => segment === '.' || segment === '..')
}

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

function refuseChar (code: number): void {
  if (code === BACKSLASH) throw new Refusal('target_path', { cause: 'backslash' })
  if (code === HASH) throw new Refusal('target_path', { cause: 'fragment' })
  if (code <= 0x20 || code === 0x7f) throw new Refusal('target_path', { cause: 'control_character' })
  // No URI holds such a byte. A router may read it in another way than its escaped form.
  if (code > LAST_VISIBLE) throw new Refusal('target_path', { cause: 'non_ascii' })
}

function normalizeUncommonPath (path: string): string {
  for (let at = 0; at < path.length; at++) refuseChar(path.charCodeAt(at))
  const normalized = normalizeEscapes(path)
  if (normalized === undefined) throw new Refusal('target_path', { cause: 'escape' })
  if (hasDotSegment(normalized)) throw new Refusal('target_path', { cause: 'dot_segment' })
  return normalized
}

/**
 * Returns the path of a request target in normal form, from `start` (its first slash) up to the query. If router and proof could
 * read two different resources from the target (dot segments, also as `%2e`, back-slashes, control characters, a fragment, bytes
 * outside ASCII, broken escapes), it throws `target_path` with the `cause` in its detail.
 */
export function readTargetPath (target: string, start: number): string {
  let end = start
  let plain = true
  let previous = 0
  for (; end < target.length; end++) {
    const code = target.charCodeAt(end)
    if (code === QUESTION) break
    if (code > LAST_VISIBLE || UNCOMMON[code] === 1 || (code === DOT && previous === SLASH)) plain = false
    previous = code
  }
  const path = target.slice(start, end)
  return plain ? path : normalizeUncommonPath(path)
}

const MAX_CHARS = 2048
const MAX_ENTRIES = 16

// Non-empty segments of pchar (RFC 3986 section 3.3) without the comma, which separates entries.
const SEGMENTS = /^(?:\/(?:[A-Za-z0-9._~!$&'()*+;=:@-]|%[0-9A-Fa-f]{2})+)*$/
// Escapes that one hop may decode while the next one does not: dot, slash, back-slash, control characters.
const UNCLEAR_ESCAPE = /%(?:2[ef]|5c|[01][0-9a-f]|7f)/i

/**
 * Reads one path under which the service is mounted: plain segments, each after a slash. One slash at the end is dropped, so `/` is
 * the empty prefix. Returns the path in normal form, or undefined if it is not such a path.
 */
export function parsePrefix (text: string): string | undefined {
  if (text.length > MAX_CHARS || text.charCodeAt(0) !== 0x2f) return undefined
  const path = text.endsWith('/') ? text.slice(0, -1) : text
  if (!SEGMENTS.test(path) || UNCLEAR_ESCAPE.test(path)) return undefined
  const prefix = normalizeEscapes(path)
  return prefix === undefined || hasDotSegment(prefix) ? undefined : prefix
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
