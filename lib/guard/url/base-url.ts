import { all as addressesOf, compile } from '@fastify/proxy-addr'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { receivedFrom, type Message, type ReceivedRequest } from '../message.ts'
import { Refusal } from '../../refusal.ts'
import {
  escapeNonAscii,
  httpUrlOf,
  normalizeEscapes,
  parseAuthority,
  parsePort,
  parseScheme,
  parseWireAuthority,
  splitHttpUrl,
  type Authority,
  type HttpScheme,
  type HttpUrl
} from './http-url.ts'
import { lastElement } from './last-element.ts'

/**
 * `true` for every peer, `false` for none, or addresses, CIDRs and the names `loopback`, `linklocal`, `uniquelocal`.
 */
export type TrustProxy = boolean | readonly string[]

/** A function of the app that decides about peers, as for Fastify. The peer is hop 0. Only `true` is trust. */
export type AppTrust = (address: string, hop: number) => boolean

/** The settings that decide the source of scheme, host and prefix. */
export interface UrlSettings {
  readonly trustProxy: TrustProxy | AppTrust
  readonly publicUrl: string | undefined
}

const MAX_KEPT = 256
const MAX_PREFIX_CHARS = 2048
const MAX_PREFIX_ENTRIES = 16

type Parse<Piece> = (text: string) => Piece | undefined

/**
 * Keeps the results of a pure function for the last few texts, so that a host that every request carries is parsed
 * once. Refused texts (undefined) are not kept: they would push out good ones. A full memo starts over, so its memory
 * is bounded however many texts arrive.
 */
export function memoize<Result> (parse: Parse<Result>): Parse<Result> {
  const results = new Map<string, Result>()
  return text => {
    const kept = results.get(text)
    if (kept !== undefined) return kept
    const result = parse(text)
    if (result === undefined) return undefined
    if (results.size >= MAX_KEPT) results.clear()
    results.set(text, result)
    return result
  }
}

/**
 * Makes the predicate that says whether the forwarded headers of a peer count. An IPv4-mapped IPv6 address counts as
 * the IPv4 address in it. A peer without an address (a unix socket, or a closed connection) is trusted only under
 * `true`, because a list names addresses.
 * @throws TypeError for an entry that is not an address, CIDR or name
 */
export function createPeerTrust (
  trustProxy: TrustProxy | AppTrust
): (remoteAddress: string | undefined, hop?: number) => boolean {
  if (trustProxy === true) return () => true
  if (trustProxy === false) return () => false
  if (typeof trustProxy === 'function') {
    return (remoteAddress, hop = 0) => remoteAddress !== undefined && trustProxy(remoteAddress, hop) === true
  }
  const matches = compile([...trustProxy])
  const verdictOn = memoize(address => matches(address, 0))
  return remoteAddress => remoteAddress !== undefined && verdictOn(remoteAddress)!
}

/**
 * Makes the function that returns the address of the client of a request, as trusted peers say it in X-Forwarded-For:
 * it may be any text. A peer without an address has none.
 * @throws TypeError as `createPeerTrust`
 */
export function createClientAddress (
  trustProxy: TrustProxy | AppTrust
): (raw: ReceivedRequest) => string | undefined {
  const isTrusted = createPeerTrust(trustProxy)
  return raw => addressesOf(receivedFrom(raw) as IncomingMessage, isTrusted).at(-1)
}

// Non-empty segments of pchar (RFC 3986 section 3.3) without the comma, which separates entries. None is a dot segment,
// or has an escape that one hop may decode while the next one does not: dot, slash, back-slash, control character.
const PLAIN_SEGMENTS = /^(?:\/(?!\.\.?(?:\/|$))(?:[a-z0-9._~!$&'()*+;=:@-]|%(?!2[ef]|5c|[01]|7f)[0-9a-f]{2})+)*$/i

/**
 * Reads a path under which the service is mounted: plain segments, each after a slash. One slash at the end is dropped,
 * so `/` is the empty prefix. Returns it in normal form, or undefined if it is not such a path.
 */
function parsePrefix (text: string): string | undefined {
  if (text.length > MAX_PREFIX_CHARS || !text.startsWith('/')) return undefined
  const path = text.endsWith('/') ? text.slice(0, -1) : text
  return PLAIN_SEGMENTS.test(path) ? normalizeEscapes(path) : undefined
}

/**
 * Reads the entries of X-Forwarded-Prefix and joins them in order. Returns undefined if one of them is not a prefix.
 */
function parsePrefixList (text: string): string | undefined {
  if (text.length > MAX_PREFIX_CHARS) return undefined
  if (!text.includes(',')) return parsePrefix(text)
  const prefixes = text.split(',', MAX_PREFIX_ENTRIES + 1).map(entry => parsePrefix(entry.trim()))
  return prefixes.length > MAX_PREFIX_ENTRIES || prefixes.includes(undefined) ? undefined : prefixes.join('')
}

function refuseHost (): never {
  throw new Refusal('host_invalid', { detail: { header: 'host' } })
}

function refuseForwarded (header: string): never {
  throw new Refusal('forwarded_invalid', { detail: { header } })
}

// One parameter, or nothing, up to the next separator or the end. At each position one alternative fits, so the time is
// linear. RFC 7239 requires quotes around a value with a colon. Many proxies send `host=name:8443`, which has only one
// meaning.
const PARAMETER = /[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^ \t,;="]+))[ \t]*)?([,;]|$)/gsy

// An empty header is refused like any other text that is no scheme, host, port or prefix: the proxy meant to name one
// and failed.
function readWith<Piece> (headers: IncomingHttpHeaders, name: string, parse: Parse<Piece>): Piece | undefined {
  const value = headers[name]
  if (value === undefined) return undefined
  return parse(typeof value === 'string' ? value : value.join(', ')) ?? refuseForwarded(name)
}

// If there are several lines and entries, the trusted peer wrote the last one.
function readLast<Piece> (headers: IncomingHttpHeaders, name: string, parse: Parse<Piece>): Piece | undefined {
  return readWith(headers, name, text => parse(text.slice(text.lastIndexOf(',') + 1).trim()))
}

function readForwarded (
  headers: IncomingHttpHeaders,
  readAuthority: Parse<Authority>
): { scheme: HttpScheme | undefined, authority: Authority | undefined } {
  // RFC 7239 section 4: no parameter may be there twice.
  const element = readWith(headers, 'forwarded', text => lastElement(text, PARAMETER, () => true))
  const proto = element?.get('proto')
  const host = element?.get('host')
  return {
    scheme: proto === undefined ? undefined : parseScheme(proto) ?? refuseForwarded('forwarded'),
    authority: host === undefined ? undefined : readAuthority(host) ?? refuseForwarded('forwarded')
  }
}

/**
 * Makes the function that returns the URL that the client used, by a trusted proxy: the last entry of
 * X-Forwarded-Proto, -Host and -Port, and all entries of X-Forwarded-Prefix in order. Forwarded (RFC 7239) is read if
 * there is neither X-Forwarded-Proto nor X-Forwarded-Host. The connection and Host say what the proxy does not name. It
 * throws Refusal forwarded_invalid, with the name of the header, if a part that is used is not valid; host_invalid.
 */
function createProxyReader (readAuthority: Parse<Authority>): (message: Message) => HttpUrl {
  const readPrefixes = memoize(parsePrefixList)
  return ({ headers, host, encrypted }) => {
    // A proxy that writes one of the two X- headers seldom touches Forwarded, so a Forwarded header beside them may be
    // the client's.
    const hasNone = headers['x-forwarded-proto'] === undefined && headers['x-forwarded-host'] === undefined
    const forwarded = hasNone
      ? readForwarded(headers, readAuthority)
      : {
          scheme: readLast(headers, 'x-forwarded-proto', parseScheme),
          authority: readLast(headers, 'x-forwarded-host', readAuthority)
        }
    // If a forwarded header names the host, the Host header is not used and not checked closely.
    const authority = forwarded.authority ?? readAuthority(host ?? '')
    const port = authority?.port ?? readLast(headers, 'x-forwarded-port', parsePort)
    const prefix = readWith(headers, 'x-forwarded-prefix', readPrefixes)
    if (authority === undefined) refuseHost()
    return httpUrlOf(forwarded.scheme ?? (encrypted ? 'https' : 'http'), { host: authority.host, port }, prefix)
  }
}

/**
 * Reads PUBLIC_URL: an absolute http or https URL, with an optional prefix that a proxy strips. Undefined for any other
 * text.
 */
export function parsePublicUrl (text: string): HttpUrl | undefined {
  const parts = splitHttpUrl(text)
  if (parts === undefined) return undefined
  const authority = parseAuthority(parts.authority)
  const path = escapeNonAscii(parts.rest)
  const prefix = path && parsePrefix(path)
  return authority && prefix !== undefined ? httpUrlOf(parts.scheme, authority, prefix) : undefined
}

function createHostReader (scheme: HttpScheme): Parse<HttpUrl> {
  return memoize(text => {
    const authority = parseWireAuthority(text)
    return authority && httpUrlOf(scheme, authority)
  })
}

/**
 * Makes the function that returns the URL under which the client reaches this service: PUBLIC_URL if it is set, else
 * the forwarded headers of a trusted peer, else the connection and Host. It throws Refusal host_repeated, host_invalid
 * or forwarded_invalid if that is uncertain.
 * @throws TypeError for a bad setting
 */
export function createBaseUrlResolver (settings: UrlSettings): (message: Message) => HttpUrl {
  const publicBase = settings.publicUrl === undefined ? undefined : parsePublicUrl(settings.publicUrl)
  if (settings.publicUrl !== undefined && publicBase === undefined) {
    throw new TypeError('publicUrl is not an absolute http or https URL with a plain path')
  }
  const isTrusted = createPeerTrust(settings.trustProxy)
  // What a valid host makes is kept for the next request.
  const readBehindProxy = createProxyReader(memoize(parseWireAuthority))
  const [readHttp, readHttps] = [createHostReader('http'), createHostReader('https')]
  return message => {
    // Hops disagree on which of two Host lines counts (RFC 9112 section 3.2), so two lines are refused wherever the
    // host comes from.
    if (message.hostCount > 1) throw new Refusal('host_repeated')
    if (publicBase !== undefined) return publicBase
    if (isTrusted(message.remoteAddress)) return readBehindProxy(message)
    return (message.encrypted ? readHttps : readHttp)(message.host ?? '') ?? refuseHost()
  }
}
