/**
 * Reads the last element of a header to which each proxy appends one, as Forwarded (RFC 7239 section 4). Commas
 * separate the elements, semicolons their pairs. The nearest proxy wrote the last element. Returns its values, unquoted
 * and not yet validated, by their names in lower case.
 *
 * Returns undefined if any part of the text is malformed: an element before the last may be the client's own, made to
 * hide where the last one begins. So it does if the last element is empty, or repeats a name that may appear once.
 * @param pair matches one pair and the separator behind it, or the end, with the groups name, quoted value, bare value
 * and separator; global and sticky, so that a gap ends the search
 */
export function lastElement (
  text: string,
  pair: RegExp,
  isSingle: (name: string) => boolean
): ReadonlyMap<string, string> | undefined {
  const element = new Map<string, string>()
  let separator: string | undefined
  for (const [, name, quoted, bare, next] of text.matchAll(pair)) {
    separator = next
    const key = name?.toLowerCase()
    if (key !== undefined) {
      if (element.has(key) && isSingle(key)) return undefined
      element.set(key, bare ?? quoted!.replace(/\\(.)/gs, '$1'))
    }
    if (separator === ',') element.clear()
  }
  return separator === '' && element.size > 0 ? element : undefined
}
