/**
 * The value of a header line without the spaces and tabs around it (RFC 9110 section 5.5). It reads each character once: a pattern would
 * read a long run of blanks again for each blank in it.
 */
export function withoutBlanks (value: string): string {
  let start = 0
  let end = value.length
  while (isBlank(value[start])) start++
  while (end > start && isBlank(value[end - 1])) end--
  return value.slice(start, end)
}

const isBlank = (char: string | undefined): boolean => char === ' ' || char === '\t'
