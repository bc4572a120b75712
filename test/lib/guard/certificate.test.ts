import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createCertificateReader, type CertificateSource } from '../../../lib/guard/certificate/client-certificate.ts'
import type { ReceivedRequest } from '../../../lib/guard/message.ts'
import { Refusal } from '../../../lib/refusal.ts'

const pemOf = (name: string): string =>
  readFileSync(join(import.meta.dirname, '../../fixtures', `${name}.cert.pem`), 'utf8')
const certificates = { a: new X509Certificate(pemOf('client-a')), b: new X509Certificate(pemOf('client-b')) }
const thumbprint = ({ fingerprint256 }: X509Certificate): string =>
  Buffer.from(hexOf(fingerprint256), 'hex').toString('base64url')
const hexOf = (fingerprint: string): string => fingerprint.replaceAll(':', '').toLowerCase()

const A = thumbprint(certificates.a)
const pem = pemOf('client-a')
const base64 = certificates.a.raw.toString('base64')
const hex = hexOf(certificates.a.fingerprint256)
const otherHex = hexOf(certificates.b.fingerprint256)
const escaped = encodeURIComponent(pem)
/** As AWS documents it: percent-encoded, with `+=/` as safe characters. */
const albEscaped = (text: string): string => encodeURIComponent(text).replace(/%2B|%3D|%2F/g, decodeURIComponent)

const TRUSTED = '10.0.0.1'

function read (
  source: CertificateSource,
  rawHeaders: readonly string[],
  socket: object = { remoteAddress: TRUSTED }
): string {
  const reader = createCertificateReader({ source, isTrustedPeer: address => address === TRUSTED })
  try {
    return reader({ rawHeaders: [...rawHeaders], headers: {}, method: 'GET', url: '/', socket } as ReceivedRequest)
  } catch (error) {
    if (error instanceof Refusal) return error.reason
    throw error
  }
}

t.test('Nothing is read while certificates are off', async t => {
  t.equal(read('off', ['Client-Cert', `:${base64}:`]), 'token_binding_unusable')
})

t.test('Each header gives the thumbprint of its certificate, or the reason why it gives none', async t => {
  const forms: ReadonlyArray<
    { title: string, source: CertificateSource, header: string, value: string, result: string }
  > = [
    {
      title: 'RFC 9440: a byte sequence',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `:${base64}:`,
      result: A
    },
    {
      title: 'RFC 9440: without colons',
      source: 'client-cert',
      header: 'Client-Cert',
      value: base64,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: without the first colon',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `A${base64}:`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: without the last colon',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `:${base64}A`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: a space before the base64',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `: ${base64}:`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: a space after the base64',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `:${base64} :`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: one colon',
      source: 'client-cert',
      header: 'Client-Cert',
      value: ':',
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: a string',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `"${base64}"`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: with a parameter',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `:${base64}:;a=1`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: a list',
      source: 'client-cert',
      header: 'Client-Cert',
      value: `:${base64}:, :${base64}:`,
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: nothing between the colons',
      source: 'client-cert',
      header: 'Client-Cert',
      value: '::',
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: base64url',
      source: 'client-cert',
      header: 'Client-Cert',
      value: ':a-_a:',
      result: 'certificate_unreadable'
    },
    {
      title: 'RFC 9440: an empty line',
      source: 'client-cert',
      header: 'Client-Cert',
      value: '',
      result: 'certificate_missing'
    },
    {
      title: 'RFC 9440: in the form of nginx',
      source: 'client-cert',
      header: 'Client-Cert',
      value: escaped,
      result: 'certificate_unreadable'
    },

    { title: 'nginx: escaped PEM', source: 'nginx', header: 'X-SSL-Client-Cert', value: escaped, result: A },
    {
      title: 'nginx: escaped PEM without its last line break',
      source: 'nginx',
      header: 'x-ssl-client-cert',
      value: encodeURIComponent(pem.trim()),
      result: A
    },
    {
      title: 'nginx: two certificates',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: escaped + escaped,
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: a text after the certificate',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: `${escaped}x`,
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: padding before the base64',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: encodeURIComponent('-----BEGIN CERTIFICATE-----\n=AAAA\n-----END CERTIFICATE-----'),
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: a text before the certificate',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: `x${escaped}`,
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: a broken escape',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: `${escaped}%`,
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: padding in the middle',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: encodeURIComponent('-----BEGIN CERTIFICATE-----\nAA=A\n-----END CERTIFICATE-----'),
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: only white space',
      source: 'nginx',
      header: 'X-SSL-Client-Cert',
      value: encodeURIComponent('-----BEGIN CERTIFICATE-----\n \n-----END CERTIFICATE-----'),
      result: 'certificate_unreadable'
    },
    {
      title: 'nginx: the header of another form',
      source: 'nginx',
      header: 'Client-Cert',
      value: escaped,
      result: 'certificate_missing'
    },
    {
      title: 'nginx: a name with underscores',
      source: 'nginx',
      header: 'X_SSL_Client_Cert',
      value: escaped,
      result: 'certificate_missing'
    },

    {
      title: 'ALB that verifies: the leaf, with +=/ as they are',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert-Leaf',
      value: albEscaped(pem),
      result: A
    },
    {
      title: 'ALB that verifies: two certificates',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert-Leaf',
      value: albEscaped(pem + pem),
      result: 'certificate_unreadable'
    },
    {
      title: 'ALB that passes through: one certificate',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert',
      value: albEscaped(pem),
      result: A
    },
    {
      title: 'ALB that passes through: the chain, leaf first',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert',
      value: albEscaped(pem + pemOf('client-b')),
      result: A
    },
    {
      title: 'ALB: a text after the chain',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert',
      value: `${albEscaped(pem)}x`,
      result: 'certificate_unreadable'
    },
    {
      title: 'ALB: a text in the chain',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert',
      value: albEscaped(`${pem}x${pem}`),
      result: 'certificate_unreadable'
    },
    {
      title: 'ALB: a broken escape',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert',
      value: '%',
      result: 'certificate_unreadable'
    },
    {
      title: 'ALB: an empty line',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert',
      value: '',
      result: 'certificate_missing'
    },
    {
      title: 'ALB: only the serial number',
      source: 'alb',
      header: 'X-Amzn-Mtls-Clientcert-Serial-Number',
      value: '01',
      result: 'certificate_missing'
    },

    {
      title: 'Traefik: base64 without the lines of PEM',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert',
      value: base64,
      result: A
    },
    {
      title: 'Traefik: the chain, leaf first',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert',
      value: `${base64},${certificates.b.raw.toString('base64')}`,
      result: A
    },
    {
      title: 'Traefik before 3: escaped',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert',
      value: encodeURIComponent(base64),
      result: A
    },
    {
      title: 'Traefik: nothing after the comma',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert',
      value: `${base64},`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Traefik: PEM',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert',
      value: escaped,
      result: 'certificate_unreadable'
    },
    {
      title: 'Traefik: a broken escape',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert',
      value: '%',
      result: 'certificate_unreadable'
    },
    {
      title: 'Traefik: only the info',
      source: 'traefik',
      header: 'X-Forwarded-Tls-Client-Cert-Info',
      value: 'Subject%3D%22CN%3Dx%22',
      result: 'certificate_missing'
    },

    {
      title: 'Envoy: a hash',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `By=spiffe://a;Hash=${hex};Subject="";URI=spiffe://b`,
      result: A
    },
    {
      title: 'Envoy: hash and certificate',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};Cert="${escaped}"`,
      result: A
    },
    {
      title: 'Envoy: names and digits in another case',
      source: 'xfcc',
      header: 'x-forwarded-client-cert',
      value: `hash=${hex.toUpperCase()};CERT=${escaped}`,
      result: A
    },
    {
      title: 'Envoy: the last of two elements',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${otherHex};DNS=x,By=spiffe://a;Hash=${hex}`,
      result: A
    },
    {
      title: 'Envoy: a comma, a semicolon and an escaped quote inside quotes',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};Subject="CN=\\"x\\",O=y;Hash=${otherHex}"`,
      result: A
    },
    {
      title: 'Envoy: several names of the certificate',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};DNS=a;DNS=b`,
      result: A
    },
    {
      title: 'Envoy: the hash only in an element before the last',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex},By=spiffe://a`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: a certificate and no hash',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Cert="${escaped}"`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: hash and certificate that differ',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${otherHex};Cert="${escaped}"`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: hash and a certificate that cannot be read',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};Cert="%"`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: two hashes',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${otherHex};Hash=${hex}`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: two certificates',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};Cert="x";Cert="${escaped}"`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: a long hash',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=00${hex}`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: a hash with more behind it',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex}00`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: a short hash',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex.slice(2)}`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: an open quote that would hide what the proxy appends',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};URI=",Hash=${otherHex}`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: an open quote that a quote of the proxy closes',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};URI=",Hash=${otherHex};Subject="CN=x"`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: a semicolon at the end',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex};`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: a comma at the end',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: `Hash=${hex},`,
      result: 'certificate_unreadable'
    },
    {
      title: 'Envoy: no pair',
      source: 'xfcc',
      header: 'X-Forwarded-Client-Cert',
      value: hex,
      result: 'certificate_unreadable'
    }
  ]
  for (const { title, source, header, value, result } of forms) {
    t.equal(read(source, ['Host', 'x', header, value]), result, title)
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
  const chain = (name: string): string => albEscaped(pemOf(name) + pem)
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
