import { METHODS } from 'node:http'
import { linesByName, type Message, type ReceivedRequest } from '../guard/message.ts'
import { Refusal } from '../refusal.ts'
import { parseScheme, parseWireAuthority, splitHttpUrl, type HttpUrl, type HttpScheme } from '../guard/url/http-url.ts'
import { joinRequestUrl } from '../guard/url/request-url.ts'
import type { OriginalRequest } from './executor.ts'
import { GateError } from './gate-error.ts'
import { CLAIM_PREFIX } from './identity-headers.ts'
import { originForm } from './path.ts'

/**
 * The headers that state a method or a URL, by family. An authorization request has those of its own family, and no
 * others.
 */
const NAMES = {
  nginx: ['x-original-method', 'x-original-url'],
  haproxy: ['x-original-method', 'x-original-url'],
  forwarded: ['x-forwarded-method', 'x-forwarded-uri'],
  envoy: []
} satisfies Record<string, string[]>

/** The kinds of proxies that ask, by how they state the original request. */
export type ProxyFamily = keyof typeof NAMES
export const PROXY_FAMILIES = Object.keys(NAMES) as ProxyFamily[]

interface OriginalOptions {
  /** An original request to another scheme and authority is refused. */
  readonly publicUrl: HttpUrl | undefined
  /**
   * The headers of claims that the upstream gets, in lower case, which nginx replaces. An authorization request of
   * nginx with another one is refused: nginx passes on all headers that its configuration does not name, and it cannot
   * name those of every claim.
   */
  readonly claimHeaders: ReadonlySet<string>
}

/**
 * Reads the request that a proxy asks about. Only lines with exactly these names count: a name with `_` for `-` is
 * another name.
 * @param rest the target behind the path of the endpoint
 * @throws GateError 403, Refusal host_repeated, target_path
 */
export function readOriginal (
  family: ProxyFamily,
  message: Message,
  rest: string,
  { publicUrl, claimHeaders }: OriginalOptions
): OriginalRequest {
  const lines = linesByName(message.received.rawHeaders)
  const isOwnClaim = (name: string) => name.startsWith(CLAIM_PREFIX) && !claimHeaders.has(name)
  if (family === 'nginx' && [...lines.keys()].some(isOwnClaim)) {
    refuse('The original request has a header of a claim that the gate does not set.')
  }
  const own: readonly string[] = NAMES[family]
  const foreign = Object.values(NAMES).flat().find(name => lines.has(name) && !own.includes(name))
  if (foreign !== undefined) {
    refuse(`The authorization request has the header ${foreign}, which another kind of proxy sends.`)
  }
  const line = (name: string) => onlyLine(lines, name)
  const forwardedScheme = () =>
    parseScheme(line('x-forwarded-proto')) ?? refuse('The header x-forwarded-proto holds no scheme.')
  switch (family) {
    case 'nginx':
    case 'haproxy': {
      const { scheme, authority, rest: target } = splitHttpUrl(line('x-original-url')) ??
        refuse('The header x-original-url holds no absolute URL.')
      return originalOf(line('x-original-method'), scheme, authority, 'x-original-url', target)
    }
    case 'forwarded': {
      const target = line('x-forwarded-uri')
      return originalOf(
        line('x-forwarded-method'),
        forwardedScheme(),
        line('x-forwarded-host'),
        'x-forwarded-host',
        target
      )
    }
    case 'envoy': {
      if (message.hostCount > 1) throw new Refusal('host_repeated')
      // Another forwarded header than that of the scheme may be the client's: Envoy replaces only this one. If it is
      // not passed on, the scheme is that of the authorization request, which Envoy sends over plain HTTP or over TLS
      // that ends here.
      const scheme = lines.has('x-forwarded-proto') ? forwardedScheme() : message.encrypted ? 'https' : 'http'
      return originalOf(message.method, scheme, message.host ?? '', 'host', rest)
    }
  }

  function originalOf (
    method: string,
    scheme: HttpScheme,
    host: string,
    header: string,
    target: string
  ): OriginalRequest {
    const authority = parseWireAuthority(host) ?? refuse(`The header ${header} holds no host.`)
    // What follows in a tunnel would be for no rule. Some proxies pass it on, Traefik over HTTP/2 for one.
    if (method === 'CONNECT') refuse('The original request asks for a tunnel.')
    if (!METHODS.includes(method)) refuse('The original method is unknown.')
    // `http://api.example?/x` has no path, and none is added.
    if (!target.startsWith('/')) refuse('The original request has no path.')
    const original = { message, method, target: originForm(target), url: joinRequestUrl(scheme, authority, target) }
    if (publicUrl && (scheme !== publicUrl.scheme || original.url.host !== publicUrl.host)) {
      refuse('The original request is for another scheme or authority than that of PUBLIC_URL.')
    }
    return original
  }
}

/** Envoy states with it whether a body that it sends is only the beginning of the original one. */
export const PARTIAL_BODY = 'x-envoy-auth-partial-body'

/**
 * Refuses an authorization request of Envoy with a part of the original body, or with one that Envoy does not state to
 * be whole.
 * @throws GateError 403
 */
export function verifyWholeBody ({ rawHeaders }: Pick<ReceivedRequest, 'rawHeaders'>): void {
  if (onlyLine(linesByName(rawHeaders), PARTIAL_BODY) !== 'false') {
    refuse('The authorization request has only a part of the original body.')
  }
}

function onlyLine (lines: ReadonlyMap<string, readonly string[]>, name: string): string {
  const [value, ...more] = lines.get(name) ?? []
  if (!value) refuse(`The authorization request lacks the header ${name}.`)
  if (more.length > 0) refuse(`The authorization request has the header ${name} more than once.`)
  return value
}

function refuse (fault: string): never {
  throw new GateError(403, fault)
}
