import { parseJson } from './input.ts'

/** A request as far as a capture tells it. */
export interface Capture {
  method?: string
  /** The target of the request line. */
  target?: string
  scheme?: 'http' | 'https'
  /** Of HTTP/2 and HTTP/3, where it stands for the Host header. */
  authority?: string
  headers: Array<readonly [name: string, value: string]>
  /** Taken at the client: in front of any proxy. */
  byClient: boolean
  /** What the request was answered with. */
  status?: number
  /** The `WWW-Authenticate` of the answer. */
  challenge?: string
  /** When that was, in Unix seconds. */
  at?: number
  /** What could not be read, and what was assumed. */
  notes: string[]
}

/** No server takes more. */
const MAX_HEADERS = 2000
const MAX_NOTES = 12

/** Reads the output of `curl -v`, a HAR file or one of its entries, or bare header lines. It never fails: what it cannot read it notes. */
export function readCapture (text: string): Capture {
  const capture = read(text.replace(/^\ufeff/, ''))
  const { notes, headers } = capture
  if (notes.length > MAX_NOTES) notes.splice(MAX_NOTES, Infinity, `${notes.length - MAX_NOTES} more like these could not be read.`)
  if (headers.length === MAX_HEADERS) notes.push(`There are ${MAX_HEADERS} header lines or more; the others are left out.`)
  return capture
}

function read (text: string): Capture {
  const lines = text.split(/\r?\n/)
  const json = /^\s*[{[]/.test(text) ? parseJson(text) : undefined
  if (json !== undefined) return readHar(json)
  const capture = lines.some((line) => /^> ?[!-~]+ \S+ HTTP\/|^\* \[HTTP\/[23]\]/.test(line)) ? readCurl(lines) : readLines(lines)
  if (/^\s*[{[]/.test(text)) capture.notes.unshift('It starts like JSON but is not valid JSON, so it was read as header lines.')
  return capture
}

const blank = (byClient: boolean): Capture => ({ headers: [], byClient, notes: [] })

interface HarRequest { method?: unknown, url?: unknown, headers?: unknown }
interface HarEntry { request?: HarRequest, response?: { status?: unknown, headers?: unknown }, startedDateTime?: unknown }

function readHar (json: any): Capture {
  const capture = blank(true)
  const entries: unknown = Array.isArray(json) ? json : json?.log?.entries ?? json?.entries ?? [json]
  const list = Array.isArray(entries) ? entries as Array<HarEntry | null> : []
  // A page asks for more than its API.
  const guarded = list.findLast(isGuarded)
  const entry = guarded ?? list.at(-1) ?? {}
  if (list.length > 1) capture.notes.push(`There are ${list.length} entries: the last one ${guarded === undefined ? '' : 'with credentials, or answered 401, '}is explained.`)
  const { method, url, headers } = entry.request ?? entry as HarRequest
  if (typeof method === 'string') capture.method = method
  if (typeof url === 'string' && URL.canParse(url)) readUrl(capture, url)
  else capture.notes.push('The entry has no request with an absolute URL.')
  for (const header of Array.isArray(headers) ? headers : []) {
    if (typeof header?.name === 'string' && typeof header.value === 'string') addHeader(capture, header.name, header.value)
    else capture.notes.push(`A header is not a name and a value: ${quote(JSON.stringify(header))}`)
  }
  if (typeof url === 'string' && URL.canParse(url) && !has(capture, 'host')) capture.headers.push(['Host', new URL(url).host])
  if (!has(capture, 'authorization')) capture.notes.push('No Authorization header: browsers leave it out of a HAR file unless told to export sensitive data.')
  const status = Number(entry.response?.status)
  if (status > 0) capture.status = status
  const answered = entry.response?.headers
  const challenge = Array.isArray(answered) && answered.find((header) => /^www-authenticate$/i.test(String(header?.name)))?.value
  if (typeof challenge === 'string') capture.challenge = challenge
  const atMs = Date.parse(String(entry.startedDateTime))
  if (!Number.isNaN(atMs)) capture.at = atMs / 1000
  return capture
}

function isGuarded (entry: HarEntry | null): boolean {
  const headers = entry?.request?.headers
  return entry?.response?.status === 401 || (Array.isArray(headers) && headers.some((header) => /^authorization$/i.test(String(header?.name))))
}

/** Takes what the URL says, as a client would put it into the request line. */
export function readUrl (capture: Capture, text: string): void {
  const { protocol, pathname, search } = new URL(text)
  capture.scheme = protocol === 'https:' ? 'https' : 'http'
  capture.target = pathname + search
}

function readCurl (lines: readonly string[]): Capture {
  let capture = blank(true)
  let requests = 0
  let isEncrypted = false
  for (const line of lines) {
    if (/^\* (?:SSL connection|TLSv1|ALPN|.*\[:scheme: https\])/.test(line)) isEncrypted = true
    if (/^\* +Trying /.test(line)) isEncrypted = false
    const sent = /^> ?(.*)$/.exec(line)?.[1]
    if (sent !== undefined && isRequestLine(sent)) {
      // A redirect, or another try: each request starts anew.
      requests++
      capture = blank(true)
    }
    if (sent !== undefined && sent !== '') readLine(capture, sent)
    if (line.startsWith('< ')) readAnswerLine(capture, line.slice(2))
    capture.scheme = isEncrypted ? 'https' : 'http'
  }
  if (requests > 1) capture.notes.push(`There are ${requests} requests: the last one is explained.`)
  if (requests === 0) capture.notes.push('There are lines of curl -v, but no request among them.')
  return capture
}

function readAnswerLine (capture: Capture, line: string): void {
  const status = /^HTTP\/[\d.]+ (\d{3})/.exec(line)?.[1]
  if (status !== undefined) capture.status = Number(status)
  const challenge = /^www-authenticate: (.+)$/i.exec(line)?.[1]
  if (challenge !== undefined) capture.challenge = challenge
  const date = /^date: (.+)$/i.exec(line)?.[1]
  const atMs = Date.parse(date ?? '')
  if (!Number.isNaN(atMs)) capture.at = atMs / 1000
}

function readLines (lines: readonly string[]): Capture {
  const capture = blank(false)
  for (const line of lines) if (line.trim() !== '') readLine(capture, line)
  return capture
}

const isRequestLine = (line: string): boolean => /^[!-~]+ \S+ HTTP\/\d/.test(line)

function readLine (capture: Capture, line: string): void {
  const [, method, target] = /^([A-Za-z-]+) (\S+)(?: HTTP\/[\d.]+)?\s*$/.exec(line) ?? []
  if (method !== undefined && target !== undefined && capture.method === undefined && capture.headers.length === 0) {
    Object.assign(capture, { method, target })
    return
  }
  const [, name, value] = /^(:?[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? []
  if (name === undefined || value === undefined) capture.notes.push(`A line is not a header: ${quote(line)}`)
  else addHeader(capture, name, value)
}

/** The fields of HTTP/2 and HTTP/3 that stand for the request line (RFC 9113 section 8.3.1) are taken for what they mean. */
function addHeader (capture: Capture, name: string, value: string): void {
  if (capture.headers.length === MAX_HEADERS) return
  if (name === ':method') capture.method = value
  else if (name === ':path') capture.target = value
  else if (name === ':scheme') capture.scheme = value === 'https' ? 'https' : 'http'
  else if (name === ':authority') capture.headers.push(['Host', capture.authority = value])
  else if (name.startsWith(':')) capture.notes.push(`A field is unknown: ${quote(name)}`)
  else if (name.toLowerCase() !== 'host' || value !== capture.authority) capture.headers.push([name, value])
}

export function has ({ headers }: Capture, name: string): boolean {
  return headers.some(([known]) => known.toLowerCase() === name)
}

function quote (text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}\u2026` : text)
}
