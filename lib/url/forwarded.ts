import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../refusal.ts'
import { parsePort, parseScheme, parseWireAuthority } from './http-url.ts'
import type { Authority, Scheme } from './http-url.ts'
import { memoize } from './memo.ts'
import { parsePrefixList } from './path.ts'

/** The parameters of one forwarded-element that matter here. They are unquoted and not yet validated. */
export interface ForwardedElement {
  proto: string | undefined
  host: string | undefined
}

const TOKEN_CHAR = /[!#$%&'*+.^_`|~0-9A-Za-z-]/

function isSpace (char: string | undefined): boolean {
  return char === ' ' || char === '\t'
}

function skipSpace (text: string, at: number): number {
  while (isSpace(text[at])) at++
  return at
}

function tokenEnd (text: string, at: number): number {
  while (at < text.length && TOKEN_CHAR.test(text[at]!)) at++
  return at
}

// RFC 7239 requires quotes around a value with a colon. Many proxies send `host=name:8443`, which has only one meaning.
function bareEnd (text: string, at: number): number {
  while (at < text.length && !isSpace(text[at]) && !',;="'.includes(text[at]!)) at++
  return at
}

// Returns the value at `at`, plain or quoted, and its end. Undefined if the value is empty or its quote stays open.
function readValue (text: string, at: number): { value: string, end: number } | undefined {
  if (text[at] !== '"') {
    const end = bareEnd(text, at)
    return end === at ? undefined : { value: text.slice(at, end), end }
  }
  let value = ''
  for (let next = at + 1; next < text.length; next++) {
    if (text[next] === '"') return { value, end: next + 1 }
    if (text[next] === '\\') next++
    value += text[next] ?? ''
  }
  return undefined
}

/**
 * Reads a Forwarded header (RFC 7239 section 4) and returns its last element, which the nearest proxy wrote. Undefined if any part
 * of the value is malformed (an open quote in one element would swallow the next one), if a parameter appears twice in an element,
 * or if the last element is empty.
 */
export function parseForwarded (text: string): ForwardedElement | undefined {
  const names = new Set<string>()
  let element: ForwardedElement = { proto: undefined, host: undefined }
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at + 1)) {
    const nameEnd = tokenEnd(text, at)
    if (nameEnd > at) {
      const name = text.slice(at, nameEnd).toLowerCase()
      const pair = text[nameEnd] === '=' ? readValue(text, nameEnd + 1) : undefined
      if (pair === undefined || names.has(name)) return undefined
      names.add(name)
      if (name === 'proto' || name === 'host') element[name] = pair.value
      at = skipSpace(text, pair.end)
    }
    if (text[at] === ',') {
      names.clear()
      element = { proto: undefined, host: undefined }
    } else if (at < text.length && text[at] !== ';') return undefined
  }
  return names.size === 0 ? undefined : element
}

/** What a trusted proxy says about the URL that the client used. A member is undefined if the proxy does not say it. */
export interface ForwardedUrl {
  readonly scheme: Scheme | undefined
  readonly authority: Authority | undefined
  /** Used if neither `authority` nor the Host header names a port. */
  readonly port: number | undefined
  /** Empty, or plain path segments, each after a slash. */
  readonly prefix: string
}

const MAX_KEPT = 64

const keptAuthority = memoize(parseWireAuthority, MAX_KEPT)
const keptPrefix = memoize(parsePrefixList, MAX_KEPT)

function refuse (header: string): never {
  throw new Refusal('forwarded_invalid', { header })
}

// If there are several lines and entries, the trusted peer wrote the last one.
function lastEntry (text: string): string {
  return text.slice(text.lastIndexOf(',') + 1).trim()
}

function textOf (headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' || value === undefined ? value : value.join(', ')
}

// If a header is there but empty, the proxy meant to tell something and failed. The empty text is refused like any other text that is not a
// scheme, host, port or prefix.
function readWith<Piece> (headers: IncomingHttpHeaders, name: string, parse: (text: string) => Piece | undefined): Piece | undefined {
  const text = textOf(headers, name)
  if (text === undefined) return undefined
  return parse(text) ?? refuse(name)
}

const readScheme = (text: string): Scheme | undefined => parseScheme(lastEntry(text))
const readAuthority = (text: string): Authority | undefined => keptAuthority(lastEntry(text))
const readPort = (text: string): number | undefined => parsePort(lastEntry(text))

type SchemeAndAuthority = Pick<ForwardedUrl, 'scheme' | 'authority'>

function readForwarded (headers: IncomingHttpHeaders): SchemeAndAuthority {
  const text = textOf(headers, 'forwarded')
  if (text === undefined) return { scheme: undefined, authority: undefined }
  const element = parseForwarded(text) ?? refuse('forwarded')
  return {
    scheme: element.proto === undefined ? undefined : parseScheme(element.proto) ?? refuse('forwarded'),
    authority: element.host === undefined ? undefined : keptAuthority(element.host) ?? refuse('forwarded')
  }
}

function readSchemeAndAuthority (headers: IncomingHttpHeaders): SchemeAndAuthority {
  // A proxy that writes one of the two X- headers seldom touches Forwarded, so a Forwarded header beside them may come from the client. It
  // counts only if both X- headers are absent.
  if (headers['x-forwarded-proto'] === undefined && headers['x-forwarded-host'] === undefined) return readForwarded(headers)
  return {
    scheme: readWith(headers, 'x-forwarded-proto', readScheme),
    authority: readWith(headers, 'x-forwarded-host', readAuthority)
  }
}

/**
 * Reads the forwarded headers of a trusted peer: the last entry of X-Forwarded-Proto, -Host and -Port, and all entries of
 * X-Forwarded-Prefix in order. Forwarded (RFC 7239) is read if there is neither X-Forwarded-Proto nor X-Forwarded-Host. Throws
 * `forwarded_invalid`, with the name of the header, if a part that is used is not valid. Host names are kept for the next request.
 */
export function readForwardedUrl (headers: IncomingHttpHeaders, hostHasPort: boolean): ForwardedUrl {
  const { scheme, authority } = readSchemeAndAuthority(headers)
  const hasPort = authority === undefined ? hostHasPort : authority.port !== undefined
  return {
    scheme,
    authority,
    port: hasPort ? undefined : readWith(headers, 'x-forwarded-port', readPort),
    prefix: readWith(headers, 'x-forwarded-prefix', keptPrefix) ?? ''
  }
}
