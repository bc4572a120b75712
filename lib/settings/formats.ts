import { METHODS } from 'node:http'
import { isIP } from 'node:net'
import { endOfDay } from '../guard/observing.ts'
import { parseUpstream } from '../gate/upstream/origin.ts'
import { isIssuerName, parseConfiguredJwksUri, parseIssuer } from '../guard/provider/provider-url.ts'
import { parseRedisUrl } from '../guard/redis/redis-url.ts'
import { parseAuthority } from '../guard/url/http-url.ts'
import { createPeerTrust, parsePublicUrl } from '../guard/url/base-url.ts'

/**
 * What the values of settings must look like if the words of JSON schema are not enough. Each format takes the text of
 * one value (of one entry, for a list) and says whether it is well-formed. If another module has a rule for a value,
 * the format uses that rule, so that the module cannot fail later.
 */
type Format = (text: string) => boolean

const MIN_SECRET_BYTES = 32

// The URL parser accepts `https:host`, strips white space and turns back-slashes. A setting must say exactly what it
// means.
const ABSOLUTE_URL = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\\s][^\\\s\p{Cc}]*$/iu

function parseUrl (text: string): URL | undefined {
  return ABSOLUTE_URL.test(text) && URL.canParse(text) ? new URL(text) : undefined
}

/** The texts that a parser takes. */
function acceptedBy (parse: (text: string) => unknown): Format {
  return text => {
    try {
      parse(text)
      return true
    } catch {
      return false
    }
  }
}

/** The URLs among the texts of a format. */
function urlIn (isFormed: Format): Format {
  return text => parseUrl(text) !== undefined && isFormed(text)
}

/** True for a domain such as `https://tenant.example`. It is the only bad value that does not stop the start. */
export function hasScheme (domain: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(domain)
}

function isDomain (text: string): boolean {
  if (hasScheme(text)) return true
  const host = parseAuthority(text)?.host
  if (host === undefined || /%|:$/.test(text)) return false
  const hasEmptyLabel = /(?:^|\.)(?:\.|$)/.test(host)
  return !hasEmptyLabel && URL.canParse(`https://${text}/`)
}

function isTrustedPeer (text: string): boolean {
  if (['true', 'false', 'loopback', 'linklocal', 'uniquelocal'].includes(text)) return true
  // A bare number would be read as an address, so a hop count is refused. A netmask is refused too.
  const [address, bits = '0'] = text.split('/') as [string, string?]
  return isIP(address) !== 0 && /^\d+$/.test(bits) && acceptedBy(entry => createPeerTrust([entry]))(text)
}

function isOrigin (text: string): boolean {
  if (text === '*') return true
  // The Origin that a browser sends (RFC 6454 section 6.2): punycode, no default port, no path. A pattern would match
  // no origin.
  const url = parseUrl(text)
  return url !== undefined && !text.includes('*') && `${url.protocol}//${url.host}` === text.toLowerCase()
}

/** The bytes of a secret: at least 32, in base64url. Undefined for any other text. */
export function decodeSecret (text: string): Buffer | undefined {
  const [, digits] = /^([A-Za-z0-9_-]+)={0,2}$/.exec(text) ?? []
  // If one digit is left over, it is not a byte: the text was cut.
  if (digits === undefined || digits.length % 4 === 1) return undefined
  const bytes = Buffer.from(digits, 'base64url')
  return bytes.length >= MIN_SECRET_BYTES ? bytes : undefined
}

/** Words of other settings, as quotes and templates make them, are not meant as the name of a file or a claim. */
const isWord: Format = text => /^(?:on|off|yes|no|log|true|false)$/i.test(text)
const isReplayStore: Format = text => text === 'memory' || text === 'off' || acceptedBy(parseRedisUrl)(text)
const isName = urlIn(isIssuerName)

export const FORMATS = {
  domain: isDomain,
  'safe-url': urlIn(acceptedBy(parseIssuer)),
  'issuer-name-or-any': text => text === '*' || isName(text),
  'issuer-name': isName,
  'provider-url': urlIn(acceptedBy(parseConfiguredJwksUri)),
  'namespaced-claim': text => /^[a-z][a-z0-9+.-]*:\S+$/i.test(text) && URL.canParse(text),
  'replay-store': isReplayStore,
  'revocation-store': text => text !== 'off' && isReplayStore(text),
  'tls-redis': text => text.startsWith('rediss:') && isReplayStore(text),
  'nonce-secret': text => decodeSecret(text) !== undefined,
  'trusted-peer': isTrustedPeer,
  'public-url' (text) {
    const url = parsePublicUrl(text)
    return url !== undefined && URL.canParse(url.href)
  },
  'proxy-url' (text) {
    // A proxy without a scheme is reached over http, as in other programs.
    const url = parseUrl(text.includes('://') ? text : `http://${text}`)
    return url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.pathname === '/' &&
      url.search + url.hash === ''
  },
  'observe-day': text => text === 'off' || endOfDay(text) > 0,
  'audit-target': text => ['off', 'log'].includes(text) || !isWord(text),
  'claim-name': text => !isWord(text),
  'rate-limit': text => /^(?:off|[1-9]\d{0,14})$/.test(text),
  // RFC 6749 section 3.3.
  scope: text => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(text),
  'gate-upstream': text => parseUpstream(text) !== undefined,
  origin: isOrigin,
  // RFC 9110 section 5.6.2. A lone `*` would stand for every header.
  'header-name': text => text !== '*' && /^[\w!#$%&'*+.^`|~-]+$/.test(text),
  // CONNECT never passes the gate.
  'http-method': text => text !== 'CONNECT' && METHODS.includes(text)
} as const satisfies Readonly<Record<string, Format>>

export type FormatName = keyof typeof FORMATS
