import t from 'tap'
import { Refusal } from '../../../../lib/refusal.ts'
import {
  createBaseUrlResolver,
  createPeerTrust,
  memoize,
  parsePublicUrl,
  type UrlSettings
} from '../../../../lib/guard/url/base-url.ts'
import { verifyHtu, createRequestUrlResolver, hostlessUrl, joinRequestUrl } from '../../../../lib/guard/url/request-url.ts'
import type { Message } from '../../../../lib/guard/message.ts'

type Headers = Record<string, string>

const PLAIN: UrlSettings = { trustProxy: false, publicUrl: undefined }
const TRUSTING: UrlSettings = { trustProxy: ['127.0.0.1'], publicUrl: undefined }

/** A request as it comes in; what the row does not name is plain and accepted. */
function wireOf (part: Partial<Message> = {}): Message {
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
function outcome (settings: UrlSettings, part: Partial<Message>): string {
  try {
    return createRequestUrlResolver(settings)(wireOf(part)).href
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return [error.reason, ...Object.values(error.detail ?? {})].join(' ')
  }
}

// [Host, what the request to /api of it is]
const hosts: Array<[string | undefined, string]> = [
  ['api.example', 'http://api.example/api'],
  ['API.Example', 'http://api.example/api'],
  ['api.example:8000', 'http://api.example:8000/api'],
  ['api.example:80', 'http://api.example/api'],
  ['api.example:443', 'http://api.example:443/api'],
  ['api.example:', 'http://api.example/api'],
  ['api.example.', 'http://api.example./api'],
  ['localhost:65535', 'http://localhost:65535/api'],
  ['localhost:1', 'http://localhost:1/api'],
  ['my_service', 'http://my_service/api'],
  ['127.0.0.1:8000', 'http://127.0.0.1:8000/api'],
  ['[::1]', 'http://[::1]/api'],
  ['[::1]:8000', 'http://[::1]:8000/api'],
  ['[0:0:0:0:0:0:0:1]:80', 'http://[::1]/api'],
  ['[2001:DB8:0:0::1]', 'http://[2001:db8::1]/api'],
  ['xn--bcher-kva.example', 'http://xn--bcher-kva.example/api'],
  [Buffer.from('bücher.example').toString('latin1'), 'http://xn--bcher-kva.example/api'],
  ['%61pi.example', 'http://api.example/api'],
  [undefined, 'host_invalid host'],
  ['', 'host_invalid host'],
  ['api?', 'host_invalid host'],
  ['api/test?', 'host_invalid host'],
  ['api/', 'host_invalid host'],
  ['api#f', 'host_invalid host'],
  ['a?b#c d', 'host_invalid host'],
  ['user@api', 'host_invalid host'],
  ['api\\x', 'host_invalid host'],
  ['api x', 'host_invalid host'],
  [' api', 'host_invalid host'],
  ['api\tx', 'host_invalid host'],
  ['api\u0000', 'host_invalid host'],
  ['api\u007f', 'host_invalid host'],
  ['api,evil', 'host_invalid host'],
  ['api, evil', 'host_invalid host'],
  ['api%2fx', 'host_invalid host'],
  ['api%3fx', 'host_invalid host'],
  ['api%', 'host_invalid host'],
  ['b\u00fccher.example', 'host_invalid host'],
  ['api:0', 'host_invalid host'],
  ['api:65536', 'host_invalid host'],
  ['api:99999', 'host_invalid host'],
  ['api:123456', 'host_invalid host'],
  ['api:-1', 'host_invalid host'],
  ['api:80a', 'host_invalid host'],
  ['api:80:80', 'host_invalid host'],
  [':80', 'host_invalid host'],
  ['::1', 'host_invalid host'],
  ['[::1', 'host_invalid host'],
  ['[::1]x', 'host_invalid host'],
  ['[::1%eth0]', 'host_invalid host'],
  ['[127.0.0.1]', 'host_invalid host'],
  ['[v7.x]', 'host_invalid host'],
  ['http://api', 'host_invalid host'],
  ['<script>', 'host_invalid host'],
  ['a'.repeat(255), `http://${'a'.repeat(255)}/api`],
  ['a'.repeat(256), 'host_invalid host'],
  ['a'.repeat(8192), 'host_invalid host']
]

t.test('The Host header is used if nothing else is set, and it must be a host with an optional port', async t => {
  for (const [host, expected] of hosts) t.equal(outcome(PLAIN, { host }), expected, JSON.stringify(host?.slice(0, 60)))
  t.equal(outcome(PLAIN, { encrypted: true, host: 'api:443' }), 'https://api/api')
  t.equal(outcome(PLAIN, { encrypted: true, host: 'api:80' }), 'https://api:80/api')
  t.equal(outcome(PLAIN, { hostCount: 1 }), 'http://inner:8000/api')
  t.equal(outcome(PLAIN, { hostCount: 2 }), 'host_repeated')
  t.equal(outcome(TRUSTING, { hostCount: 2, headers: { 'x-forwarded-host': 'api' } }), 'host_repeated')
  t.equal(outcome({ ...PLAIN, publicUrl: 'http://api' }, { hostCount: 2 }), 'host_repeated')
})

// [request target, path of the URL or refusal]
const targets: Array<[string, string]> = [
  ['/', '/'],
  ['/api', '/api'],
  ['/api/', '/api/'],
  ['/api?', '/api'],
  ['/api?x=1', '/api'],
  ['/api?a?b', '/api'],
  ['/?', '/'],
  [`/api?${'x'.repeat(12000)}`, '/api'],
  ['/api?../..\\%zz#\u00e9', '/api'],
  ['/API', '/API'],
  ['//', '//'],
  ['//evil.example/x', '//evil.example/x'],
  ['///api', '///api'],
  ['/a//b', '/a//b'],
  ['/a%2fb', '/a%2Fb'],
  ['/a%2Fb', '/a%2Fb'],
  ['/%61pi', '/api'],
  ['/%7euser', '/~user'],
  ['/a%20b', '/a%20b'],
  ['/a%3f', '/a%3F'],
  ['/a%23', '/a%23'],
  ['/a%5cb', '/a%5Cb'],
  ['/a%25', '/a%25'],
  ['/a%252e', '/a%252e'],
  ['/%c3%a9', '/%C3%A9'],
  ['/%ff', '/%FF'],
  ['/a%00', '/a%00'],
  ['/a:b@c', '/a:b@c'],
  ['/a;v=1', '/a;v=1'],
  ['/a|b{c}^`"<>', '/a|b{c}^`"<>'],
  ['/.well-known/x', '/.well-known/x'],
  ['/a/.b', '/a/.b'],
  ['/a/..b', '/a/..b'],
  ['/a/b..', '/a/b..'],
  ['/a/...', '/a/...'],
  ['/.../a', '/.../a'],
  ['/a.b.c', '/a.b.c'],
  ['/..;/a', '/..;/a'],
  ['/a/.', 'target_path dot_segment'],
  ['/a/./b', 'target_path dot_segment'],
  ['/./a', 'target_path dot_segment'],
  ['/.', 'target_path dot_segment'],
  ['/..', 'target_path dot_segment'],
  ['/a/..', 'target_path dot_segment'],
  ['/a/../b', 'target_path dot_segment'],
  ['/a/..?x', 'target_path dot_segment'],
  ['/a/%2e', 'target_path dot_segment'],
  ['/a/%2e%2e/b', 'target_path dot_segment'],
  ['/a/%2E%2E/b', 'target_path dot_segment'],
  ['/a/.%2e/b', 'target_path dot_segment'],
  ['/a/%2e./b', 'target_path dot_segment'],
  ['/a\\b', 'target_path backslash'],
  ['/a\\..\\b', 'target_path backslash'],
  ['/\\evil.example', 'target_path backslash'],
  ['/a#b', 'target_path fragment'],
  ['/a#?b', 'target_path fragment'],
  ['/a b', 'target_path control_character'],
  ['/a\tb', 'target_path control_character'],
  ['/a\u0000', 'target_path control_character'],
  ['/a\r\nb', 'target_path control_character'],
  ['/a\u007f', 'target_path control_character'],
  ['/\u00c3\u00a9', 'target_path non_ascii'],
  ['/\u00ff', 'target_path non_ascii'],
  ['/a%', 'target_path escape'],
  ['/a%2', 'target_path escape'],
  ['/a%zz', 'target_path escape'],
  ['/a%2/b', 'target_path escape'],
  ['/a%u002e', 'target_path escape'],
  ['*', 'target_path form'],
  ['', 'target_path form'],
  ['api', 'target_path form'],
  ['inner:8000', 'target_path form'],
  ['?/api', 'target_path form'],
  ['\\api', 'target_path form'],
  ['ftp://inner:8000/api', 'target_path form'],
  ['x/http://inner:8000/api', 'target_path form'],
  ['http:/inner:8000/api', 'target_path form'],
  ['http://inner:8000/api', '/api'],
  ['HTTP://INNER:8000/api?x', '/api'],
  ['http://inner:8000', '/'],
  ['http://inner:8000?/api', '/'],
  ['http://inner:8000/%61pi', '/api'],
  ['http://inner:8000/a//b', '/a//b'],
  ['http://inner:8000#/api', 'target_path fragment'],
  ['http://inner:8000/./api', 'target_path dot_segment'],
  ['http://inner:8000/.', 'target_path dot_segment'],
  ['http://inner:8000\\/api', 'target_authority host'],
  ['http://inner/api', 'target_authority host'],
  ['http://inner:8001/api', 'target_authority host'],
  ['http://evil:8000/api', 'target_authority host'],
  ['http://user@inner:8000/api', 'target_authority host'],
  ['http://inner:8000@evil/api', 'target_authority host'],
  ['http:///api', 'target_authority host'],
  ['http://?/api', 'target_authority host'],
  ['https://inner:8000/api', 'target_authority scheme']
]

t.test('The path of the request target is normalised, and refused if router and proof could read it in two ways', async t => {
  for (const [target, expected] of targets) {
    const path = expected.startsWith('/') ? `http://inner:8000${expected}` : expected
    t.equal(outcome(PLAIN, { target }), path, JSON.stringify(target.slice(0, 60)))
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

// [forwarded headers, URL or refusal] of a request to /api with Host inner:8000 over a plain connection
const forwarded: Array<[Headers, string]> = [
  [{}, 'http://inner:8000/api'],
  [{ 'x-forwarded-for': 'x?y' }, 'http://inner:8000/api'],
  [{ 'x-forwarded-proto': 'https' }, 'https://inner:8000/api'],
  [{ 'x-forwarded-proto': 'http' }, 'http://inner:8000/api'],
  [{ 'x-forwarded-proto': 'HTTPS' }, 'https://inner:8000/api'],
  [{ 'x-forwarded-proto': ' https ' }, 'https://inner:8000/api'],
  [{ 'x-forwarded-proto': 'http, https' }, 'https://inner:8000/api'],
  [{ 'x-forwarded-proto': 'https,http' }, 'http://inner:8000/api'],
  [{ 'x-forwarded-proto': 'javascript, https' }, 'https://inner:8000/api'],
  [{ 'x-forwarded-proto': ', https' }, 'https://inner:8000/api'],
  [{ 'x-forwarded-proto': '' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': ' ' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'https,' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'https, javascript' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'javascript' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'httpx' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'wss' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'https://' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': 'https http' }, 'forwarded_invalid x-forwarded-proto'],
  [{ 'x-forwarded-proto': ','.repeat(8192) }, 'forwarded_invalid x-forwarded-proto'],

  [{ 'x-forwarded-host': 'pub.example' }, 'http://pub.example/api'],
  [{ 'x-forwarded-host': 'PUB.example:8443' }, 'http://pub.example:8443/api'],
  [{ 'x-forwarded-host': 'evil, pub.example' }, 'http://pub.example/api'],
  [{ 'x-forwarded-host': 'a?b, pub.example' }, 'http://pub.example/api'],
  [{ 'x-forwarded-host': '[2001:db8::1]:8443' }, 'http://[2001:db8::1]:8443/api'],
  [{ 'x-forwarded-host': 'b\u00c3\u00bccher.example' }, 'http://xn--bcher-kva.example/api'],
  [{ 'x-forwarded-host': 'pub.example', 'x-forwarded-proto': 'https' }, 'https://pub.example/api'],
  [{ 'x-forwarded-host': 'pub.example:443', 'x-forwarded-proto': 'https' }, 'https://pub.example/api'],
  [{ 'x-forwarded-host': 'pub.example:80', 'x-forwarded-proto': 'https' }, 'https://pub.example:80/api'],
  [{ 'x-forwarded-host': '' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub.example,' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub.example, ' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'h/test?' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'user@pub.example' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub.example#' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub example' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub\\example' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub.example:0' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': 'pub.example:x' }, 'forwarded_invalid x-forwarded-host'],
  [{ 'x-forwarded-host': ','.repeat(8192) }, 'forwarded_invalid x-forwarded-host'],

  [{ 'x-forwarded-port': '8443' }, 'http://inner:8000/api'],
  [{ 'x-forwarded-port': 'rubbish' }, 'http://inner:8000/api'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '8443' }, 'http://pub:8443/api'],
  [{ 'x-forwarded-host': 'pub:', 'x-forwarded-port': '8443' }, 'http://pub:8443/api'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '80' }, 'http://pub/api'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '443', 'x-forwarded-proto': 'https' }, 'https://pub/api'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '1, 8443' }, 'http://pub:8443/api'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': 'x, 8443' }, 'http://pub:8443/api'],
  [{ 'x-forwarded-host': '[::1]', 'x-forwarded-port': '8443' }, 'http://[::1]:8443/api'],
  [{ 'x-forwarded-host': 'pub:81', 'x-forwarded-port': '8443' }, 'http://pub:81/api'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '8443,' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '0' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '65536' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '-1' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '80/x' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '1e3' }, 'forwarded_invalid x-forwarded-port'],
  [{ 'x-forwarded-host': 'pub', 'x-forwarded-port': '8'.repeat(8192) }, 'forwarded_invalid x-forwarded-port'],

  [{ 'x-forwarded-prefix': '/svc' }, 'http://inner:8000/svc/api'],
  [{ 'x-forwarded-prefix': '/svc/' }, 'http://inner:8000/svc/api'],
  [{ 'x-forwarded-prefix': '/' }, 'http://inner:8000/api'],
  [{ 'x-forwarded-prefix': '/a/b' }, 'http://inner:8000/a/b/api'],
  [{ 'x-forwarded-prefix': '/a, /b' }, 'http://inner:8000/a/b/api'],
  [{ 'x-forwarded-prefix': '/a/,/b/' }, 'http://inner:8000/a/b/api'],
  [{ 'x-forwarded-prefix': '/a, /b/c, /d' }, 'http://inner:8000/a/b/c/d/api'],
  [{ 'x-forwarded-prefix': '/a, /a' }, 'http://inner:8000/a/a/api'],
  [{ 'x-forwarded-prefix': "/A-_.~!$&'()*+;=:@" }, "http://inner:8000/A-_.~!$&'()*+;=:@/api"],
  [{ 'x-forwarded-prefix': '/%7e%c3%a9' }, 'http://inner:8000/~%C3%A9/api'],
  [{ 'x-forwarded-prefix': '/..a/...' }, 'http://inner:8000/..a/.../api'],
  [{ 'x-forwarded-prefix': '' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': 'svc' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '//svc' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '//' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/svc//' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a//b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/.' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/..' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a/../b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a/./b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/%2e%2e' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%2Eb' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%2fb' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%5cb' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%00' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%7f' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%zz' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a%2' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a?' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a#b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a\\b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/\u00e9' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '\u00a0/a' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': 'https://evil.example/' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a,' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': ',/a' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a,,/b' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/a, /..' }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': ','.repeat(8192) }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': ','.repeat(1000) }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': Array(16).fill('/a').join(', ') }, `http://inner:8000${'/a'.repeat(16)}/api`],
  [{ 'x-forwarded-prefix': Array(17).fill('/a').join(', ') }, 'forwarded_invalid x-forwarded-prefix'],
  [{ 'x-forwarded-prefix': '/' + 'a'.repeat(2047) }, `http://inner:8000/${'a'.repeat(2047)}/api`],
  [{ 'x-forwarded-prefix': '/' + 'a'.repeat(2048) }, 'forwarded_invalid x-forwarded-prefix'],

  [{ forwarded: 'proto=https;host=pub.example' }, 'https://pub.example/api'],
  [{ forwarded: 'for=192.0.2.60;proto=https;by=203.0.113.43;host=pub.example' }, 'https://pub.example/api'],
  [{ forwarded: 'Proto=HTTPS;HOST="Pub.example:8443"' }, 'https://pub.example:8443/api'],
  [{ forwarded: 'host=pub.example:8443' }, 'http://pub.example:8443/api'],
  [{ forwarded: 'host="[2001:db8::1]:8443"' }, 'http://[2001:db8::1]:8443/api'],
  [{ forwarded: 'host="pub\\.example"' }, 'http://pub.example/api'],
  [{ forwarded: 'proto=https' }, 'https://inner:8000/api'],
  [{ forwarded: 'for="[2001:db8:cafe::17]:4711"' }, 'http://inner:8000/api'],
  [{ forwarded: 'for=_hidden, proto=https;host=pub' }, 'https://pub/api'],
  [{ forwarded: 'proto=https;host=evil, for=1.2.3.4;host=pub' }, 'http://pub/api'],
  [{ forwarded: 'host="a,b;c", proto=https' }, 'https://inner:8000/api'],
  [{ forwarded: ' proto=https ; host=pub ' }, 'https://pub/api'],
  [{ forwarded: 'proto=https;;host=pub;' }, 'https://pub/api'],
  [{ forwarded: ', proto=https' }, 'https://inner:8000/api'],
  [{ forwarded: '\tproto=https\t;\t host=pub\t' }, 'https://pub/api'],
  [{ forwarded: 'proto=https\t,\thost=pub' }, 'http://pub/api'],
  [{ forwarded: 'proto="https"' }, 'https://inner:8000/api'],
  [{ forwarded: 'host="pub";proto="https"' }, 'https://pub/api'],
  [{ forwarded: 'for="[::1]:80";host="evil", for="_x";host="pub:81";proto="https"' }, 'https://pub:81/api'],
  [{ forwarded: 'proto="\\h\\t\\t\\p\\s"' }, 'https://inner:8000/api'],
  [{ forwarded: 'x="\n\\\n";proto=https' }, 'https://inner:8000/api'],
  [{ forwarded: 'x="a\\"b";proto=https' }, 'https://inner:8000/api'],
  [{ forwarded: 'x=/[]{}()<>@?\\;proto=https' }, 'https://inner:8000/api'],
  ...[..."!#$%&'*+-.^_`|~09AZaz"].map((
    char
  ): [Headers, string] => [{ forwarded: `${char}=x;proto=https` }, 'https://inner:8000/api']),
  ...[...'"(),/:;<=>?@[\\]{} \u0000\u007f\u00e9'].map((
    char
  ): [Headers, string] => [{ forwarded: `a${char}=x;proto=https` }, 'forwarded_invalid forwarded']),
  ...[...'"=\t '].map((
    char
  ): [Headers, string] => [{ forwarded: `x=a${char}b;proto=https` }, 'forwarded_invalid forwarded']),
  [{ forwarded: 'x=;proto=https' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'x=,proto=https' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'x="" y=b;proto=https' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'x="";proto=https' }, 'https://inner:8000/api'],
  [{ forwarded: 'host=pub', 'x-forwarded-port': '8443' }, 'http://pub:8443/api'],
  [{ forwarded: 'host=pub:81', 'x-forwarded-port': '8443' }, 'http://pub:81/api'],
  [{ forwarded: 'host=pub', 'x-forwarded-prefix': '/svc' }, 'http://pub/svc/api'],
  [{ forwarded: 'proto=http;host=evil', 'x-forwarded-proto': 'https' }, 'https://inner:8000/api'],
  [{ forwarded: 'proto=https;host=evil', 'x-forwarded-host': 'pub' }, 'http://pub/api'],
  [{ forwarded: '"', 'x-forwarded-host': 'pub' }, 'http://pub/api'],
  [{ forwarded: '' }, 'forwarded_invalid forwarded'],
  [{ forwarded: ' ' }, 'forwarded_invalid forwarded'],
  [{ forwarded: ';' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto=https,' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto=' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto' }, 'forwarded_invalid forwarded'],
  [{ forwarded: '=https' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto =https' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto= https' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto=https host=pub' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto=https;proto=http' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host=pub;HOST=evil' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'proto=javascript' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host="h/test?"' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host=""' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host="pub' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host="pub\\' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host="pub"x' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'host=evil;for="x, for="[::1]";host=pub' }, 'forwarded_invalid forwarded'],
  [{ forwarded: 'for=[::1]:80, host=pub' }, 'http://pub/api'],
  [{ forwarded: '@, host=pub' }, 'forwarded_invalid forwarded'],
  [{ forwarded: ','.repeat(8192) }, 'forwarded_invalid forwarded']
]

t.test('The forwarded headers of a trusted peer are used, and those of another one are ignored', async t => {
  for (const [headers, expected] of forwarded) {
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
    ['https://[::1]:8443', 'https://[::1]:8443/api']
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
    'https://pub.example/\ud800'
  ]
  for (const publicUrl of bad) {
    t.equal(parsePublicUrl(publicUrl), undefined, publicUrl)
    t.throws(() => createRequestUrlResolver({ trustProxy: false, publicUrl }), TypeError)
  }
})

// [TRUST_PROXY, peer, whether its forwarded headers count]
const peers: Array<{ trustProxy: boolean | string[], address: string | undefined, expected: boolean }> = [
  { trustProxy: true, address: '192.0.2.1', expected: true },
  { trustProxy: true, address: undefined, expected: true },
  { trustProxy: false, address: '127.0.0.1', expected: false },
  { trustProxy: false, address: undefined, expected: false },
  { trustProxy: ['127.0.0.1'], address: '127.0.0.1', expected: true },
  { trustProxy: ['127.0.0.1'], address: '::ffff:127.0.0.1', expected: true },
  { trustProxy: ['127.0.0.1'], address: '::FFFF:7f00:1', expected: true },
  { trustProxy: ['127.0.0.1'], address: '127.0.0.2', expected: false },
  { trustProxy: ['127.0.0.1'], address: '::1', expected: false },
  { trustProxy: ['127.0.0.1'], address: undefined, expected: false },
  { trustProxy: ['127.0.0.1'], address: '', expected: false },
  { trustProxy: ['127.0.0.1'], address: 'not an address', expected: false },
  { trustProxy: ['loopback'], address: '127.0.0.1', expected: true },
  { trustProxy: ['loopback'], address: '127.9.9.9', expected: true },
  { trustProxy: ['loopback'], address: '::1', expected: true },
  { trustProxy: ['loopback'], address: '::ffff:127.0.0.1', expected: true },
  { trustProxy: ['loopback'], address: '128.0.0.1', expected: false },
  { trustProxy: ['loopback'], address: undefined, expected: false },
  { trustProxy: ['linklocal'], address: '169.254.1.1', expected: true },
  { trustProxy: ['linklocal'], address: 'fe80::1', expected: true },
  { trustProxy: ['linklocal'], address: '10.0.0.1', expected: false },
  { trustProxy: ['uniquelocal'], address: '10.0.0.1', expected: true },
  { trustProxy: ['uniquelocal'], address: '172.16.0.1', expected: true },
  { trustProxy: ['uniquelocal'], address: '172.32.0.1', expected: false },
  { trustProxy: ['uniquelocal'], address: '192.168.1.1', expected: true },
  { trustProxy: ['uniquelocal'], address: 'fd00::1', expected: true },
  { trustProxy: ['uniquelocal'], address: '::ffff:10.1.2.3', expected: true },
  { trustProxy: ['10.0.0.0/8'], address: '10.255.0.1', expected: true },
  { trustProxy: ['10.0.0.0/8'], address: '11.0.0.1', expected: false },
  { trustProxy: ['2001:db8::/32'], address: '2001:db8:1::1', expected: true },
  { trustProxy: ['2001:db8::/32'], address: '2001:db9::1', expected: false },
  { trustProxy: ['2001:db8::1'], address: '2001:DB8:0::1', expected: true },
  { trustProxy: ['::ffff:192.0.2.1'], address: '192.0.2.1', expected: true },
  { trustProxy: ['192.0.2.0/24', 'loopback'], address: '::1', expected: true },
  { trustProxy: ['192.0.2.0/24', 'loopback'], address: '192.0.3.1', expected: false },
  { trustProxy: [], address: '127.0.0.1', expected: false }
]

t.test('A peer is trusted by address, network, name or altogether', async t => {
  for (const { trustProxy, address, expected } of peers) {
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

t.test('No bad input turns the proof of one resource into that of another', async t => {
  const proofOfTest = 'http://inner:8000/test'
  const hostile: Array<Partial<Message>> = [
    { host: 'inner:8000/test?' },
    { host: 'inner:8000/test#' },
    { host: 'x@inner:8000/test?' },
    { target: '/test/../other' },
    { target: '/test#/other' },
    { target: '/test\\..\\other' },
    { target: 'http://inner:8000/test?/../other', host: 'inner:8000/test?' },
    { headers: { 'x-forwarded-host': 'inner:8000/test?' } },
    { headers: { 'x-forwarded-prefix': '/test?' } },
    { headers: { 'x-forwarded-prefix': '/test#' } },
    { headers: { 'x-forwarded-prefix': '/test/..' } },
    { headers: { forwarded: 'host="inner:8000/test?"' } },
    { headers: { 'x-forwarded-proto': 'http://inner:8000/test?' } }
  ]
  for (const settings of [PLAIN, TRUSTING]) {
    for (const part of hostile) {
      const title = JSON.stringify(part)
      const compare = (proof: string): void =>
        verifyHtu(proof, createRequestUrlResolver(settings)(wireOf({ target: '/other', ...part })))
      t.throws(() => compare(proofOfTest), { name: 'Refusal' }, title)
    }
  }
  t.doesNotThrow(() => verifyHtu(proofOfTest, createRequestUrlResolver(PLAIN)(wireOf({ target: '/test' }))))
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
