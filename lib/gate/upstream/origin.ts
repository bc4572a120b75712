import { isIP } from 'node:net'

/** The origin of an upstream. Undefined unless it is an http or https URL of a host, and nothing more. */
export function parseUpstream (given: unknown): string | undefined {
  // The path of a request is passed on as it came, so an upstream with a path of its own would be another resource.
  const [, origin] = (typeof given === 'string' ? /^(https?:\/\/[^/?#\\@\s]+)\/?$/i.exec(given) : null) ?? []
  return origin !== undefined && URL.canParse(origin) ? new URL(origin).origin : undefined
}

/**
 * The name that the certificate of an upstream must have: empty for an address, which TLS does not send (RFC 6066
 * section 3).
 */
export function tlsNameOf (origin: string): string {
  const hostname = new URL(origin).hostname.replace(/^\[|\]$/g, '')
  return isIP(hostname) ? '' : hostname
}
