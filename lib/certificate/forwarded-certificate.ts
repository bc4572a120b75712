/** What the nearest proxy says about the certificate of its peer. */
export interface ForwardedCertificate {
  /** SHA-256 of the DER form, in hexadecimal digits, as it stands. */
  readonly hash: string | undefined
  /** The PEM form, with percent-escapes. */
  readonly cert: string | undefined
}

// One key and its value: a quoted text with escapes, or a text without any of the separators. The sticky flag makes a gap a failure.
const PAIR = /([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;\\]*))(;|,|$)/y

/**
 * Reads Envoy's `X-Forwarded-Client-Cert`: elements separated by commas, each with pairs separated by semicolons. Each proxy
 * appends an element, so only the last one was written by our own. Names of keys have any case. Undefined if any part of the value
 * cannot be read: an element before the last may be the client's own, made to hide where the last one begins.
 */
export function parseForwardedCertificate (value: string): ForwardedCertificate | undefined {
  let element = new Map<string, string>()
  let separator: string | undefined
  let end = 0
  while (separator !== '') {
    PAIR.lastIndex = end
    const pair = PAIR.exec(value)
    if (!pair) return undefined
    const [, key, quoted, plain, next] = pair as unknown as [string, string, string | undefined, string, string]
    const name = key.toLowerCase()
    // URI and DNS may be repeated. A second Hash or Cert would leave open which one counts.
    if (element.has(name) && (name === 'hash' || name === 'cert')) return undefined
    element.set(name, quoted ?? plain)
    end = PAIR.lastIndex
    separator = next
    if (separator === ',') element = new Map()
  }
  return { hash: element.get('hash'), cert: element.get('cert') }
}
