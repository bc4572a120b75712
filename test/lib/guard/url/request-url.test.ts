import t from 'tap'
import { Refusal } from '../../../../lib/refusal.ts'
import {
  createBaseUrlResolver,
  createPeerTrust,
  memoize,
  parsePublicUrl,
  type UrlSettings
} from '../../../../lib/guard/url/base-url.ts'
import { createRequestUrlResolver, hostlessUrl, joinRequestUrl } from '../../../../lib/guard/url/request-url.ts'
import type { Message } from '../../../../lib/guard/message.ts'

type Headers = Record<string, string>
type Texts = Array<string | undefined>

const PLAIN: UrlSettings = { trustProxy: false, publicUrl: undefined }
const TRUSTING: UrlSettings = { trustProxy: ['127.0.0.1'], publicUrl: undefined }

/** A request as it comes in; what the row does not name is plain and accepted. */
function wireOf (part: Partial<Message> = {}) {
  return {
    target: '/api',
    headers: {},
    host: 'inner:8000',
    hostCount: 1,
    encrypted: false,
    remoteAddress: '127.0.0.1',
    ...part
  } as Message
}

/** The URL, or the reason of the refusal and its detail's word. */
function outcome (settings: UrlSettings, part: Partial<Message>) {
  try {
    return createRequestUrlResolver(settings)(wireOf(part)).href
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return [error.reason, ...Object.values(error.detail ?? {})].join(' ')
  }
}

/** By what the request to /api is: values of Host. */
const hosts: Record<string, Texts> = {
  'http://api.example/api': ['api.example', 'API.Example', 'api.example:80', 'api.example:', '%61pi.example'],
  'http://api.example:8000/api': ['api.example:8000'],
  'http://api.example:443/api': ['api.example:443'],
  'http://api.example./api': ['api.example.'],
  'http://localhost:65535/api': ['localhost:65535'],
  'http://localhost:1/api': ['localhost:1'],
  'http://my_service/api': ['my_service'],
  'http://127.0.0.1:8000/api': ['127.0.0.1:8000'],
  'http://[::1]/api': ['[::1]', '[0:0:0:0:0:0:0:1]:80'],
  'http://[::1]:8000/api': ['[::1]:8000'],
  'http://[2001:db8::1]/api': ['[2001:DB8:0:0::1]'],
  'http://xn--bcher-kva.example/api': ['xn--bcher-kva.example', Buffer.from('bücher.example').toString('latin1')],
  'host_invalid host': [
    undefined, '', 'api?', 'api/test?', 'api/', 'api#f', 'a?b#c d', 'user@api', 'api\\x', 'api x', ' api', 'api\tx',
    'api\u0000', 'api\u007f', 'api,evil', 'api, evil', 'api%2fx', 'api%3fx', 'api%', 'b\u00fccher.example', 'api:0',
    'api:65536', 'api:99999', 'api:123456', 'api:-1', 'api:80a', 'api:80:80', ':80', '::1', '[::1', '[::1]x',
    '[::1%eth0]', '[127.0.0.1]', '[v7.x]', 'http://api', '<script>', 'a'.repeat(256), 'a'.repeat(8192)
  ],
  [`http://${'a'.repeat(255)}/api`]: ['a'.repeat(255)]
}

t.test('The Host header is used if nothing else is set, and it must be a host with an optional port', async t => {
  for (const [expected, values] of Object.entries(hosts)) {
    for (const host of values) t.equal(outcome(PLAIN, { host }), expected, JSON.stringify(host?.slice(0, 60)))
  }
  t.equal(outcome(PLAIN, { encrypted: true, host: 'api:443' }), 'https://api/api')
  t.equal(outcome(PLAIN, { encrypted: true, host: 'api:80' }), 'https://api:80/api')
  t.equal(outcome(PLAIN, { hostCount: 1 }), 'http://inner:8000/api')
  t.equal(outcome(PLAIN, { hostCount: 2 }), 'host_repeated')
  t.equal(outcome(TRUSTING, { hostCount: 2, headers: { 'x-forwarded-host': 'api' } }), 'host_repeated')
  t.equal(outcome({ ...PLAIN, publicUrl: 'http://api' }, { hostCount: 2 }), 'host_repeated')
})

/** By path of the URL or refusal: targets of requests. */
const targets: Record<string, string[]> = {
  '/': ['/', '/?', 'http://inner:8000', 'http://inner:8000?/api'],
  '/api': [
    '/api', '/api?', '/api?x=1', '/api?a?b', `/api?${'x'.repeat(12000)}`, '/api?../..\\%zz#\u00e9', '/%61pi',
    'http://inner:8000/api', 'HTTP://INNER:8000/api?x', 'http://inner:8000/%61pi'
  ],
  '/api/': ['/api/'],
  '/API': ['/API'],
  '//': ['//'],
  '//evil.example/x': ['//evil.example/x'],
  '///api': ['///api'],
  '/a//b': ['/a//b', 'http://inner:8000/a//b'],
  '/a%2Fb': ['/a%2fb', '/a%2Fb'],
  '/~user': ['/%7euser'],
  '/a%20b': ['/a%20b'],
  '/a%3F': ['/a%3f'],
  '/a%23': ['/a%23'],
  '/a%5Cb': ['/a%5cb'],
  '/a%25': ['/a%25'],
  '/a%252e': ['/a%252e'],
  '/%C3%A9': ['/%c3%a9'],
  '/%FF': ['/%ff'],
  '/a%00': ['/a%00'],
  '/a:b@c': ['/a:b@c'],
  '/a;v=1': ['/a;v=1'],
  '/a|b{c}^`"<>': ['/a|b{c}^`"<>'],
  '/.well-known/x': ['/.well-known/x'],
  '/a/.b': ['/a/.b'],
  '/a/..b': ['/a/..b'],
  '/a/b..': ['/a/b..'],
  '/a/...': ['/a/...'],
  '/.../a': ['/.../a'],
  '/a.b.c': ['/a.b.c'],
  '/..;/a': ['/..;/a'],
  'target_path dot_segment': [
    '/a/.', '/a/./b', '/./a', '/.', '/..', '/a/..', '/a/../b', '/a/..?x', '/a/%2e', '/a/%2e%2e/b', '/a/%2E%2E/b',
    '/a/.%2e/b', '/a/%2e./b', 'http://inner:8000/./api', 'http://inner:8000/.'
  ],
  'target_path backslash': ['/a\\b', '/a\\..\\b', '/\\evil.example'],
  'target_path fragment': ['/a#b', '/a#?b', 'http://inner:8000#/api'],
  'target_path control_character': ['/a b', '/a\tb', '/a\u0000', '/a\r\nb', '/a\u007f'],
  'target_path non_ascii': ['/\u00c3\u00a9', '/\u00ff'],
  'target_path escape': ['/a%', '/a%2', '/a%zz', '/a%2/b', '/a%u002e'],
  'target_path form': [
    '*', '', 'api', 'inner:8000', '?/api', '\\api', 'ftp://inner:8000/api', 'x/http://inner:8000/api',
    'http:/inner:8000/api'
  ],
  'target_authority host': [
    'http://inner:8000\\/api', 'http://inner/api', 'http://inner:8001/api', 'http://evil:8000/api',
    'http://user@inner:8000/api', 'http://inner:8000@evil/api', 'http:///api', 'http://?/api'
  ],
  'target_authority scheme': ['https://inner:8000/api']
}

t.test('The path of the request target is normalised, and refused if router and proof could read it in two ways', async t => {
  for (const [expected, of] of Object.entries(targets)) {
    const path = expected.startsWith('/') ? `http://inner:8000${expected}` : expected
    for (const target of of) t.equal(outcome(PLAIN, { target }), path, JSON.stringify(target.slice(0, 60)))
  }
})

t.test('An absolute target is compared with Host under its own scheme', async t => {
  t.equal(outcome(PLAIN, { target: 'http://api:80/x', host: 'api' }), 'http://api/x')
  t.equal(outcome(PLAIN, { target: 'http://api/x', host: 'api:80' }), 'http://api/x')
  t.equal(outcome(PLAIN, { target: 'https://api/x', host: 'api:443', encrypted: true }), 'https://api/x')
  t.equal(outcome(PLAIN, { target: 'http://api/x', host: undefined, hostCount: 0 }), 'host_invalid host')
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'pub' }
  t.equal(outcome(TRUSTING, { target: 'https://inner:8000/x', headers }), 'https://pub/x')
  t.equal(outcome(TRUSTING, { target: 'http://inner:8000/x', headers }), 'https://pub/x', 'from a proxy that ends TLS')
  t.equal(
    outcome(TRUSTING, { target: 'https://inner:8000/x', headers: { ...headers, 'x-forwarded-proto': 'http' } }),
    'target_authority scheme'
  )
  t.equal(outcome(TRUSTING, { target: 'https://pub/x', headers }), 'target_authority host')
  t.equal(outcome(TRUSTING, { target: 'https://inner:8000/x', headers, host: 'a?b' }), 'target_authority host')
  const publicUrl = { trustProxy: false, publicUrl: 'https://pub/svc' }
  t.equal(outcome(publicUrl, { target: 'http://inner:8000/x' }), 'https://pub/svc/x')
  t.equal(outcome(publicUrl, { target: 'http://evil/x' }), 'target_authority host')
  t.equal(outcome(publicUrl, { target: 'https://inner:8000/x' }), 'https://pub/svc/x')
  const overHttp = { ...publicUrl, publicUrl: 'http://pub' }
  t.equal(outcome(overHttp, { target: 'https://inner:8000/x' }), 'target_authority scheme')
  t.equal(outcome(overHttp, { target: 'http://inner:8000/x' }), 'http://pub/x')
  t.equal(outcome(publicUrl, { target: 'http://inner:8000/x', host: undefined, hostCount: 0 }), 'target_authority host')
})

/**
 * By URL or refusal: the headers of a request to /api with Host inner:8000 over a plain connection. A text is that of
 * the header that is refused, else of Forwarded.
 */
const forwarded: Record<string, Array<Headers | string>> = {
  'http://inner:8000/api': [
    {},
    { 'x-forwarded-for': 'x?y' },
    { 'x-forwarded-proto': 'http' },
    { 'x-forwarded-proto': 'https,http' },
    { 'x-forwarded-port': '8443' },
    { 'x-forwarded-port': 'rubbish' },
    { 'x-forwarded-prefix': '/' },
    'for="[2001:db8:cafe::17]:4711"'
  ],
  'https://inner:8000/api': [
    { 'x-forwarded-proto': 'https' },
    { 'x-forwarded-proto': 'HTTPS' },
    { 'x-forwarded-proto': ' https ' },
    { 'x-forwarded-proto': 'http, https' },
    { 'x-forwarded-proto': 'javascript, https' },
    { 'x-forwarded-proto': ', https' },
    'proto=https',
    'host="a,b;c", proto=https',
    ', proto=https',
    'proto="https"',
    'proto="\\h\\t\\t\\p\\s"',
    'x="\n\\\n";proto=https',
    'x="a\\"b";proto=https',
    'x=/[]{}()<>@?\\;proto=https',
    'x="";proto=https',
    { forwarded: 'proto=http;host=evil', 'x-forwarded-proto': 'https' },
    ...[..."!#$%&'*+-.^_`|~09AZaz"].map(char => `${char}=x;proto=https`)
  ],
  'forwarded_invalid x-forwarded-proto': [
    '', ' ', 'https,', 'https, javascript', 'javascript', 'httpx', 'wss', 'https://', 'https http', ','.repeat(8192)
  ],
  'http://pub.example/api': [
    { 'x-forwarded-host': 'pub.example' },
    { 'x-forwarded-host': 'evil, pub.example' },
    { 'x-forwarded-host': 'a?b, pub.example' },
    'host="pub\\.example"'
  ],
  'http://pub.example:8443/api': [{ 'x-forwarded-host': 'PUB.example:8443' }, 'host=pub.example:8443'],
  'http://[2001:db8::1]:8443/api': [{ 'x-forwarded-host': '[2001:db8::1]:8443' }, 'host="[2001:db8::1]:8443"'],
  'http://xn--bcher-kva.example/api': [{ 'x-forwarded-host': 'b\u00c3\u00bccher.example' }],
  'https://pub.example/api': [
    { 'x-forwarded-host': 'pub.example', 'x-forwarded-proto': 'https' },
    { 'x-forwarded-host': 'pub.example:443', 'x-forwarded-proto': 'https' },
    'proto=https;host=pub.example',
    'for=192.0.2.60;proto=https;by=203.0.113.43;host=pub.example'
  ],
  'https://pub.example:80/api': [{ 'x-forwarded-host': 'pub.example:80', 'x-forwarded-proto': 'https' }],
  'forwarded_invalid x-forwarded-host': [
    '', 'pub.example,', 'pub.example, ', 'h/test?', 'user@pub.example', 'pub.example#', 'pub example', 'pub\\example',
    'pub.example:0', 'pub.example:x', ','.repeat(8192)
  ],
  'http://pub:8443/api': [
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '8443' },
    { 'x-forwarded-host': 'pub:', 'x-forwarded-port': '8443' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '1, 8443' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': 'x, 8443' },
    { forwarded: 'host=pub', 'x-forwarded-port': '8443' }
  ],
  'http://pub/api': [
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '80' },
    'proto=https;host=evil, for=1.2.3.4;host=pub',
    'proto=https\t,\thost=pub',
    { forwarded: 'proto=https;host=evil', 'x-forwarded-host': 'pub' },
    { forwarded: '"', 'x-forwarded-host': 'pub' },
    'for=[::1]:80, host=pub'
  ],
  'https://pub/api': [
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '443', 'x-forwarded-proto': 'https' },
    'for=_hidden, proto=https;host=pub',
    ' proto=https ; host=pub ',
    'proto=https;;host=pub;',
    '\tproto=https\t;\t host=pub\t',
    'host="pub";proto="https"'
  ],
  'http://[::1]:8443/api': [{ 'x-forwarded-host': '[::1]', 'x-forwarded-port': '8443' }],
  'http://pub:81/api': [
    { 'x-forwarded-host': 'pub:81', 'x-forwarded-port': '8443' },
    { forwarded: 'host=pub:81', 'x-forwarded-port': '8443' }
  ],
  'forwarded_invalid x-forwarded-port': [
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '8443,' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '0' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '65536' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '-1' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '80/x' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '1e3' },
    { 'x-forwarded-host': 'pub', 'x-forwarded-port': '8'.repeat(8192) }
  ],
  'http://inner:8000/svc/api': [{ 'x-forwarded-prefix': '/svc' }, { 'x-forwarded-prefix': '/svc/' }],
  'http://inner:8000/a/b/api': [{ 'x-forwarded-prefix': '/a/b' }, { 'x-forwarded-prefix': '/a, /b' }, { 'x-forwarded-prefix': '/a/,/b/' }],
  'http://inner:8000/a/b/c/d/api': [{ 'x-forwarded-prefix': '/a, /b/c, /d' }],
  'http://inner:8000/a/a/api': [{ 'x-forwarded-prefix': '/a, /a' }],
  "http://inner:8000/A-_.~!$&'()*+;=:@/api": [{ 'x-forwarded-prefix': "/A-_.~!$&'()*+;=:@" }],
  'http://inner:8000/~%C3%A9/api': [{ 'x-forwarded-prefix': '/%7e%c3%a9' }],
  'http://inner:8000/..a/.../api': [{ 'x-forwarded-prefix': '/..a/...' }],
  'forwarded_invalid x-forwarded-prefix': [
    '', 'svc', '//svc', '//', '/svc//', '/a//b', '/.', '/..', '/a/../b', '/a/./b', '/%2e%2e', '/a%2Eb', '/a%2fb',
    '/a%5cb', '/a%00', '/a%7f', '/a%zz', '/a%2', '/a?', '/a#b', '/a\\b', '/a b', '/\u00e9', '\u00a0/a',
    'https://evil.example/', '/a,', ',/a', '/a,,/b', '/a, /..', ','.repeat(8192), ','.repeat(1000),
    Array(17).fill('/a').join(', '), '/' + 'a'.repeat(2048)
  ],
  [`http://inner:8000${'/a'.repeat(16)}/api`]: [{ 'x-forwarded-prefix': Array(16).fill('/a').join(', ') }],
  [`http://inner:8000/${'a'.repeat(2047)}/api`]: [{ 'x-forwarded-prefix': '/' + 'a'.repeat(2047) }],
  'https://pub.example:8443/api': ['Proto=HTTPS;HOST="Pub.example:8443"'],
  'https://pub:81/api': ['for="[::1]:80";host="evil", for="_x";host="pub:81";proto="https"'],
  'forwarded_invalid forwarded': [
    'x=;proto=https', 'x=,proto=https', 'x="" y=b;proto=https', '', ' ', ';', 'proto=https,', 'proto=', 'proto',
    '=https', 'proto =https', 'proto= https', 'proto=https host=pub', 'proto=https;proto=http', 'host=pub;HOST=evil',
    'proto=javascript', 'host="h/test?"', 'host=""', 'host="pub', 'host="pub\\', 'host="pub"x',
    'host=evil;for="x, for="[::1]";host=pub', '@, host=pub', ','.repeat(8192),
    ...[...'"(),/:;<=>?@[\\]{} \u0000\u007f\u00e9'].map(char => `a${char}=x;proto=https`),
    ...[...'"=\t '].map(char => `x=a${char}b;proto=https`)
  ],
  'http://pub/svc/api': [{ forwarded: 'host=pub', 'x-forwarded-prefix': '/svc' }]
}

t.test('The forwarded headers of a trusted peer are used, and those of another one are ignored', async t => {
  const rows = Object.entries(forwarded).flatMap(([expected, all]) => all.map(headers => ({ headers, expected })))
  for (const { headers: given, expected } of rows) {
    const headers = typeof given === 'string' ? { [expected.split(' ')[1] ?? 'forwarded']: given } : given
    const trusted = outcome(TRUSTING, { headers })
    const ofStranger = outcome(TRUSTING, { headers, remoteAddress: '192.0.2.1' })
    const withoutTrust = outcome(PLAIN, { headers })
    const underPublicUrl = outcome({ trustProxy: true, publicUrl: 'https://pub/x' }, { headers })
    t.strictSame({ trusted, ofStranger, withoutTrust, underPublicUrl }, {
      trusted: expected,
      ofStranger: 'http://inner:8000/api',
      withoutTrust: 'http://inner:8000/api',
      underPublicUrl: 'https://pub/x/api'
    }, JSON.stringify(headers).slice(0, 100))
  }
})

t.test('The host of the request is used if a trusted peer forwards none', async t => {
  t.equal(
    outcome(TRUSTING, { host: 'pub', headers: { 'x-forwarded-proto': 'https', 'x-forwarded-port': '443' } }),
    'https://pub/api'
  )
  t.equal(
    outcome(TRUSTING, { host: 'pub', headers: { 'x-forwarded-proto': 'https', 'x-forwarded-port': '8443' } }),
    'https://pub:8443/api'
  )
  t.equal(outcome(TRUSTING, { encrypted: true, host: 'pub' }), 'https://pub/api')
  t.equal(outcome(TRUSTING, { host: 'a?b', headers: { 'x-forwarded-proto': 'https' } }), 'host_invalid host')
  t.equal(outcome(TRUSTING, { host: undefined, headers: {} }), 'host_invalid host')
  t.equal(outcome(TRUSTING, { host: 'a?b', headers: { 'x-forwarded-host': 'pub' } }), 'http://pub/api')
  t.equal(
    outcome(TRUSTING, { host: undefined, hostCount: 0, headers: { 'x-forwarded-host': 'pub' } }),
    'http://pub/api'
  )
  t.equal(
    outcome(TRUSTING, { headers: { 'x-forwarded-host': ['evil', 'pub'] as unknown as string } }),
    'http://pub/api'
  )
})

t.test('PUBLIC_URL wins, whatever the headers are', async t => {
  const rows: Array<[string, string]> = [
    ['https://pub.example', 'https://pub.example/api'],
    ['https://pub.example/', 'https://pub.example/api'],
    ['HTTPS://Pub.Example:443/svc/', 'https://pub.example/svc/api'],
    ['http://pub.example:8443/a/b', 'http://pub.example:8443/a/b/api'],
    ['https://bücher.example/é', 'https://xn--bcher-kva.example/%C3%A9/api'],
    ['https://pub.example/%7esvc', 'https://pub.example/~svc/api'],
    ['https://[::1]:8443', 'https://[::1]:8443/api'],
    [`https://pub.example/${'a'.repeat(2047)}`, `https://pub.example/${'a'.repeat(2047)}/api`]
  ]
  for (const [publicUrl, expected] of rows) {
    t.equal(
      outcome({ trustProxy: true, publicUrl }, { headers: { 'x-forwarded-host': 'evil', forwarded: 'host=evil' } }),
      expected
    )
    t.equal(
      outcome({ trustProxy: false, publicUrl }, { host: 'a?b', headers: { 'x-forwarded-proto': 'javascript' } }),
      expected
    )
    t.equal(outcome({ trustProxy: false, publicUrl }, { host: undefined, hostCount: 0, encrypted: true }), expected)
    t.equal(outcome({ trustProxy: false, publicUrl }, { target: '/a/../b' }), 'target_path dot_segment')
  }
  const bad = [
    '',
    'pub.example',
    '/svc',
    'ftp://pub.example',
    'https://user@pub.example',
    'https://pub.example?x',
    'https://pub.example#',
    'https://pub.example/a/../b',
    'https://pub.example/%2e%2e',
    'https://pub.example/a%2fb',
    'https://pub.example//',
    'https://pub.example/a\\b',
    'https://pub.example/é/../b',
    'https://pub.example/a,b',
    'https://pub.example:0',
    'https://pub example',
    'https://pub.example/\ud800',
    `https://pub.example/${'a'.repeat(2048)}`
  ]
  for (const publicUrl of bad) {
    t.equal(parsePublicUrl(publicUrl), undefined, publicUrl)
    t.throws(() => createRequestUrlResolver({ trustProxy: false, publicUrl }), TypeError)
  }
})

/** Peers whose forwarded headers count, and others, by TRUST_PROXY. */
const peers: Array<{ trustProxy: boolean | string[], trusts?: Texts, strangers?: Texts }> = [
  { trustProxy: true, trusts: ['192.0.2.1', undefined] },
  { trustProxy: false, strangers: ['127.0.0.1', undefined] },
  { trustProxy: ['127.0.0.1'], trusts: ['127.0.0.1', '::ffff:127.0.0.1', '::FFFF:7f00:1'], strangers: ['127.0.0.2', '::1', undefined, '', 'not an address'] },
  { trustProxy: ['loopback'], trusts: ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'], strangers: ['128.0.0.1', undefined] },
  { trustProxy: ['linklocal'], trusts: ['169.254.1.1', 'fe80::1'], strangers: ['10.0.0.1'] },
  { trustProxy: ['uniquelocal'], trusts: ['10.0.0.1', '172.16.0.1', '192.168.1.1', 'fd00::1', '::ffff:10.1.2.3'], strangers: ['172.32.0.1'] },
  { trustProxy: ['10.0.0.0/8'], trusts: ['10.255.0.1'], strangers: ['11.0.0.1'] },
  { trustProxy: ['2001:db8::/32'], trusts: ['2001:db8:1::1'], strangers: ['2001:db9::1'] },
  { trustProxy: ['2001:db8::1'], trusts: ['2001:DB8:0::1'] },
  { trustProxy: ['::ffff:192.0.2.1'], trusts: ['192.0.2.1'] },
  { trustProxy: ['192.0.2.0/24', 'loopback'], trusts: ['::1'], strangers: ['192.0.3.1'] },
  { trustProxy: [], strangers: ['127.0.0.1'] }
]

t.test('A peer is trusted by address, network, name or altogether', async t => {
  const rows = peers.flatMap(({ trustProxy, trusts = [], strangers = [] }) =>
    [...trusts, ...strangers].map((address, at) => ({ trustProxy, address, expected: at < trusts.length }))
  )
  for (const { trustProxy, address, expected } of rows) {
    const isTrusted = createPeerTrust(trustProxy)
    t.equal(isTrusted(address), expected, `${address} under ${trustProxy}`)
    t.equal(isTrusted(address), expected, 'the same the second time')
    const url = outcome({ trustProxy, publicUrl: undefined }, {
      remoteAddress: address,
      headers: { 'x-forwarded-host': 'pub' }
    })
    t.equal(url, expected ? 'http://pub/api' : 'http://inner:8000/api')
  }
  t.throws(() => createPeerTrust(['nonsense']), TypeError)
  const isTrusted = createPeerTrust(['10.0.0.0/8'])
  t.ok(
    Array.from({ length: 600 }, (_, n) => isTrusted(`10.0.${n >> 8}.${n & 255}`)).every(Boolean),
    'no address is lost'
  )
  t.equal(isTrusted('192.0.2.1'), false, 'after many addresses a stranger is still one')
})

t.test('The base URL is that of the request without its path', async t => {
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'pub:8443', 'x-forwarded-prefix': '/a, /b' }
  t.strictSame(createBaseUrlResolver(TRUSTING)(wireOf({ headers, target: '/a/../b' })), {
    scheme: 'https',
    host: 'pub:8443',
    path: '/a/b',
    href: 'https://pub:8443/a/b'
  })
  t.strictSame(createBaseUrlResolver(PLAIN)(wireOf({ headers })), {
    scheme: 'http',
    host: 'inner:8000',
    path: '',
    href: 'http://inner:8000'
  })
  t.strictSame(createBaseUrlResolver({ trustProxy: false, publicUrl: 'https://pub/svc' })(wireOf()), {
    scheme: 'https',
    host: 'pub',
    path: '/svc',
    href: 'https://pub/svc'
  })
  t.throws(
    () => createBaseUrlResolver(PLAIN)(wireOf({ host: 'a?b' })),
    new Refusal('host_invalid', { detail: { header: 'host' } })
  )
})

t.test('The parts of the URL are those of its href', async t => {
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'pub', 'x-forwarded-prefix': '/svc' }
  t.strictSame(createRequestUrlResolver(TRUSTING)(wireOf({ headers, target: '/api/%61?x' })), {
    scheme: 'https',
    host: 'pub',
    path: '/svc/api/a',
    href: 'https://pub/svc/api/a',
    ownPath: '/api/a'
  })
})

t.test('Many hosts in turn do not confuse the cache', async t => {
  const resolve = createRequestUrlResolver(PLAIN)
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 200; n++) {
      if (resolve(wireOf({ host: `h${n}:80` })).href !== `http://h${n}/api`) t.fail(`h${n} was lost`)
      if (resolve(wireOf({ host: `h${n}:80`, encrypted: true })).href !== `https://h${n}:80/api`) {
        t.fail(`h${n} was lost`)
      }
    }
  }
  t.equal(outcome(PLAIN, { host: 'h1:80' }), 'http://h1/api')
})

t.test('The parts that a trusted proxy forwards make the URL of the client', async t => {
  t.strictSame(joinRequestUrl('https', { host: 'api.example', port: 443 }, '/a%7Eb?x'), {
    scheme: 'https',
    host: 'api.example',
    path: '/a~b',
    href: 'https://api.example/a~b',
    ownPath: '/a~b'
  })
  t.equal(joinRequestUrl('http', { host: 'api.example', port: 443 }, '/').href, 'http://api.example:443/')
  t.throws(() => joinRequestUrl('https', { host: 'api.example', port: undefined }, '/a/../b'), {
    name: 'Refusal',
    reason: 'target_path',
    detail: { cause: 'dot_segment' }
  })
})

t.test('Without Host the URL is a path alone, and an absolute target is refused', async t => {
  for (const [encrypted, scheme] of [[false, 'http'], [true, 'https']] as const) {
    t.strictSame(hostlessUrl(wireOf({ target: '/a?b', encrypted })), {
      scheme,
      host: '',
      path: '/a',
      href: '/a',
      ownPath: '/a'
    })
  }
  t.throws(() => hostlessUrl(wireOf({ target: 'http://a.example/a' })), {
    name: 'Refusal',
    reason: 'target_path',
    detail: { cause: 'form' }
  })
})

t.test('The cache of a pure function is bounded, and refusals are not cached', async t => {
  const asked: string[] = []
  const kept = memoize(text => {
    asked.push(text)
    return text === 'bad' ? undefined : { text }
  })
  t.equal(kept('a'), kept('a'), 'a text that is kept is not read again')
  kept('b')
  kept('a')
  t.strictSame(asked, ['a', 'b'])
  t.strictSame([kept('bad'), kept('bad')], [undefined, undefined])
  kept('a')
  t.strictSame(asked.splice(0), ['a', 'b', 'bad', 'bad'], 'which pushes nothing out')
  for (let n = 2; n < 256; n++) kept(String(n))
  asked.length = 0
  kept('a')
  t.strictSame(asked, [], 'as many are kept as may be')
  kept('c')
  for (const text of ['c', 'a', 'b', 'c']) kept(text)
  t.strictSame(asked, ['c', 'a', 'b'], 'beyond the limit it starts over')
})
