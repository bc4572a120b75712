import type { Message } from '../message.ts'
import { Refusal } from '../refusal.ts'
import type { Authority, Origin, Scheme } from './http-url.ts'
import { originOf, parseWireAuthority, parseHttpUrl } from './http-url.ts'
import { readForwardedUrl } from './forwarded.ts'
import { memoize } from './memo.ts'
import { escapeNonAscii, parsePrefix } from './path.ts'
import type { TrustProxy } from './peer-trust.ts'
import { createPeerTrust } from './peer-trust.ts'

/** What decides where scheme, host and prefix come from. */
export interface UrlSettings {
  readonly trustProxy: TrustProxy
  readonly publicUrl: string | undefined
}

/** The address of the service as the client sees it: everything of a URL that stands before our own path. */
export interface BaseUrl extends Origin {
  /** Empty, or plain path segments, each after a slash. */
  readonly prefix: string
  /** scheme://host and prefix, without a slash at the end. */
  readonly href: string
}

/** A host with its two possible base URLs, made once. */
interface HostEntry {
  readonly authority: Authority
  readonly http: BaseUrl
  readonly https: BaseUrl
}

const MAX_HOSTS = 64

/** Host of a Host header, validated and kept for the next request; undefined where it is not one. */
export const readHost = memoize<HostEntry>((text) => {
  const authority = parseWireAuthority(text)
  return authority && { authority, http: baseOf('http', authority, ''), https: baseOf('https', authority, '') }
}, MAX_HOSTS)

function baseOf (scheme: Scheme, authority: Authority, prefix: string): BaseUrl {
  const origin = originOf(scheme, authority)
  return { scheme, host: origin.host, prefix, href: origin.href + prefix }
}

function readHostOrRefuse (message: Message): HostEntry {
  return readHost(message.host ?? '') ?? refuseHost()
}

function refuseHost (): never {
  throw new Refusal('host_invalid', { header: 'host' })
}

function readBehindProxy (message: Message): BaseUrl {
  // The Host header is not used, and so not looked at closely, where a forwarded header names the host.
  const entry = readHost(message.host ?? '')
  const forwarded = readForwardedUrl(message.headers, entry?.authority.port !== undefined)
  const scheme = forwarded.scheme ?? (message.encrypted ? 'https' : 'http')
  const authority = forwarded.authority ?? entry?.authority ?? refuseHost()
  const port = authority.port ?? forwarded.port
  return baseOf(scheme, { host: authority.host, port }, forwarded.prefix)
}

/**
 * Reads PUBLIC_URL: absolute http or https URL, with an optional prefix that a proxy strips, without user
 * info, query and fragment. Undefined where it is not one.
 */
export function parsePublicUrl (text: string): BaseUrl | undefined {
  if (text.includes('?') || text.includes('#')) return undefined
  const url = parseHttpUrl(text)
  if (typeof url === 'string') return undefined
  // The prefix is checked as it was written: parseHttpUrl, which took the text, has resolved dot segments.
  const pathAt = text.indexOf('/', text.indexOf('//') + 2)
  const prefix = pathAt === -1 ? '' : parsePrefix(escapeNonAscii(text.slice(pathAt))!)
  return prefix === undefined ? undefined : baseOf(url.scheme, url, prefix)
}

/**
 * Makes the function that tells under which URL the client reaches this service: PUBLIC_URL where it is set,
 * the forwarded headers of a trusted peer, else the connection and Host. It throws a Refusal (`host_repeated`,
 * `host_invalid`, `forwarded_invalid`) where that cannot be told. A bad setting throws TypeError at once.
 */
export function createBaseUrlResolver (settings: UrlSettings): (message: Message) => BaseUrl {
  const publicBase = settings.publicUrl === undefined ? undefined : parsePublicUrl(settings.publicUrl)
  if (settings.publicUrl !== undefined && publicBase === undefined) throw new TypeError('publicUrl is not an absolute http or https URL with a plain path')
  const isTrusted = createPeerTrust(settings.trustProxy)
  return (message) => {
    // Hops disagree on which of two lines counts (RFC 9112 section 3.2), whatever we take the host from.
    if (message.hostCount > 1) throw new Refusal('host_repeated')
    if (publicBase !== undefined) return publicBase
    if (isTrusted(message.remoteAddress)) return readBehindProxy(message)
    const entry = readHostOrRefuse(message)
    return message.encrypted ? entry.https : entry.http
  }
}
