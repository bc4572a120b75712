import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createCertificateReader, type CertificateSource } from '../../../lib/guard/certificate/client-certificate.ts'
import type { ReceivedRequest } from '../../../lib/guard/message.ts'
import { Refusal } from '../../../lib/refusal.ts'

const pemOf = (name: string) =>
  readFileSync(join(import.meta.dirname, '../../fixtures', `${name}.cert.pem`), 'utf8')
const certificates = { a: new X509Certificate(pemOf('client-a')), b: new X509Certificate(pemOf('client-b')) }
const thumbprint = ({ fingerprint256 }: X509Certificate) =>
  Buffer.from(hexOf(fingerprint256), 'hex').toString('base64url')
const hexOf = (fingerprint: string) => fingerprint.replaceAll(':', '').toLowerCase()

const A = thumbprint(certificates.a)
const pem = pemOf('client-a')
const base64 = certificates.a.raw.toString('base64')
const hex = hexOf(certificates.a.fingerprint256)
const otherHex = hexOf(certificates.b.fingerprint256)
const escaped = encodeURIComponent(pem)
/** As AWS documents it: percent-encoded, with `+=/` as safe characters. */
const albEscaped = (text: string) => encodeURIComponent(text).replace(/%2B|%3D|%2F/g, decodeURIComponent)

const TRUSTED = '10.0.0.1'

function read (
  source: CertificateSource,
  rawHeaders: readonly string[],
  socket: object = { remoteAddress: TRUSTED }
) {
  const reader = createCertificateReader({ source, isTrustedPeer: address => address === TRUSTED })
  try {
    return reader({ rawHeaders: [...rawHeaders], headers: {}, method: 'GET', url: '/', socket } as ReceivedRequest)
  } catch (error) {
    if (error instanceof Refusal) return error.reason
    throw error
  }
}

t.test('Nothing is read while certificates are off', async t => {
  t.equal(read('off', ['Client-Cert', `:${base64}:`]), 'certificate_missing')
})

t.test('Each header gives the thumbprint of its certificate, or the reason why it gives none', async t => {
  /** By source, header and result: a title, and the value of the header. */
  const forms: Partial<Record<CertificateSource, Record<string, Record<string, Record<string, string>>>>> = {
    'client-cert': {
      'Client-Cert': {
        [A]: { 'RFC 9440: a byte sequence': `:${base64}:` },
        certificate_unreadable: {
          'RFC 9440: without colons': base64,
          'RFC 9440: without the first colon': `A${base64}:`,
          'RFC 9440: without the last colon': `:${base64}A`,
          'RFC 9440: a space before the base64': `: ${base64}:`,
          'RFC 9440: a space after the base64': `:${base64} :`,
          'RFC 9440: one colon': ':',
          'RFC 9440: a string': `"${base64}"`,
          'RFC 9440: with a parameter': `:${base64}:;a=1`,
          'RFC 9440: a list': `:${base64}:, :${base64}:`,
          'RFC 9440: nothing between the colons': '::',
          'RFC 9440: base64url': ':a-_a:',
          'RFC 9440: in the form of nginx': escaped
        },
        certificate_missing: { 'RFC 9440: an empty line': '' }
      }
    },
    nginx: {
      'X-SSL-Client-Cert': {
        [A]: { 'nginx: escaped PEM': escaped },
        certificate_unreadable: {
          'nginx: two certificates': escaped + escaped,
          'nginx: a text after the certificate': `${escaped}x`,
          'nginx: padding before the base64': encodeURIComponent('-----BEGIN CERTIFICATE-----\n=AAAA\n-----END CERTIFICATE-----'),
          'nginx: a text before the certificate': `x${escaped}`,
          'nginx: a broken escape': `${escaped}%`,
          'nginx: padding in the middle': encodeURIComponent('-----BEGIN CERTIFICATE-----\nAA=A\n-----END CERTIFICATE-----'),
          'nginx: only white space': encodeURIComponent('-----BEGIN CERTIFICATE-----\n \n-----END CERTIFICATE-----')
        }
      },
      'x-ssl-client-cert': { [A]: { 'nginx: escaped PEM without its last line break': encodeURIComponent(pem.trim()) } },
      'Client-Cert': { certificate_missing: { 'nginx: the header of another form': escaped } },
      X_SSL_Client_Cert: { certificate_missing: { 'nginx: a name with underscores': escaped } }
    },
    alb: {
      'X-Amzn-Mtls-Clientcert-Leaf': {
        [A]: { 'ALB that verifies: the leaf, with +=/ as they are': albEscaped(pem) },
        certificate_unreadable: { 'ALB that verifies: two certificates': albEscaped(pem + pem) }
      },
      'X-Amzn-Mtls-Clientcert': {
        [A]: {
          'ALB that passes through: one certificate': albEscaped(pem),
          'ALB that passes through: the chain, leaf first': albEscaped(pem + pemOf('client-b'))
        },
        certificate_unreadable: {
          'ALB: a text after the chain': `${albEscaped(pem)}x`,
          'ALB: a text in the chain': albEscaped(`${pem}x${pem}`),
          'ALB: a broken escape': '%'
        },
        certificate_missing: { 'ALB: an empty line': '' }
      },
      'X-Amzn-Mtls-Clientcert-Serial-Number': { certificate_missing: { 'ALB: only the serial number': '01' } }
    },
    traefik: {
      'X-Forwarded-Tls-Client-Cert': {
        [A]: {
          'Traefik: base64 without the lines of PEM': base64,
          'Traefik: the chain, leaf first': `${base64},${certificates.b.raw.toString('base64')}`,
          'Traefik before 3: escaped': encodeURIComponent(base64)
        },
        certificate_unreadable: {
          'Traefik: nothing after the comma': `${base64},`,
          'Traefik: PEM': escaped,
          'Traefik: a broken escape': '%'
        }
      },
      'X-Forwarded-Tls-Client-Cert-Info': { certificate_missing: { 'Traefik: only the info': 'Subject%3D%22CN%3Dx%22' } }
    },
    xfcc: {
      'X-Forwarded-Client-Cert': {
        [A]: {
          'Envoy: a hash': `By=spiffe://a;Hash=${hex};Subject="";URI=spiffe://b`,
          'Envoy: hash and certificate': `Hash=${hex};Cert="${escaped}"`,
          'Envoy: the last of two elements': `Hash=${otherHex};DNS=x,By=spiffe://a;Hash=${hex}`,
          'Envoy: a comma, a semicolon and an escaped quote inside quotes': `Hash=${hex};Subject="CN=\\"x\\",O=y;Hash=${otherHex}"`,
          'Envoy: several names of the certificate': `Hash=${hex};DNS=a;DNS=b`
        },
        certificate_unreadable: {
          'Envoy: the hash only in an element before the last': `Hash=${hex},By=spiffe://a`,
          'Envoy: a certificate and no hash': `Cert="${escaped}"`,
          'Envoy: hash and certificate that differ': `Hash=${otherHex};Cert="${escaped}"`,
          'Envoy: hash and a certificate that cannot be read': `Hash=${hex};Cert="%"`,
          'Envoy: two hashes': `Hash=${otherHex};Hash=${hex}`,
          'Envoy: two certificates': `Hash=${hex};Cert="x";Cert="${escaped}"`,
          'Envoy: a long hash': `Hash=00${hex}`,
          'Envoy: a hash with more behind it': `Hash=${hex}00`,
          'Envoy: a short hash': `Hash=${hex.slice(2)}`,
          'Envoy: an open quote that would hide what the proxy appends': `Hash=${hex};URI=",Hash=${otherHex}`,
          'Envoy: an open quote that a quote of the proxy closes': `Hash=${hex};URI=",Hash=${otherHex};Subject="CN=x"`,
          'Envoy: a semicolon at the end': `Hash=${hex};`,
          'Envoy: a comma at the end': `Hash=${hex},`,
          'Envoy: no pair': hex
        }
      },
      'x-forwarded-client-cert': { [A]: { 'Envoy: names and digits in another case': `hash=${hex.toUpperCase()};CERT=${escaped}` } }
    }
  }
  for (const [source, headers] of Object.entries(forms)) {
    for (const [header, results] of Object.entries(headers)) {
      for (const [result, rows] of Object.entries(results)) {
        for (const [title, value] of Object.entries(rows)) {
          t.equal(read(source as CertificateSource, ['Host', 'x', header, value]), result, title)
        }
      }
    }
  }
})

t.test(
  'A header as a proxy really sent it, or as its documentation shows it, gives the thumbprint of the certificate ' +
    'in it',
  async t => {
    const headers: ReadonlyArray<
      { proxy: string, source: CertificateSource, header: string, certificate: string, value: string }
    > = JSON.parse(readFileSync(join(import.meta.dirname, '../../fixtures', 'certificate-headers.json'), 'utf8'))
    for (const { proxy, source, header, certificate, value } of headers) {
      t.equal(read(source, [header, value]), thumbprint(new X509Certificate(pemOf(certificate))), proxy)
      t.equal(
        read(source, [header, value.slice(0, -1) + '-']),
        'certificate_unreadable',
        `${proxy}: with another last byte`
      )
    }
    t.strictSame(new Set(headers.map(({ source }) => source)), new Set(['alb', 'traefik']))
  }
)

t.test('A header is accepted only from a trusted peer, and only once', async t => {
  for (
    const [source, header, value] of [
      ['client-cert', 'Client-Cert', `:${base64}:`],
      ['nginx', 'X-SSL-Client-Cert', escaped],
      ['xfcc', 'X-Forwarded-Client-Cert', `Hash=${hex}`],
      ['alb', 'X-Amzn-Mtls-Clientcert-Leaf', albEscaped(pem)],
      ['alb', 'X-Amzn-Mtls-Clientcert', albEscaped(pem)],
      ['traefik', 'X-Forwarded-Tls-Client-Cert', base64]
    ] as const
  ) {
    t.equal(read(source, [header, value]), A)
    t.equal(read(source, [header, value], { remoteAddress: '10.0.0.2' }), 'certificate_missing', 'another peer')
    t.equal(read(source, [header, value, header.toLowerCase(), value]), 'certificate_unreadable', 'two lines')
    t.equal(read(source, [header, '', header, value]), 'certificate_unreadable', 'an empty line before it')
    t.equal(read(source, [header, '']), 'certificate_missing', 'an empty line')
    t.equal(read(source, []), 'certificate_missing', 'no line')
  }
})

t.test('Where both headers of ALB are there, they count only if they agree', async t => {
  const leaf = albEscaped(pem)
  const chain = (name: string) => albEscaped(pemOf(name) + pem)
  t.equal(read('alb', ['X-Amzn-Mtls-Clientcert-Leaf', leaf, 'X-Amzn-Mtls-Clientcert', chain('client-a')]), A)
  t.equal(
    read('alb', ['X-Amzn-Mtls-Clientcert-Leaf', leaf, 'X-Amzn-Mtls-Clientcert', chain('client-b')]),
    'certificate_unreadable'
  )
  t.equal(read('alb', ['X-Amzn-Mtls-Clientcert-Leaf', leaf, 'X-Amzn-Mtls-Clientcert', 'x']), 'certificate_unreadable')
  t.equal(
    read('alb', ['X-Amzn-Mtls-Clientcert-Leaf', '', 'X-Amzn-Mtls-Clientcert', chain('client-b')]),
    thumbprint(certificates.b)
  )
})

t.test('A socket gives the certificate with which the client connected', async t => {
  t.equal(read('socket', [], { getPeerX509Certificate: () => certificates.a }), A)
  t.equal(
    read('socket', [], { getPeerX509Certificate: () => undefined }),
    'certificate_missing',
    'a client without a certificate'
  )
  t.equal(
    read('socket', ['Client-Cert', `:${base64}:`], { remoteAddress: TRUSTED }),
    'certificate_missing',
    'without TLS, and headers do not count'
  )
})
