import type { IncomingHttpHeaders } from 'node:http'

/** A request as it reached the service, or as it left the client. */
export interface CapturedRequest {
  readonly method: string
  /** The target of the request line, as it was sent. */
  readonly target: string
  /** Header lines in their order, including repeated ones. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** Whether TLS ended in the service. */
  readonly encrypted: boolean
  readonly remoteAddress: string | undefined
}

/** The request as a service without a proxy sees it. */
export function capturedRequest (method: string, url: URL, headers: CapturedRequest['headers']): CapturedRequest {
  return {
    method,
    target: url.pathname + url.search,
    headers: [['Host', url.host], ...headers],
    encrypted: url.protocol === 'https:',
    remoteAddress: '127.0.0.1'
  }
}

/** Header lines as Node passes them on: by their names, and in their order. */
export function readHeaders (
  { headers }: CapturedRequest
): { readonly headers: IncomingHttpHeaders, readonly rawHeaders: string[] } {
  const joined: Record<string, string> = Object.create(null)
  // The HTTP parser takes blanks away too, but the request may not have passed through it.
  const lines = headers.map(([name, value]) => [name, withoutBlanks(value)] as const)
  for (const [name, value] of lines) {
    const key = name.toLowerCase()
    joined[key] = key in joined ? `${joined[key]}, ${value}` : value
  }
  return { headers: joined, rawHeaders: lines.flat() }
}

/**
 * The value of a header line without the spaces and tabs around it (RFC 9110 section 5.5). It reads each character
 * once: a pattern would read a long run of blanks again for each blank in it.
 */
export function withoutBlanks (value: string): string {
  let start = 0
  let end = value.length
  while (isBlank(value[start])) start++
  while (end > start && isBlank(value[end - 1])) end--
  return value.slice(start, end)
}

const isBlank = (char: string | undefined) => char === ' ' || char === '\t'
