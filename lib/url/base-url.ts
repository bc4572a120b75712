import type { Message } from '../message.ts'
import { Refusal } from '../refusal.ts'
import { createPeerTrust, readForwardedUrl } from './forwarded.ts'
import type { AppTrust, TrustProxy } from './forwarded.ts'
import { originOf, parseHttpUrl, parseWireAuthority } from './http-url.ts'
import type { Authority, HttpOrigin, HttpScheme } from './http-url.ts'
import { memoize } from './memo.ts'
import { escapeNonAscii, parsePrefix } from './path.ts'

/** The settings that decide the source of scheme, host and prefix. */
export interface UrlSettings {
  readonly trustProxy: TrustProxy | AppTrust
  readonly publicUrl: string | undefined
}

/** The address of the service as the client sees it: the part of a URL before our own path. */
export interface BaseUrl extends HttpOrigin {
  /** Empty, or plain path segments, each after a slash. */
  readonly prefix: string
  /** scheme://host and prefix, without a slash at the end. */
  readonly href: string
}

/** A host with its two possible base URLs. They are made once. */
interface HostEntry {
  readonly authority: Authority
  readonly http: BaseUrl
  readonly https: BaseUrl
}

const MAX_HOSTS = 64

/** Reads a Host header. A valid host is kept for the next request. Undefined if it is not a host. */
export const readHost = memoize<HostEntry>((text) => {
  const authority = parseWireAuthority(text)
  return authority && { authority, http: baseOf('http', authority, ''), https: baseOf('https', authority, '') }
}, MAX_HOSTS)

function baseOf (scheme: HttpScheme, authority: Authority, prefix: string): BaseUrl {
  const origin = originOf(scheme, authority)
  return { scheme, host: origin.host, prefix, href: origin.href + prefix }
}

function refuseHost (): never {
  throw new Refusal('host_invalid', { detail: { header: 'host' } })
}

function readBehindProxy (message: Message): BaseUrl {
  // If a forwarded header names the host, the Host header is not used and not checked closely.
  const entry = readHost(message.host ?? '')
  const forwarded = readForwardedUrl(message.headers, entry?.authority.port !== undefined)
  const scheme = forwarded.scheme ?? (message.encrypted ? 'https' : 'http')
  const authority = forwarded.authority ?? entry?.authority ?? refuseHost()
  const port = authority.port ?? forwarded.port
  return baseOf(scheme, { host: authority.host, port }, forwarded.prefix)
}

/** Reads PUBLIC_URL: an absolute http or https URL, with an optional prefix that a proxy strips. Undefined for any other text. */
export function parsePublicUrl (text: string): BaseUrl | undefined {
  if (text.includes('?') || text.includes('#')) return undefined
  const url = parseHttpUrl(text)
  if (typeof url === 'string') return undefined
  // The prefix is checked as it was written: parseHttpUrl, which accepted the text, has resolved dot segments.
  const pathAt = text.indexOf('/', text.indexOf('//') + 2)
  const prefix = pathAt === -1 ? '' : parsePrefix(escapeNonAscii(text.slice(pathAt))!)
  return prefix === undefined ? undefined : baseOf(url.scheme, url, prefix)
}

/**
 * Makes the function that returns the URL under which the client reaches this service: PUBLIC_URL if it is set, else the forwarded headers
 * of a trusted peer, else the connection and Host. It throws Refusal host_repeated, host_invalid or forwarded_invalid if that is uncertain.
 * @throws TypeError for a bad setting
 */
export function createBaseUrlResolver (settings: UrlSettings): (message: Message) => BaseUrl {
  const publicBase = settings.publicUrl === undefined ? undefined : parsePublicUrl(settings.publicUrl)
  if (settings.publicUrl !== undefined && publicBase === undefined) throw new TypeError('publicUrl is not an absolute http or https URL with a plain path')
  const isTrusted = createPeerTrust(settings.trustProxy)
  return (message) => {
    // Hops disagree on which of two Host lines counts (RFC 9112 section 3.2), so two lines are refused wherever the host comes from.
    if (message.hostCount > 1) throw new Refusal('host_repeated')
    if (publicBase !== undefined) return publicBase
    if (isTrusted(message.remoteAddress)) return readBehindProxy(message)
    const entry = readHost(message.host ?? '') ?? refuseHost()
    return message.encrypted ? entry.https : entry.http
  }
}
