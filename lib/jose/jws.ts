import { isUtf8 } from 'node:buffer'
import { isJsonObject } from '../json.ts'
import type { JsonObject } from '../json.ts'

/** The three segments of a JWS in compact form (RFC 7515 section 3.1), still encoded. */
export interface CompactJws {
  readonly header: string
  readonly payload: string
  readonly signature: string
}

const BASE64URL = /^[A-Za-z0-9_-]+$/
// The characters that a text may end with, by length modulo 4: their bits beyond the last whole byte are zero.
const LAST_CHARACTERS = [undefined, '', 'AQgw', 'AEIMQUYcgkosw048']

/** Whether base64url encoding without padding can have produced the text (RFC 4648 section 5, RFC 7515 section 2). */
export function isCanonicalBase64url (text: string): boolean {
  if (!BASE64URL.test(text)) return false
  const last = LAST_CHARACTERS[text.length % 4]
  return last === undefined || last.includes(text[text.length - 1]!)
}

/** Splits a compact JWS. Undefined unless it is three non-empty segments of canonical base64url without padding. */
export function splitCompactJws (text: string): CompactJws | undefined {
  const first = text.indexOf('.')
  const second = text.indexOf('.', first + 1)
  if (first < 1 || second === -1) return undefined
  const header = text.slice(0, first)
  const payload = text.slice(first + 1, second)
  const signature = text.slice(second + 1)
  if (!isCanonicalBase64url(header) || !isCanonicalBase64url(payload) || !isCanonicalBase64url(signature)) {
    return undefined
  }
  return { header, payload, signature }
}

/** A segment that holds a JSON object. */
export function encodeJson (value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

/** Decodes a segment that holds a JSON object in UTF-8. Undefined for anything else. */
export function decodeJsonObject (segment: string): JsonObject | undefined {
  const bytes = Buffer.from(segment, 'base64url')
  if (!isUtf8(bytes)) return undefined
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/**
 * Compares a `typ` header with a media type. Case makes no difference, and `application/` may be left out (RFC 7515
 * section 4.1.9).
 */
export function isMediaType (typ: unknown, expected: string): boolean {
  if (typeof typ !== 'string') return false
  const lower = typ.toLowerCase()
  return lower === expected || lower === `application/${expected}`
}
