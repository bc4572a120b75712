/** A request as far as a capture shows it. */
export interface Capture {
  method?: string
  /** The target of the request line. */
  target?: string
  scheme?: 'http' | 'https'
  /** Of HTTP/2 and HTTP/3, where it replaces the Host header. */
  authority?: string
  headers: Array<readonly [name: string, value: string]>
  /** Absent if it is not part of the capture. */
  body?: string
  /** Taken at the client, in front of any proxy. */
  byClient: boolean
  /** What the request was answered with. */
  status?: number
  /** The body of that answer. */
  answerBody?: string
  /** The `WWW-Authenticate` of the answer. */
  challenge?: string
  /** The `DPoP-Nonce` of the answer. */
  nonce?: string
  /** When that was, in Unix seconds. */
  at?: number
  /** What could not be read, and what was assumed. */
  notes: string[]
}

/** No server takes more. */
const MAX_HEADERS = 2000
const MAX_NOTES = 12

export const blank = (byClient: boolean): Capture => ({ headers: [], byClient, notes: [] })

/** Takes what the URL says, as a client would put it into the request line. */
export function readUrl (capture: Capture, text: string): void {
  const { protocol, pathname, search } = new URL(text)
  capture.scheme = protocol === 'https:' ? 'https' : 'http'
  capture.target = pathname + search
}

/** The fields of HTTP/2 and HTTP/3 that replace the request line (RFC 9113 section 8.3.1) are read as that line. */
export function addHeader (capture: Capture, name: string, value: string): void {
  if (capture.headers.length === MAX_HEADERS) return
  if (name === ':method') capture.method = value
  else if (name === ':path') capture.target = value
  else if (name === ':scheme') capture.scheme = value === 'https' ? 'https' : 'http'
  else if (name === ':authority') capture.headers.push(['Host', capture.authority = value])
  else if (name.startsWith(':')) capture.notes.push(`A field is unknown: ${quote(name)}`)
  else if (name.toLowerCase() !== 'host' || value !== capture.authority) capture.headers.push([name, value])
}

/**
 * The first header of a request that was captured.
 * @param wanted its name in lower case
 */
export function headerOf ({ headers }: { headers: Readonly<Capture['headers']> }, wanted: string) {
  return headers.find(([name]) => name.toLowerCase() === wanted)?.[1]
}

export const has = (capture: Capture, name: string) => headerOf(capture, name) !== undefined

/** A capture may lack what the URL says. */
export function completeHost (capture: Capture, url: string): void {
  if (!has(capture, 'host')) capture.headers.push(['Host', new URL(url).host])
}

export function quote (text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}\u2026` : text)
}

/** Keeps the notes short. */
export function bounded (capture: Capture): Capture {
  const { notes, headers } = capture
  if (notes.length > MAX_NOTES) {
    notes.splice(MAX_NOTES, Infinity, `${notes.length - MAX_NOTES} more like these could not be read.`)
  }
  if (headers.length === MAX_HEADERS) {
    notes.push(`There are ${MAX_HEADERS} header lines or more; the others are left out.`)
  }
  return capture
}
