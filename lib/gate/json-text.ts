import { isUtf8 } from 'node:buffer'
import { countMembers, quoteAfter, type JsonBounds, type JsonObject } from '../base/json.ts'

/**
 * Why bytes are no JSON that all parsers read alike: no UTF-8, beyond the bounds, not well-formed, two members of one
 * name.
 */
export type JsonFault = 'encoding' | 'bounds' | 'syntax' | 'duplicates'

/** Of a message of a client. Real ones have some hundred values. */
export const MESSAGE_BOUNDS: JsonBounds = { maxDepth: 64, maxValues: 20_000 }

/** What bytes hold, or why they cannot be read. */
export type JsonRead =
  | { readonly json: unknown, readonly fault?: undefined }
  | { readonly json?: undefined, readonly fault: JsonFault }

/** Reads JSON. */
export function readJson (bytes: Buffer, bounds: JsonBounds): JsonRead {
  if (!isUtf8(bytes)) return { fault: 'encoding' }
  const members = countMembers(bytes, bounds)
  if (members === undefined) return { fault: 'bounds' }
  let json: unknown
  try {
    // JSON.parse refuses a byte order mark, which `toString` keeps.
    json = JSON.parse(bytes.toString('utf8'))
  } catch {
    return { fault: 'syntax' }
  }
  // Parsers differ in which of two members of one name counts (RFC 8259 section 4). JSON.parse keeps only one.
  return members === membersIn(json) ? { json } : { fault: 'duplicates' }
}

/** The members of all objects in a value from JSON, at any depth. */
function membersIn (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let members = 0
  if (Array.isArray(value)) for (const child of value) members += membersIn(child)
  // No list of the names is made. What JSON.parse has made inherits no name that `for in` finds.
  else for (const name in value) members += 1 + membersIn((value as JsonObject)[name])
  return members
}

/** An element of a list, or a member of an object: its value from the first byte to behind the last. */
interface JsonChild {
  /** Empty in a list. */
  readonly name: string
  readonly start: number
  readonly end: number
}

const [QUOTE, COLON, COMMA] = Buffer.from('":,')
const [LIST_START, LIST_END, OBJECT_START, OBJECT_END] = Buffer.from('[]{}')
const [SPACE] = Buffer.from(' ')

/**
 * The members of the object, or the elements of the list, that begins at `at` or behind white space there, in their
 * order. JSON.parse loses how a value is written: `1.0` becomes `1`, and `1e400` Infinity. So who passes a value on as
 * it came takes it from the bytes. No recursion: a value may nest more deeply than the stack.
 * @param json what JSON.parse has read
 */
export function childrenAt (json: Buffer, at: number): JsonChild[] {
  const children: JsonChild[] = []
  let name = ''
  let start: number | undefined
  let end = at
  let i = at
  while (json[i]! <= SPACE!) i++
  for (let depth = 0; depth >= 0;) {
    const first = ++i
    const byte = json[i]!
    if (byte === QUOTE) i = quoteAfter(json, i + 1)
    else if (byte === LIST_START || byte === OBJECT_START) depth++
    else if (byte === LIST_END || byte === OBJECT_END) depth--
    if (depth < 0 || (depth === 0 && byte === COMMA)) {
      if (start !== undefined) children.push({ name, start, end })
      start = undefined
    } else if (depth === 0 && byte === COLON) {
      name = JSON.parse(json.toString('utf8', start, end))
      start = undefined
    } else if (byte > SPACE!) {
      start ??= first
      end = i + 1
    }
  }
  return children
}

/** The value of a member of the object that begins at `at`, or undefined if it has none of that name. */
export function memberAt (json: Buffer, at: number, name: string): JsonChild | undefined {
  return childrenAt(json, at).find(child => child.name === name)
}
