import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { LightMyRequestResponse } from 'fastify'
import type { InjectableApp, InjectedRequest } from './testing-client.ts'

/**
 * The headers of a request whose certificate a proxy passes on, in each form: RFC 9440, nginx, Envoy. An app reads at
 * most one.
 */
export type CertificateHeaders = {
  /** The token, with the scheme Bearer. */
  readonly authorization: string,
  /** The certificate by RFC 9440. */
  readonly 'client-cert': string,
  /** The certificate as nginx passes it on. */
  readonly 'x-ssl-client-cert': string,
  /** The certificate as Envoy passes it on. */
  readonly 'x-forwarded-client-cert': string
}

/** A client that holds a certificate, and a token that is bound to it (RFC 8705). */
export interface CertificateClient {
  /** The access token, bound to the certificate. */
  readonly token: string
  /** The certificate, in PEM. */
  readonly certificate: string
  /**
   * Headers for one request, as a proxy that ends TLS passes it on.
   * @example const headers = certified.headers()
   */
  headers (): CertificateHeaders
  /**
   * Sends a request with the token and the certificate.
   * @example const { statusCode } = await certified.inject(app, '/orders') // 200
   */
  inject (app: InjectableApp, request: InjectedRequest): Promise<LightMyRequestResponse>
  /**
   * Sends a request with this client's token and another certificate, as a thief of the token would.
   * @example const { statusCode } = await certified.stolen(app, '/orders') // 401
   */
  stolen (app: InjectableApp, request: InjectedRequest): Promise<LightMyRequestResponse>
}

/** @param tokenFor makes a token that is bound to a certificate, by its SHA-256 thumbprint */
export function createCertificateClient (tokenFor: (thumbprint: string) => string): CertificateClient {
  const der = makeCertificate()
  const token = tokenFor(createHash('sha256').update(der).digest('base64url'))
  const send = (app: InjectableApp, request: InjectedRequest, held: Buffer) => {
    const options = typeof request === 'string' ? { url: request } : request
    return app.inject({ ...options, headers: { ...options.headers, ...headersOf(token, held) } })
  }
  return {
    token,
    certificate: pemOf(der),
    headers: () => headersOf(token, der),
    inject: (app, request) => send(app, request, der),
    stolen: (app, request) => send(app, request, makeCertificate())
  }
}

function headersOf (token: string, der: Buffer): CertificateHeaders {
  return {
    authorization: `Bearer ${token}`,
    'client-cert': `:${der.toString('base64')}:`,
    'x-ssl-client-cert': encodeURIComponent(pemOf(der)),
    'x-forwarded-client-cert': `Hash=${createHash('sha256').update(der).digest('hex')}`
  }
}

const pemOf = (der: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`

const [INTEGER, BIT_STRING, OBJECT_ID, UTF8, UTC_TIME, SEQUENCE, SET, VERSION] = [
  0x02,
  0x03,
  0x06,
  0x0c,
  0x17,
  0x30,
  0x31,
  0xa0
] as const

/** A self-signed certificate of a fresh key (RFC 5280 section 4.1). */
function makeCertificate (): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const algorithm = node(SEQUENCE, node(OBJECT_ID, Buffer.from('2b6570', 'hex')))
  const commonName = node(
    SEQUENCE,
    node(OBJECT_ID, Buffer.from('550403', 'hex')),
    node(UTF8, Buffer.from('test client'))
  )
  const name = node(SEQUENCE, node(SET, commonName))
  const serial = Buffer.concat([Buffer.from([1]), randomBytes(15)])
  const validity = node(
    SEQUENCE,
    node(UTC_TIME, Buffer.from('200101000000Z')),
    node(UTC_TIME, Buffer.from('491231235959Z'))
  )
  const body = node(
    SEQUENCE,
    node(VERSION, node(INTEGER, Buffer.from([2]))),
    node(INTEGER, serial),
    algorithm,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' })
  )
  return node(
    SEQUENCE,
    body,
    algorithm,
    node(BIT_STRING, Buffer.concat([Buffer.from([0]), sign(null, body, privateKey)]))
  )
}

/** A value of ASN.1 in DER, shorter than 64 KiB. */
function node (tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
