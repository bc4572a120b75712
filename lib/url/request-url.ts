import { Refusal } from '../refusal.ts'
import type { Scheme } from './http-url.ts'
import { parseScheme, parseWireAuthority, portBeyondDefault, findAuthorityEnd } from './http-url.ts'
import type { BaseUrl, UrlSettings, WireRequest } from './base-url.ts'
import { createBaseUrlResolver, readHost } from './base-url.ts'
import { readTargetPath } from './path.ts'

export type { BaseUrl, UrlSettings, WireRequest } from './base-url.ts'

/** The URL that the client used, without query and fragment, in normal form. */
export interface RequestUrl {
  readonly scheme: Scheme
  /** Holds the port where it is not the scheme's default. */
  readonly host: string
  /** The prefix that a proxy took away is part of it. */
  readonly path: string
  /** scheme://host and path. */
  readonly href: string
}

function refuseAuthority (cause: string): never {
  throw new Refusal('target_authority', { cause })
}

// Both are read under the scheme of the target, so that a default port may be left out of either.
function isHostOf (wire: WireRequest, scheme: Scheme, authorityText: string): boolean {
  const target = parseWireAuthority(authorityText)
  const host = readHost(wire.host ?? '')?.authority
  if (target === undefined || host === undefined) return false
  return target.host === host.host && portBeyondDefault(scheme, target.port) === portBeyondDefault(scheme, host.port)
}

// `http://host/path`, RFC 9112 section 3.2.2. The asterisk and a bare authority name no resource of ours.
function readAbsoluteTarget (wire: WireRequest, base: BaseUrl, isFixedBase: boolean): string {
  const { target } = wire
  const schemeEnd = target.indexOf('://')
  const scheme = schemeEnd === -1 ? undefined : parseScheme(target.slice(0, schemeEnd))
  if (scheme === undefined) throw new Refusal('target_path', { cause: 'form' })
  const start = schemeEnd + 3
  const end = findAuthorityEnd(target, start)
  if (!isHostOf(wire, scheme, target.slice(start, end))) refuseAuthority('host')
  // RFC 9110 section 7.4: https is not to be answered where the client did not use it; PUBLIC_URL settles it otherwise. A proxy that ends TLS may write http.
  if (scheme === 'https' && base.scheme === 'http' && !isFixedBase) refuseAuthority('scheme')
  const path = readTargetPath(target, end)
  return path === '' ? '/' : path
}

/**
 * Makes the function that tells which URL the client used, to be compared with the `htu` of a DPoP proof
 * (RFC 9449 section 4.3): scheme, host and prefix as createBaseUrlResolver decides, then the path of the request
 * target. It throws a Refusal (`host_repeated`, `host_invalid`, `forwarded_invalid`, `target_authority`,
 * `target_path`) rather than guess. A bad setting throws TypeError at once.
 */
export function createRequestUrlResolver (settings: UrlSettings): (wire: WireRequest) => RequestUrl {
  const resolveBase = createBaseUrlResolver(settings)
  const isFixedBase = settings.publicUrl !== undefined
  return (wire) => {
    const base = resolveBase(wire)
    const path = wire.target.charCodeAt(0) === 0x2f
      ? readTargetPath(wire.target, 0)
      : readAbsoluteTarget(wire, base, isFixedBase)
    return { scheme: base.scheme, host: base.host, path: base.prefix + path, href: base.href + path }
  }
}
