/** One word of a POSIX shell, whatever is in it. */
export const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** A GET or HEAD request as one command for a POSIX shell. @param url as the shell reads it */
export function curlLine (method: string, url: string, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`)
  return [method === 'HEAD' ? 'curl -I' : 'curl -i', url, ...lines].join(' ')
}
