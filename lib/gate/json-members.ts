const QUOTE = 0x22
const COMMA = 0x2c
const BRACKET_OPEN = 0x5b
const BACKSLASH = 0x5c
const BRACKET_CLOSE = 0x5d
const BRACE_OPEN = 0x7b
const BRACE_CLOSE = 0x7d

/**
 * Whether an object in the text has two members of one name, at any depth. Parsers differ in which of them counts (RFC 8259 section 4),
 * and JSON.parse does not say. Names are compared as they read, so escapes make no difference.
 * @param json a text that JSON.parse accepts
 */
export function hasDuplicateMembers (json: string): boolean {
  /** The names of each object around the place, undefined for each array. */
  const around: Array<Set<string> | undefined> = []
  let names: Set<string> | undefined
  let isNameNext = false
  for (let i = 0; i < json.length; i++) {
    switch (json.charCodeAt(i)) {
      case BRACE_OPEN:
        around.push(names = new Set())
        isNameNext = true
        break
      case BRACKET_OPEN:
        around.push(names = undefined)
        isNameNext = false
        break
      case BRACE_CLOSE:
      case BRACKET_CLOSE:
        around.pop()
        names = around.at(-1)
        isNameNext = false
        break
      case COMMA:
        isNameNext = names !== undefined
        break
      case QUOTE: {
        const end = endOfText(json, i)
        if (isNameNext) {
          const name = readText(json.slice(i, end + 1))
          if (names!.has(name)) return true
          names!.add(name)
          isNameNext = false
        }
        i = end
      }
    }
  }
  return false
}

/** The place of the quote that ends a text. @param start the place of the quote that begins it */
function endOfText (json: string, start: number): number {
  let end = start
  let isEscaped = true
  while (isEscaped) {
    end = json.indexOf('"', end + 1)
    let first = end
    while (json.charCodeAt(first - 1) === BACKSLASH) first--
    isEscaped = (end - first) % 2 === 1
  }
  return end
}

function readText (quoted: string): string {
  return quoted.includes('\\') ? JSON.parse(quoted) : quoted.slice(1, -1)
}
