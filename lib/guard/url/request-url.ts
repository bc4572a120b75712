import type { Message } from '../message.ts'
import { Refusal, type RefusalDetail } from '../../refusal.ts'
import { createBaseUrlResolver, type UrlSettings } from './base-url.ts'
import {
  decodeEscapes,
  httpUrlOf,
  normalizeEscapes,
  parseHttpUrl,
  parseWireAuthority,
  splitHttpUrl,
  type Authority,
  type HttpScheme,
  type HttpUrl
} from './http-url.ts'

/** The URL that the client used. Its path includes the prefix that a proxy took away. */
export interface RequestUrl extends HttpUrl {
  /** The path without that prefix. */
  readonly ownPath: string
}

/** How `htu` and the URL of the request differ: a stable word for logs and for advice. */
export type HtuCause =
  | 'scheme'
  | 'host'
  | 'port'
  | 'prefix'
  | 'prefix_extra'
  | 'trailing_slash'
  | 'path_case'
  | 'path_rewritten'
  | 'path'

const MAX_LOGGED_CHARS = 512

const shorten = (url: string) =>
  url.length <= MAX_LOGGED_CHARS ? url : url.slice(0, MAX_LOGGED_CHARS - 3) + '...'

const withoutPort = (host: string) => host.replace(/:[0-9]+$/, '')

// The escapes are well-formed here, but they may not be UTF-8. Then nothing more can be compared.
function rewritten (path: string): string {
  const merged = path.replace(/\/+/g, '/')
  return decodeEscapes(merged)?.replace(/\/+/g, '/') ?? merged
}

function findPathCause (htu: string, path: string): HtuCause {
  if (htu === path + '/' || path === htu + '/') return 'trailing_slash'
  if (htu.toLowerCase() === path.toLowerCase()) return 'path_case'
  if (rewritten(htu) === rewritten(path)) return 'path_rewritten'
  if (htu.endsWith(path)) return 'prefix'
  if (path.endsWith(htu)) return 'prefix_extra'
  return 'path'
}

function findCause (htu: HttpUrl, url: RequestUrl): HtuCause {
  if (htu.scheme !== url.scheme) return 'scheme'
  if (htu.host !== url.host) return withoutPort(htu.host) === withoutPort(url.host) ? 'port' : 'host'
  return findPathCause(htu.path, url.path)
}

/**
 * Compares the `htu` of a proof with the URL of the request (RFC 9449 section 4.3 check 9), in normal form by syntax
 * and scheme (RFC 3986 sections 6.2.2 and 6.2.3). Equal strings decide at once. Query and fragment of `htu` do not
 * count.
 * @throws Refusal htu_invalid with its `cause` if `htu` is not an absolute http or https URL or holds user info;
 * htu_mismatch with the two URLs (bounded, without query) and the `cause` if it is another URL
 */
export function verifyHtu (htu: string, url: RequestUrl): void {
  if (htu === url.href) return
  const parsed = parseHttpUrl(htu)
  if (typeof parsed === 'string') throw new Refusal('htu_invalid', { detail: { cause: parsed } })
  if (parsed.href === url.href) return
  throw new Refusal('htu_mismatch', {
    detail: { htu: shorten(parsed.href), url: shorten(url.href), cause: findCause(parsed, url) }
  })
}

/** Matches a path in normal form that has a segment `.` or `..`. */
const DOT_SEGMENT = /\/\.\.?(?:\/|$)/

function causeOf (char: string): string {
  if (char === '\\') return 'backslash'
  if (char === '#') return 'fragment'
  // No URI holds a byte outside ASCII. A router may read it in another way than its escaped form.
  return char <= ' ' || char === '\u007f' ? 'control_character' : 'non_ascii'
}

/**
 * Returns the path of a request target that begins with its path, in normal form and without the query.
 * @throws Refusal target_path, with the `cause`, if router and proof could read two different resources from the
 * target: dot segments, also as `%2e`, back-slashes, control characters, a fragment, bytes outside ASCII, broken
 * escapes
 */
export function readTargetPath (target: string): string {
  const query = target.indexOf('?')
  const path = query === -1 ? target : target.slice(0, query)
  // Nearly every path is in normal form: no escape, and no segment that begins with a dot.
  if (!/[^\u0021-\u007e]|[#%\\]|\/\./.test(path)) return path
  const char = /[^\u0021-\u007e]|[#\\]/.exec(path)?.[0]
  if (char !== undefined) refusePath(causeOf(char))
  const normalized = normalizeEscapes(path) ?? refusePath('escape')
  return DOT_SEGMENT.test(normalized) ? refusePath('dot_segment') : normalized
}

/** @throws Refusal target_path */
export function refusePath (cause: string, more: RefusalDetail = {}): never {
  throw new Refusal('target_path', { detail: { cause, ...more } })
}

// Both are read under the scheme of the target, so either may leave out a default port.
function isHostOf (message: Message, scheme: HttpScheme, authorityText: string): boolean {
  const target = parseWireAuthority(authorityText)
  const host = message.host && parseWireAuthority(message.host)
  if (!target || !host) return false
  return httpUrlOf(scheme, target).host === httpUrlOf(scheme, host).host
}

// `http://host/path`, RFC 9112 section 3.2.2. The asterisk and a bare authority do not name a resource of this service.
function readAbsoluteTarget (message: Message, base: HttpUrl): string {
  const target = splitHttpUrl(message.target) ?? refusePath('form')
  if (!isHostOf(message, target.scheme, target.authority)) {
    throw new Refusal('target_authority', { detail: { cause: 'host' } })
  }
  // RFC 9110 section 7.4: an https target must not be answered if the client did not use https. A proxy that ends TLS
  // may write http.
  if (target.scheme === 'https' && base.scheme === 'http') {
    throw new Refusal('target_authority', { detail: { cause: 'scheme' } })
  }
  return readTargetPath(target.rest) || '/'
}

/**
 * Makes the function that returns the URL that the client used, to be compared with the `htu` of a proof (RFC 9449
 * section 4.3): scheme, host and prefix as createBaseUrlResolver decides, then the path of the request target. If the
 * URL is uncertain, it does not guess, and throws Refusal host_repeated, host_invalid, forwarded_invalid,
 * target_authority or target_path.
 * @throws TypeError for a bad setting
 */
export function createRequestUrlResolver (settings: UrlSettings): (message: Message) => RequestUrl {
  const resolveBase = createBaseUrlResolver(settings)
  return message => {
    const base = resolveBase(message)
    const ownPath = message.target.startsWith('/')
      ? readTargetPath(message.target)
      : readAbsoluteTarget(message, base)
    return requestUrlOf(base, ownPath)
  }
}

/**
 * The URL of a request of HTTP/1.0 without Host (RFC 9112 section 3.3): it has no host, and no proof is compared with
 * it.
 * @throws Refusal target_path
 */
export function hostlessUrl (message: Message): RequestUrl {
  const path = message.target.startsWith('/') ? readTargetPath(message.target) : refusePath('form')
  return { scheme: message.encrypted ? 'https' : 'http', host: '', path, href: path, ownPath: path }
}

function requestUrlOf ({ scheme, host, path, href }: HttpUrl, ownPath: string): RequestUrl {
  return { scheme, host, path: path + ownPath, href: href + ownPath, ownPath }
}

/**
 * The URL that the client used, by the word of a trusted proxy. Each part has been read by its own grammar before they
 * are joined, so that none can change where another begins.
 * @param target it begins with its path. The query is left out
 * @throws Refusal target_path
 */
export function joinRequestUrl (scheme: HttpScheme, authority: Authority, target: string): RequestUrl {
  return requestUrlOf(httpUrlOf(scheme, authority), readTargetPath(target))
}
