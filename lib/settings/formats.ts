import { isIP } from 'node:net'

/**
 * What the values of settings must look like where a JSON schema's own words do not reach.
 * Each takes the text of one value (of one entry, for a list) and says whether it is well-formed.
 */
const MIN_SECRET_BYTES = 32
const CIDR_BITS: Record<number, number> = { 4: 32, 6: 128 }

function parseUrl (text: string): URL | undefined {
  // The URL parser strips white space and turns back-slashes; a setting must say what it means.
  if (/[\s\\]/.test(text)) return undefined
  return URL.canParse(text) ? new URL(text) : undefined
}

/** `localhost`, 127.0.0.0/8 and ::1: hosts whose traffic does not leave the machine. */
export function isLoopbackHost (hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
}

/** True for a domain such as `https://tenant.example`: the one bad value that does not stop the start. */
export function hasScheme (domain: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(domain)
}

function isDomain (text: string): boolean {
  if (hasScheme(text)) return true
  if (/[/?#@]/.test(text) || text.endsWith(':')) return false
  const url = parseUrl(`https://${text}/`)
  return url !== undefined && url.port !== '0'
}

function isProviderUrl (text: string): boolean {
  const url = parseUrl(text)
  if (!url || url.username || url.password || text.includes('#')) return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopbackHost(url.hostname))
}

function isIssuerUrl (text: string): boolean {
  return isProviderUrl(text) && !text.includes('?')
}

function isReplayStore (text: string): boolean {
  if (text === 'memory' || text === 'off') return true
  return /^rediss?:\/\/[^\s]+$/.test(text)
}

function isTrustedPeer (text: string): boolean {
  if (['true', 'false', 'loopback', 'linklocal', 'uniquelocal'].includes(text)) return true
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= CIDR_BITS[family]!)
}

function isPublicUrl (text: string): boolean {
  const url = parseUrl(text)
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || /[?#]/.test(text)) return false
  const path = text.slice(text.indexOf('//') + 2).replace(/^[^/]*/, '')
  return !/\/\/|%2e|%2f|(^|\/)\.{1,2}(\/|$)/i.test(path)
}

function isOrigin (text: string): boolean {
  const url = parseUrl(text)
  return text === '*' || (url !== undefined && /^https?:$/.test(url.protocol) && url.origin === text.toLowerCase())
}

function isProxyUrl (text: string): boolean {
  // As everywhere, a proxy without a scheme is spoken to over http.
  return /^https?:$/.test(parseUrl(text.includes('://') ? text : `http://${text}`)?.protocol ?? '')
}

function isNonceSecret (text: string): boolean {
  return /^[A-Za-z0-9_-]+={0,2}$/.test(text) && Buffer.from(text, 'base64url').length >= MIN_SECRET_BYTES
}

function isNamespacedClaim (text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\S+$/i.test(text)
}

export const FORMATS = {
  domain: isDomain,
  'issuer-url': isIssuerUrl,
  'provider-url': isProviderUrl,
  'namespaced-claim': isNamespacedClaim,
  'replay-store': isReplayStore,
  'nonce-secret': isNonceSecret,
  'trusted-peer': isTrustedPeer,
  'public-url': isPublicUrl,
  'proxy-url': isProxyUrl,
  origin: isOrigin
} as const

export type FormatName = keyof typeof FORMATS
