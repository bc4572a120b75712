export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a value from JSON is an object: not null, and no list. */
export function isJsonObject (value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** How much JSON may hold before it is parsed. */
export interface JsonBounds {
  /** Lists and objects within each other. */
  readonly maxDepth: number
  /** Lists, objects, texts, numbers and literals together, at any depth. */
  readonly maxValues: number
}

const [QUOTE, BACKSLASH, COMMA, COLON] = Buffer.from('"\\,:')
const [LIST_START, LIST_END, OBJECT_START, OBJECT_END] = Buffer.from('[]{}')
const [SPACE] = Buffer.from(' ')
/** Whether a byte outside of texts says anything about the bounds. */
const COUNTS = Uint8Array.from({ length: 256 }, (_, byte) => Number('"[]{},:'.includes(String.fromCharCode(byte))))

/**
 * Counts the members of all objects in a JSON text, or gives up if it goes beyond the bounds. A megabyte of brackets
 * takes the parser, and whatever walks through its result, many times what a text of the same size does. So every JSON
 * that a client sends is measured first, in one pass over its bytes.
 *
 * Up to the first byte that no JSON has there, which ends the parser, both agree on what is inside of a text.
 * @param json UTF-8. It need not be JSON
 * @returns undefined beyond the bounds
 */
export function countMembers (json: Uint8Array, { maxDepth, maxValues }: JsonBounds): number | undefined {
  let depth = 0
  let values = 1
  let members = 0
  for (let i = 0; i < json.length; i++) {
    const byte = json[i]!
    if (COUNTS[byte] === 0) continue
    switch (byte) {
      case QUOTE:
        i = quoteAfter(json, i + 1)
        break
      case COMMA:
        if (++values > maxValues) return undefined
        break
      case COLON:
        members++
        break
      case LIST_START:
      case OBJECT_START:
        if (++depth > maxDepth) return undefined
        while (json[i + 1]! <= SPACE!) i++
        // Unless it is empty, a value follows.
        if (json[i + 1] !== LIST_END && json[i + 1] !== OBJECT_END && i + 1 < json.length && ++values > maxValues) {
          return undefined
        }
        break
      default:
        depth--
    }
  }
  return members
}

/**
 * Bytes of a text that are looked at one by one before the next quote is searched for, which takes as long as some 30
 * of them.
 */
const NEAR_BYTES = 32

/**
 * Where a text ends: its closing quote, or the end of all if it has none.
 * @param at within the text, and not behind a backslash
 */
export function quoteAfter (json: Uint8Array, at: number): number {
  let start = at
  while (start < json.length) {
    const near = Math.min(json.length, start + NEAR_BYTES)
    for (; start < near; start++) {
      if (json[start] === QUOTE) return start
      if (json[start] === BACKSLASH) start++
    }
    const quote = json.indexOf(QUOTE!, start)
    if (quote === -1) break
    let escapes = quote
    while (escapes > start && json[escapes - 1] === BACKSLASH) escapes--
    if ((quote - escapes) % 2 === 0) return quote
    start = quote + 1
  }
  return json.length
}
