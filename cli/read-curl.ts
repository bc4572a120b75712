import { parseArgs } from 'node:util'
import { addHeader, blank, has, readUrl, type Capture } from './capture.ts'

/**
 * The options of curl that matter here, and every other one whose value would be taken for the URL: long names, each
 * with its letter if it has one.
 */
const WITH_VALUE = `
  header=H request=X url user=u user-agent=A referer=e cookie=b oauth2-bearer
  data=d data-ascii data-binary data-raw data-urlencode json form=F form-string upload-file=T
  cacert capath cert=E cert-type ciphers config=K connect-timeout connect-to cookie-jar=c dump-header=D interface key
  key-type limit-rate max-redirs max-time=m noproxy output=o pass pinnedpubkey proxy=x proxy-header proxy-user=U range=r
  resolve retry retry-delay stderr tls-max trace trace-ascii unix-socket url-query write-out=w
`.trim().split(/\s+/).map(word => word.split('='))
const OPTIONS = {
  ...Object.fromEntries(
    WITH_VALUE.map(([name, short]) => [name, { type: 'string' as const, multiple: true, ...short && { short } }])
  ),
  get: { type: 'boolean' as const, short: 'G' },
  head: { type: 'boolean' as const, short: 'I' }
}
const DATA = ['data', 'data-ascii', 'data-binary', 'data-raw', 'data-urlencode', 'json']

/** Reads what follows `curl`. Returns undefined if there is no URL. */
export function readCurlWords (words: readonly string[]): Capture | undefined {
  const { values, positionals } = parseArgs({
    args: [...words],
    options: OPTIONS,
    strict: false,
    allowPositionals: true
  })
  const all = (name: string) =>
    [values[name]].flat().filter((value): value is string => typeof value === 'string')
  const addresses = [...all('url'), ...positionals]
  // The value of an option that is not known here has no scheme.
  const address = addresses.find(word => /^https?:\/\//i.test(word)) ?? addresses[0] ?? ''
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(address) ? address : `http://${address}`
  if (!/^https?:/i.test(url) || !URL.canParse(url)) return undefined
  const capture = blank(true)
  readUrl(capture, url)
  const data = DATA.flatMap(all)
  const hasBody = data.length + all('form').length + all('form-string').length > 0
  if (values['get'] === true && data.length > 0) {
    capture.target += `${capture.target!.includes('?') ? '&' : '?'}${data.join('&')}`
  }
  const usual = values['head'] === true
    ? 'HEAD'
    : all('upload-file').length > 0
      ? 'PUT'
      : hasBody && values['get'] !== true
        ? 'POST'
        : 'GET'
  capture.method = all('request').at(-1) ?? usual
  for (const line of all('header')) {
    const [, name, value] = /^([^:;\s]+)(?:: *(?! )(.*)|;)$/s.exec(line) ?? []
    if (name === undefined) {
      capture.notes.push(`A header of the curl line is left out: ${JSON.stringify(line.slice(0, 60))}`)
    } else if (value !== '') {
      // `Name:` takes the header away that curl would send, `Name;` sends it empty.
      addHeader(capture, name, value ?? '')
    }
  }
  for (const token of all('oauth2-bearer').slice(-1)) addHeader(capture, 'Authorization', `Bearer ${token}`)
  if (all('user').length > 0 && !has(capture, 'authorization')) addHeader(capture, 'Authorization', 'Basic hidden')
  if (!has(capture, 'host')) capture.headers.unshift(['Host', new URL(url).host])
  if (all('json').length > 0 && !has(capture, 'content-type')) addHeader(capture, 'Content-Type', 'application/json')
  // curl would read what begins with @ from a file.
  const isSent = data.length > 0 && values['get'] !== true
  if (isSent && !data.some(text => text.startsWith('@'))) capture.body = data.join('&')
  return capture
}

/** Reads a command line as browsers copy it for bash. Of several the last one with credentials. */
export function readCurlLine (text: string): Capture | undefined {
  const commands: string[][] = [[]]
  for (const word of splitWords(text)) {
    if (word === null) commands.push([])
    else commands.at(-1)!.push(word)
  }
  const found = commands.flatMap(words => {
    const at = words.indexOf('curl')
    return at < 0 ? [] : readCurlWords(words.slice(at + 1)) ?? []
  })
  const capture = found.findLast(one => has(one, 'authorization')) ?? found.at(-1)
  if (found.length > 1) {
    capture!.notes.push(
      `There are ${found.length} curl lines: the last one ` +
        `${has(capture!, 'authorization') ? 'with credentials ' : ''}is explained.`
    )
  }
  return capture
}

/** Each alternative begins with another character, so nothing is read twice. */
const WORDS =
  /(?<space>\s+|\\\r?\n)|(?<end>[;|&]+)|\$'(?<ansi>(?:[^'\\]|\\[^])*)'|'(?<single>[^']*)'|"(?<double>(?:[^"\\]|\\[^])*)"|\\(?<escaped>[^])|(?<bare>[^\s;|&$'"\\]+|[^])/gy

/** The words of a line as bash would make them; null between two commands. An unclosed quote is a plain character. */
function splitWords (line: string): Array<string | null> {
  const words: Array<string | null> = []
  let word: string | undefined
  const finish = () => {
    if (word !== undefined) words.push(word)
    word = undefined
  }
  for (const { groups = {} } of line.matchAll(WORDS)) {
    const { space, end, ansi, single, double, escaped, bare } = groups
    if (space !== undefined || end !== undefined) finish()
    if (end !== undefined) words.push(null)
    if (space !== undefined || end !== undefined) continue
    const quoted = double?.replace(/\\(?:([$`"\\])|\n)/g, '$1')
    word = (word ?? '') + (single ?? quoted ?? escaped ?? bare ?? unescapeAnsi(ansi!))
  }
  finish()
  return words
}

const ANSI: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/** The escapes of `$'...'` that browsers write. */
function unescapeAnsi (text: string): string {
  return text.replace(
    /\\(?:u([0-9a-fA-F]{1,4})|x([0-9a-fA-F]{1,2})|([^]))/g,
    (_all, unicode: string | undefined, hex: string | undefined, character: string) => {
      const code = unicode ?? hex
      return code === undefined ? ANSI[character] ?? character : String.fromCharCode(parseInt(code, 16))
    }
  )
}
