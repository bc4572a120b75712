import { withoutBlanks } from './explain/captured-request.ts'
import { BadUsage } from './bad-usage.ts'
import { addHeader, blank, bounded, completeHost, has, quote, readUrl, type Capture } from './capture.ts'
import { readCurlLine } from './read-curl.ts'
import { parseJson } from './input.ts'

export const NO_REQUEST =
  `I found no request here. Copy one in the developer tools of the browser ("Copy as cURL", for bash), or write it yourself:

  curl https://api.example/api/private -H 'Authorization: Bearer eyJ...'

The output of curl -v, a HAR file or an entry of one, or the text of a request will do, too.`

/**
 * Reads a curl line, the output of `curl -v`, a HAR file or one of its entries, or the text of a request. What cannot
 * be read of it is noted. @throws BadUsage if there is nothing of a request
 */
export function readCapture (text: string): Capture {
  const capture = read(text.replace(/^\ufeff/, '').trim())
  if (capture === undefined) throw new BadUsage(NO_REQUEST)
  return bounded(capture)
}

function read (text: string): Capture | undefined {
  const lines = text.split(/\r{0,2}\n/)
  if (lines.some(line => /^> ?[!-~]+ \S+ HTTP\/|^\* \[HTTP\/[23]\]/.test(line))) return readCurlOutput(lines)
  if (/^(?:[$>] *)?curl\s/.test(text)) return readCurlLine(text)
  const json = /^[{[]/.test(text) ? parseJson(text) : undefined
  return json === undefined ? readLines(lines) : readHar(json)
}

interface HarRequest {
  method?: unknown
  url?: unknown
  headers?: unknown
  postData?: { text?: unknown }
}
interface HarEntry {
  request?: HarRequest
  response?: { status?: unknown, headers?: unknown, content?: { text?: unknown } }
  startedDateTime?: unknown
}

function readHar (json: any): Capture | undefined {
  const capture = blank(true)
  const entries: unknown = Array.isArray(json) ? json : json?.log?.entries ?? json?.entries ?? [json]
  const list = Array.isArray(entries) ? entries as Array<HarEntry | null> : []
  // A page asks for more than its API.
  const guarded = list.findLast(isGuarded)
  const entry = guarded ?? list.at(-1) ?? {}
  if (list.length > 1) {
    capture.notes.push(
      `There are ${list.length} entries: the last one ` +
        `${guarded === undefined ? '' : 'with credentials, or answered 401, '}is explained.`
    )
  }
  const { method, url, headers, postData } = entry.request ?? entry as HarRequest
  if (typeof url !== 'string' || !/^https?:/i.test(url) || !URL.canParse(url)) return undefined
  if (typeof method === 'string') capture.method = method
  if (typeof postData?.text === 'string') capture.body = postData.text
  readUrl(capture, url)
  for (const header of Array.isArray(headers) ? headers : []) {
    if (typeof header?.name === 'string' && typeof header.value === 'string') {
      addHeader(capture, header.name, header.value)
    } else capture.notes.push(`A header is not a name and a value: ${quote(JSON.stringify(header))}`)
  }
  completeHost(capture, url)
  if (!has(capture, 'authorization')) {
    capture.notes.push(
      'No Authorization header: browsers leave it out of a HAR file unless they export sensitive data.'
    )
  }
  const status = Number(entry.response?.status)
  if (status > 0) capture.status = status
  const { headers: answered, content } = entry.response ?? {}
  if (typeof content?.text === 'string') capture.answerBody = content.text
  for (const header of Array.isArray(answered) ? answered : []) {
    readAnswerLine(capture, `${header?.name}: ${header?.value}`)
  }
  const atMs = Date.parse(String(entry.startedDateTime))
  // The clock of the service counts, if the answer says its time.
  if (!Number.isNaN(atMs)) capture.at ??= atMs / 1000
  return capture
}

function isGuarded (entry: HarEntry | null): boolean {
  const headers = entry?.request?.headers
  return entry?.response?.status === 401 ||
    (Array.isArray(headers) && headers.some(header => /^authorization$/i.test(String(header?.name))))
}

function readCurlOutput (lines: readonly string[]): Capture | undefined {
  let capture = blank(true)
  let requests = 0
  let isEncrypted = false
  for (const line of lines) {
    if (/^\* (?:SSL connection|TLSv1|ALPN|.*\[:scheme: https\])/.test(line)) isEncrypted = true
    if (/^\* +Trying /.test(line)) isEncrypted = false
    const sent = /^> ?(.*)$/.exec(line)?.[1] ?? ''
    if (isRequestLine(sent)) {
      // A redirect, or another try: each request starts anew.
      requests++
      capture = blank(true)
    }
    if (sent !== '') readLine(capture, sent)
    if (line.startsWith('< ')) readAnswerLine(capture, line.slice(2))
    else if (!line.startsWith('>')) capture.answerBody = `${capture.answerBody ?? ''}${line}\n`
    capture.scheme = isEncrypted ? 'https' : 'http'
  }
  if (requests > 1) capture.notes.push(`There are ${requests} requests: the last one is explained.`)
  return requests === 0 ? undefined : capture
}

/** Takes what a line of the answer says of it. */
export function readAnswerLine (capture: Capture, line: string): void {
  const status = /^HTTP\/[\d.]+ (\d{3})/.exec(line)?.[1]
  if (status !== undefined) capture.status = Number(status)
  const challenge = /^www-authenticate: (.+)/i.exec(line)?.[1]
  if (challenge !== undefined) capture.challenge = challenge
  const nonce = /^dpop-nonce: (.+)/i.exec(line)?.[1]
  if (nonce !== undefined) capture.nonce = nonce.trim()
  const date = /^date: (.+)/i.exec(line)?.[1]
  const atMs = Date.parse(date ?? '')
  if (!Number.isNaN(atMs)) capture.at = atMs / 1000
}

/** The text of a request, with its body; if the answer follows, that is read. */
function readLines (lines: readonly string[]): Capture | undefined {
  if (!isRequestLine(lines[0]!)) return undefined
  const capture = blank(false)
  const [head, rest] = splitBefore(lines, line => line.trim() === '')
  const [body, answer] = splitBefore(rest, line => /^HTTP\/[\d.]+ \d{3}/.test(line))
  for (const line of head) readLine(capture, line)
  const text = body.join('\n').trim()
  if (text !== '') capture.body = text
  for (const line of answer) readAnswerLine(capture, line)
  return capture
}

function splitBefore (lines: readonly string[], isFirst: (line: string) => boolean): [string[], string[]] {
  const at = lines.findIndex(isFirst)
  return at < 0 ? [[...lines], []] : [lines.slice(0, at), lines.slice(at)]
}

const isRequestLine = (line: string) => /^[!-~]+ \S+ HTTP\/\d/.test(line)

function readLine (capture: Capture, line: string) {
  const [, method, target = '', version] = /^([A-Za-z-]+) (\S+) HTTP\/([\d.]+)\s*$/.exec(line) ?? []
  if (method !== undefined && capture.method === undefined) {
    // A whole URL says it. Browsers speak HTTP/2 and HTTP/3 over TLS only.
    const [scheme = version! < '2' ? undefined : 'https'] = /^https?(?=:\/\/)/.exec(target) ?? []
    Object.assign(capture, { method, target, scheme })
    return
  }
  const [, name, value = ''] = /^(:?[!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)$/.exec(line) ?? []
  if (name === undefined) capture.notes.push(`A line is not a header: ${quote(line)}`)
  else addHeader(capture, name, withoutBlanks(value))
}
