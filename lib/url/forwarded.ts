import { compile } from '@fastify/proxy-addr'
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../refusal.ts'
import { parsePort, parseScheme, parseWireAuthority } from './http-url.ts'
import type { Authority, HttpScheme } from './http-url.ts'
import { memoize } from './memo.ts'
import { parsePrefixList } from './path.ts'

/** `true` for every peer, `false` for none, or addresses, CIDRs and the names `loopback`, `linklocal`, `uniquelocal`. */
export type TrustProxy = boolean | readonly string[]

/** A function of the app that decides about peers, as for Fastify. The peer is hop 0. Only `true` is trust. */
export type AppTrust = (address: string, hop: number) => boolean

const MAX_ADDRESSES = 256

/**
 * Makes the predicate that says whether the forwarded headers of a peer count. An IPv4-mapped IPv6 address counts as the IPv4 address in
 * it. A peer without an address (a unix socket, or a closed connection) is trusted only under `true`, because a list names addresses.
 * @throws TypeError for an entry that is not an address, CIDR or name
 */
export function createPeerTrust (trustProxy: TrustProxy | AppTrust): (remoteAddress: string | undefined) => boolean {
  if (trustProxy === true) return () => true
  if (trustProxy === false) return () => false
  if (typeof trustProxy === 'function') return (remoteAddress) => remoteAddress !== undefined && trustProxy(remoteAddress, 0) === true
  const matches = compile([...trustProxy])
  const verdictOn = memoize((address) => ({ trusted: matches(address, 0) }), MAX_ADDRESSES)
  return (remoteAddress) => remoteAddress !== undefined && verdictOn(remoteAddress)!.trusted
}

/** The parameters of one forwarded-element that matter here. They are unquoted and not yet validated. */
interface ForwardedElement {
  readonly proto: string | undefined
  readonly host: string | undefined
}

// One parameter, or nothing, up to the next separator or the end. At each position one alternative fits, so the time is linear.
// RFC 7239 requires quotes around a value with a colon. Many proxies send `host=name:8443`, which has only one meaning.
const PARAMETER = /[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^ \t,;="]+))[ \t]*)?([,;]|$)/gsy

/**
 * Reads the last element of a Forwarded header (RFC 7239 section 4), which the nearest proxy wrote. Undefined if any part of the value is
 * malformed (an open quote would swallow the next element), if an element has a parameter twice, or if the last element is empty.
 */
function parseForwarded (text: string): ForwardedElement | undefined {
  const element = new Map<string, string>()
  let separator: string | undefined
  for (const [, name, quoted, bare, next] of text.matchAll(PARAMETER)) {
    separator = next
    if (name !== undefined) {
      if (element.has(name.toLowerCase())) return undefined
      element.set(name.toLowerCase(), bare ?? quoted!.replace(/\\(.)/gs, '$1'))
    }
    if (separator === ',') element.clear()
  }
  return separator === '' && element.size > 0 ? { proto: element.get('proto'), host: element.get('host') } : undefined
}

/** The parts of the URL that the client used, by a trusted proxy. A member is undefined if the proxy does not name it. */
export interface ForwardedUrl {
  readonly scheme: HttpScheme | undefined
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
  throw new Refusal('forwarded_invalid', { detail: { header } })
}

type Parse<Piece> = (text: string) => Piece | undefined

// An empty header is refused like any other text that is no scheme, host, port or prefix: the proxy meant to name one and failed.
function readWith<Piece> (headers: IncomingHttpHeaders, name: string, parse: Parse<Piece>): Piece | undefined {
  const value = headers[name]
  if (value === undefined) return undefined
  return parse(typeof value === 'string' ? value : value.join(', ')) ?? refuse(name)
}

// If there are several lines and entries, the trusted peer wrote the last one.
function readLast<Piece> (headers: IncomingHttpHeaders, name: string, parse: Parse<Piece>): Piece | undefined {
  return readWith(headers, name, text => parse(text.slice(text.lastIndexOf(',') + 1).trim()))
}

function readForwarded (headers: IncomingHttpHeaders): Pick<ForwardedUrl, 'scheme' | 'authority'> {
  const forwarded = readWith(headers, 'forwarded', parseForwarded)
  return {
    scheme: forwarded?.proto === undefined ? undefined : parseScheme(forwarded.proto) ?? refuse('forwarded'),
    authority: forwarded?.host === undefined ? undefined : keptAuthority(forwarded.host) ?? refuse('forwarded')
  }
}

/**
 * Reads the forwarded headers of a trusted peer: the last entry of X-Forwarded-Proto, -Host and -Port, and all entries of
 * X-Forwarded-Prefix in order. Forwarded (RFC 7239) is read if there is neither X-Forwarded-Proto nor X-Forwarded-Host.
 * @throws Refusal forwarded_invalid, with the name of the header, if a part that is used is not valid
 */
export function readForwardedUrl (headers: IncomingHttpHeaders, hostHasPort: boolean): ForwardedUrl {
  // A proxy that writes one of the two X- headers seldom touches Forwarded, so a Forwarded header beside them may be the client's.
  const hasNone = headers['x-forwarded-proto'] === undefined && headers['x-forwarded-host'] === undefined
  const { scheme, authority } = hasNone
    ? readForwarded(headers)
    : { scheme: readLast(headers, 'x-forwarded-proto', parseScheme), authority: readLast(headers, 'x-forwarded-host', keptAuthority) }
  const hasPort = authority === undefined ? hostHasPort : authority.port !== undefined
  return {
    scheme,
    authority,
    port: hasPort ? undefined : readLast(headers, 'x-forwarded-port', parsePort),
    prefix: readWith(headers, 'x-forwarded-prefix', keptPrefix) ?? ''
  }
}
