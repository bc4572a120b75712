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

/**
 * Counts the members of all objects in a JSON text, or gives up if it goes beyond the bounds. A megabyte of brackets takes the parser, and
 * whatever walks through its result, many times what a text of the same size does. So every JSON that a client sends is measured first, in
 * one pass over its bytes.
 *
 * Up to the first byte that no JSON has there, which ends the parser, both agree on what is inside of a text.
 * @param json UTF-8. It need not be JSON
 * @returns undefined beyond the bounds
 */
export function countMembers (json: Uint8Array, { maxDepth, maxValues }: JsonBounds): number | undefined {
  let depth = 0
  let values = 1
  let members = 0
  /** Whether the last thing was the start of a list or object. Then a value follows, unless it is empty. */
  let hasBegun = false
  for (let i = 0; i < json.length; i++) {
    const byte = json[i]!
    if (byte <= SPACE!) continue
    if (hasBegun) {
      hasBegun = false
      if (byte !== LIST_END && byte !== OBJECT_END && ++values > maxValues) return undefined
    }
    switch (byte) {
      case QUOTE:
        for (i++; i < json.length && json[i] !== QUOTE; i++) if (json[i] === BACKSLASH) i++
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
        hasBegun = true
        break
      case LIST_END:
      case OBJECT_END:
        depth--
    }
  }
  return members
}
