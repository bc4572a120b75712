import { hash } from 'node:crypto'
import { linesOf, type ReceivedRequest } from '../message.ts'
import { Refusal } from '../../refusal.ts'
import { decodeEscapes } from '../url/http-url.ts'
import { lastElement } from '../url/last-element.ts'

/**
 * Where the certificate of a client is found. `socket`: TLS ends in this process. The others name the header in which a
 * proxy passes it on: `client-cert` (RFC 9440), `nginx` (`X-SSL-Client-Cert` with `$ssl_client_escaped_cert`), `xfcc`
 * (Envoy's `X-Forwarded-Client-Cert`), `alb` (AWS: `X-Amzn-Mtls-Clientcert-Leaf` if the balancer verifies,
 * `X-Amzn-Mtls-Clientcert` with the chain if it passes it through), `traefik` (`X-Forwarded-Tls-Client-Cert` of
 * PassTLSClientCert).
 */
export const CERTIFICATE_SOURCES = ['off', 'socket', 'client-cert', 'nginx', 'xfcc', 'alb', 'traefik'] as const

export type CertificateSource = (typeof CERTIFICATE_SOURCES)[number]

/**
 * Finds the certificate that the client of a request holds, and returns its thumbprint: the base64url SHA-256 of its
 * DER form (RFC 8705 section 3.1). The hash alone ties it to a token, so the certificate is not parsed and its chain is
 * not checked.
 * @throws Refusal certificate_missing, certificate_unreadable
 */
export type CertificateReader = (received: ReceivedRequest) => string

interface CertificateReaderOptions {
  readonly source: CertificateSource
  /** Whether the headers of a peer count. */
  readonly isTrustedPeer: (remoteAddress: string | undefined) => boolean
}

/** The headers of each form, and how a value gives a thumbprint, or undefined if it cannot be read. */
const HEADERS: Readonly<
  Record<
    CertificateSource,
    ReadonlyArray<{ readonly name: string, readonly thumbprint: (value: string) => string | undefined }>
  >
> = {
  off: [],
  socket: [],
  'client-cert': [{ name: 'client-cert', thumbprint: value => thumbprintOf(byteSequence(value)) }],
  nginx: [{ name: 'x-ssl-client-cert', thumbprint: value => thumbprintOf(pemBody(decodeEscapes(value))) }],
  xfcc: [{ name: 'x-forwarded-client-cert', thumbprint: forwardedThumbprint }],
  alb: [
    { name: 'x-amzn-mtls-clientcert-leaf', thumbprint: value => thumbprintOf(pemBody(decodeEscapes(value))) },
    { name: 'x-amzn-mtls-clientcert', thumbprint: value => thumbprintOf(leafOfPem(decodeEscapes(value))) }
  ],
  traefik: [{
    name: 'x-forwarded-tls-client-cert',
    thumbprint: value => thumbprintOf(leafOfList(decodeEscapes(value)))
  }]
}

/** The headers, in lower case, that a source reads. Empty if it reads none. */
export function certificateHeaders (source: CertificateSource): readonly string[] {
  return HEADERS[source].map(({ name }) => name)
}

export function createCertificateReader ({ source, isTrustedPeer }: CertificateReaderOptions): CertificateReader {
  // TLS has made sure that the client holds the private key.
  if (source === 'socket') return ({ socket }) => thumbprintOf(socket.getPeerX509Certificate?.()?.raw) ?? missing()
  const headers = HEADERS[source]
  return received => {
    // Any client can send the header. It counts only from a trusted proxy.
    if (!isTrustedPeer(received.socket.remoteAddress)) return missing()
    let found: string | undefined
    for (const { name, thumbprint } of headers) {
      const values = linesOf(received.rawHeaders, name)
      if (values.length < 2 && !values[0]) continue
      // Of two lines, or of two headers that disagree, one may be the client's own.
      const read = values.length === 1 ? thumbprint(values[0]!) : undefined
      if (read === undefined || (found !== undefined && found !== read)) throw new Refusal('certificate_unreadable')
      found = read
    }
    return found ?? missing()
  }
}

function missing (): never {
  throw new Refusal('certificate_missing')
}

function thumbprintOf (der: Buffer | undefined): string | undefined {
  return der && hash('sha256', der, 'base64url')
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * A byte sequence of RFC 8941 section 3.3.5: base64 between colons. Parameters are not defined for it (RFC 9440 section
 * 2.1).
 */
function byteSequence (value: string): Buffer | undefined {
  const text = value.startsWith(':') && value.endsWith(':') ? value.slice(1, -1) : ''
  return BASE64.test(text) ? Buffer.from(text, 'base64') : undefined
}

const PEM = /^-----BEGIN CERTIFICATE-----\s([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*$/

/**
 * The DER form of the one certificate in a PEM text (RFC 7468 section 5). Undefined for any other text, also for two
 * certificates.
 */
function pemBody (text: string | undefined): Buffer | undefined {
  const base64 = text === undefined ? undefined : PEM.exec(text)?.[1]?.replace(/\s/g, '')
  return base64 !== undefined && BASE64.test(base64) ? Buffer.from(base64, 'base64') : undefined
}

const PEM_CHAIN = /^(?:-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)+$/
const END = '-----END CERTIFICATE-----'

/**
 * The DER form of the first certificate in a PEM text that holds a chain and nothing else: that of the client comes
 * first.
 */
function leafOfPem (text: string | undefined): Buffer | undefined {
  return text === undefined || !PEM_CHAIN.test(text)
    ? undefined
    : pemBody(text.slice(0, text.indexOf(END) + END.length))
}

/**
 * The DER form of the first of several certificates in base64 with commas between them. Before version 3 they were
 * escaped, too.
 */
function leafOfList (text: string | undefined): Buffer | undefined {
  const certificates = text?.split(',') ?? []
  return certificates.length > 0 && certificates.every(base64 => BASE64.test(base64))
    ? Buffer.from(certificates[0]!, 'base64')
    : undefined
}

// One key and its value: a quoted text with escapes, or a text without any of the separators.
const PAIR = /([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;\\]*))(;|,|$)/gy

/**
 * Reads Envoy's `X-Forwarded-Client-Cert`, of which only the last element is of our own proxy. `Hash` decides. A `Cert`
 * beside it must be the certificate of that hash. Other keys may be repeated, but a second one of these two would leave
 * open which one counts.
 */
function forwardedThumbprint (value: string): string | undefined {
  const element = lastElement(value, PAIR, key => key === 'hash' || key === 'cert')
  const hex = element?.get('hash')
  const cert = element?.get('cert')
  if (hex === undefined || !/^[0-9a-f]{64}$/i.test(hex)) return undefined
  const thumbprint = Buffer.from(hex, 'hex').toString('base64url')
  return cert === undefined || thumbprintOf(pemBody(decodeEscapes(cert))) === thumbprint ? thumbprint : undefined
}
