/** Text within single quotes of a POSIX shell. */
const withinQuotes = (text: string) => text.replaceAll("'", "'\\''")

/** One word of a POSIX shell, whatever is in it. */
export const quote = (text: string) => `'${withinQuotes(text)}'`

/** The words for header lines. */
export function headerWords (headers: ReadonlyArray<readonly [name: string, value: string]>): string[] {
  return headers.map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`)
}

/** A request as one command for a POSIX shell. @param words the URL and what else it takes, as the shell reads them */
export function curlLine (method: string, ...words: readonly string[]): string {
  if (method === 'HEAD') return ['curl -I', ...words].join(' ')
  return ['curl -i', ...method === 'GET' ? [] : [`-X ${method}`], ...words].join(' ')
}
