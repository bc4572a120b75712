/**
 * Keeps the results of a pure function for the last few texts, so that a host that every request carries is parsed once. Refused
 * texts (undefined) are not kept: they would push out good ones. A full memo starts over, so its memory is bounded however many
 * texts arrive.
 */
export function memoize<Result> (parse: (text: string) => Result | undefined, maxEntries: number): (text: string) => Result | undefined {
  const results = new Map<string, Result>()
  return (text) => {
    const kept = results.get(text)
    if (kept !== undefined) return kept
    const result = parse(text)
    if (result === undefined) return undefined
    if (results.size >= maxEntries) results.clear()
    results.set(text, result)
    return result
  }
}
