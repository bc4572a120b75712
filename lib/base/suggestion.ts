const MAX_EDITS = 2

/**
 * Returns the known name that was probably meant by an unknown name: the nearest one within two edits (a character
 * added, removed or replaced, or two that changed places). If there is none, a known name that ends with the unknown
 * one, by whole words, or the reverse where it has several: `IDP_DPOP_MODE` for `DPOP_MODE`, `DPOP_REQUIRED` for
 * `IDP_DPOP_REQUIRED`. Case and separators make no difference, so the name of a variable also matches a key of the
 * file. Returns undefined if no name is near.
 */
export function nameThatWasMeant (text: string, names: readonly string[]): string | undefined {
  const given = wordsOf(text)
  let meant: string | undefined
  let fewest = MAX_EDITS + 1
  for (const name of names) {
    const edits = editsBetween(given.join(''), wordsOf(name).join(''))
    // In a short name two edits are most of the name.
    if (edits < fewest && edits * 2 < given.join('').length) [meant, fewest] = [name, edits]
  }
  return meant ?? names.find(name => {
    const words = wordsOf(name)
    return given.length > 0 && (isEnd(words, given) || (words.length > 1 && isEnd(given, words)))
  })
}

const isEnd = (words: readonly string[], end: readonly string[]) =>
  ` ${words.join(' ')}`.endsWith(` ${end.join(' ')}`)

function wordsOf (name: string): string[] {
  return name.split(/[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])/).filter(Boolean).map(word => word.toLowerCase())
}

/** The distance of Damerau and Levenshtein, or Infinity if the lengths already differ too much. */
function editsBetween (a: string, b: string): number {
  if (Math.abs(a.length - b.length) > MAX_EDITS) return Infinity
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  let above: readonly number[] = row
  for (let i = 0; i < a.length; i++) {
    const before = above
    above = row
    row = [i + 1]
    for (let j = 0; j < b.length; j++) {
      const isSwap = a[i] === b[j - 1] && a[i - 1] === b[j]
      row.push(Math.min(
        above[j + 1]! + 1,
        row[j]! + 1,
        above[j]! + (a[i] === b[j] ? 0 : 1),
        isSwap ? before[j - 1]! + 1 : Infinity
      ))
    }
  }
  return row[b.length]!
}
