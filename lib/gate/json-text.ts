import { isUtf8 } from 'node:buffer'
import { countMembers } from '../json-bounds.ts'
import type { JsonBounds } from '../json-bounds.ts'

/** Why bytes are no JSON that all parsers read alike: no UTF-8, beyond the bounds, not well-formed, two members of one name. */
export type JsonFault = 'encoding' | 'bounds' | 'syntax' | 'duplicates'

/** Of a message of a client. Real ones have some hundred values. */
export const MESSAGE_BOUNDS: JsonBounds = { maxDepth: 64, maxValues: 20_000 }

/** Reads JSON, and gives it with its text. What is wrong with it is told to `refuse`, which throws. */
export function readJson (bytes: Uint8Array, bounds: JsonBounds, refuse: (fault: JsonFault) => never): { readonly json: unknown, readonly text: string } {
  if (!isUtf8(bytes)) refuse('encoding')
  const members = countMembers(bytes, bounds)
  if (members === undefined) refuse('bounds')
  // JSON.parse refuses a byte order mark, which `toString` keeps.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    refuse('syntax')
  }
  // Parsers differ in which of two members of one name counts (RFC 8259 section 4). JSON.parse keeps only one.
  if (members !== membersIn(json)) refuse('duplicates')
  return { json, text }
}

/** The members of all objects in a value from JSON, at any depth. */
function membersIn (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const children: unknown[] = Object.values(value)
  return children.reduce((sum: number, child) => sum + membersIn(child), Array.isArray(value) ? 0 : children.length)
}

/** A value in a text of JSON: from its first character to behind its last. */
export interface JsonSpan {
  readonly start: number
  readonly end: number
}

export interface JsonMember extends JsonSpan {
  readonly name: string
}

/**
 * The members of the object that begins at `at`, in their order. JSON.parse loses how a value is written: `1.0` becomes `1`, and `1e400`
 * Infinity. So who passes a value on as it came takes it from the text.
 * @param text JSON that JSON.parse has read
 */
export function membersAt (text: string, at: number): JsonMember[] {
  return partsOf(text, at).map(start => {
    const nameEnd = endOf(text, start)
    const value = pastSpace(text, pastSpace(text, nameEnd) + 1)
    return { name: JSON.parse(text.slice(start, nameEnd)), start: value, end: endOf(text, value) }
  })
}

/** The elements of the list that begins at `at`, in their order. */
export function elementsAt (text: string, at: number): JsonSpan[] {
  return partsOf(text, at).map(start => ({ start, end: endOf(text, start) }))
}

/** Where the value of a text begins. */
export function pastSpace (text: string, at: number): number {
  while (at < text.length && ' \t\n\r'.includes(text[at]!)) at++
  return at
}

/** Where each element of a list, or each name of an object, begins. */
function partsOf (text: string, at: number): number[] {
  const starts: number[] = []
  let next = pastSpace(text, at + 1)
  while (text[next] !== ']' && text[next] !== '}') {
    starts.push(next)
    next = pastSpace(text, endOf(text, next))
    if (text[next] === ':') next = pastSpace(text, endOf(text, pastSpace(text, next + 1)))
    if (text[next] === ',') next = pastSpace(text, next + 1)
  }
  return starts
}

/** Behind the value that begins at `at`. No recursion: a value may nest more deeply than the stack. */
function endOf (text: string, at: number): number {
  let depth = 0
  let end = at
  do {
    const char = text[end]
    if (char === '"') end = stringEnd(text, end)
    else if (char === '{' || char === '[') {
      depth++
      end++
    } else if (char === '}' || char === ']') {
      depth--
      end++
    } else if (depth > 0) end++
    else while (end < text.length && !' \t\n\r,:]}'.includes(text[end]!)) end++
  } while (depth > 0)
  return end
}

function stringEnd (text: string, at: number): number {
  let end = at + 1
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1
  return end + 1
}
