const COMMA = 0x2c
const BRACKET_OPEN = 0x5b
const BRACE_OPEN = 0x7b
/** A subject of 100 identifiers, the most that one may have, has some 400. */
const MAX_VALUES = 1000

/**
 * Whether JSON holds more values than any event needs, at any depth: to parse brackets and members costs many times what a text of the
 * same size does. Commas and brackets inside of texts count too, so that nothing has to be parsed before.
 * @param json UTF-8. It need not be JSON
 */
export function holdsManyValues (json: Uint8Array): boolean {
  let count = 0
  for (const byte of json) {
    if (byte === COMMA || byte === BRACKET_OPEN || byte === BRACE_OPEN) count++
  }
  return count > MAX_VALUES
}
