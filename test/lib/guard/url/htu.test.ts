import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Message } from '../../../../lib/guard/message.ts'
import { Refusal } from '../../../../lib/refusal.ts'
import {
  verifyHtu,
  createRequestUrlResolver,
  type HtuCause,
  type RequestUrl
} from '../../../../lib/guard/url/request-url.ts'
import { HTU_ADVICE } from '../../../../cli/explain/htu-advice.ts'

/** The URL of a request to `target` of `base`, as the service makes it. */
function urlOf (base: string, target: string): RequestUrl {
  const resolve = createRequestUrlResolver({ trustProxy: false, publicUrl: base })
  return resolve(
    { target, headers: {}, host: undefined, hostCount: 0, encrypted: false, remoteAddress: undefined } as Message
  )
}

function refusalOf (act: () => unknown): Refusal {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const HOST = 'http://api.example'

/** Of the request, `base` is the URL as far as its target. */
interface Compared {
  readonly htu: string
  readonly base: string
  readonly target: string
}

const equal: Record<string, readonly Compared[]> = {
  'equal character by character': [
    { htu: 'http://api.example/api/private', base: HOST, target: '/api/private' },
    { htu: 'https://api.example/api/private', base: 'https://api.example', target: '/api/private' },
    { htu: 'http://api.example:8000/', base: 'http://api.example:8000', target: '/' },
    { htu: 'https://api.example/svc/api/private', base: 'https://api.example/svc', target: '/api/private' },
    { htu: 'http://[::1]:8000/api', base: 'http://[::1]:8000', target: '/api' },
    { htu: 'http://127.0.0.1:8000/api', base: 'http://127.0.0.1:8000', target: '/api' },
    { htu: "http://api.example/a;b=c,d/e@f:g!$&'()*+", base: HOST, target: "/a;b=c,d/e@f:g!$&'()*+" },
    { htu: 'http://api.example/a|b{c}^d`e"f<g>', base: HOST, target: '/a|b{c}^d`e"f<g>' },
    { htu: 'http://api.example//api', base: HOST, target: '//api' },
    { htu: 'http://api.example/a%2Fb', base: HOST, target: '/a%2Fb' },
    { htu: 'http://api.example/.well-known/x', base: HOST, target: '/.well-known/x' },
    { htu: 'http://api.example/a/...', base: HOST, target: '/a/...' },
    { htu: 'http://api.example/a./b..', base: HOST, target: '/a./b..' },
    { htu: 'http://api.example/~user/-_.', base: HOST, target: '/~user/-_.' },
    { htu: 'http://api.example/%FF', base: HOST, target: '/%FF' }
  ],
  'RFC 3986 section 6.2.2': [
    { htu: 'http://a/./b/../b/%63/%7bfoo%7d', base: 'http://a', target: '/b/c/%7Bfoo%7D' },
    { htu: 'HTTP://A/b/c/%7Bfoo%7D', base: 'http://a', target: '/b/c/%7Bfoo%7D' }
  ],
  'RFC 3986 section 6.2.2.1: case': [
    { htu: 'HTTP://www.EXAMPLE.com/', base: 'http://www.example.com', target: '/' },
    { htu: 'http://www.example.com/', base: 'http://www.example.com', target: '/' },
    { htu: 'HTTPS://WWW.EXAMPLE.COM/x', base: 'https://www.example.com', target: '/x' },
    { htu: 'hTTp://api.example/%3a', base: HOST, target: '/%3A' },
    { htu: 'http://api.example/%3A', base: HOST, target: '/%3a' },
    { htu: 'http://api.example/%c3%a9', base: HOST, target: '/%C3%A9' },
    { htu: 'http://api.example/%C3%a9', base: HOST, target: '/%c3%A9' },
    { htu: 'http://api.example/a%2fb', base: HOST, target: '/a%2Fb' },
    { htu: 'http://[FE80::ABCD]/', base: 'http://[fe80::abcd]', target: '/' }
  ],
  'RFC 3986 section 6.2.2.2: percent-encoding': [
    { htu: 'http://api.example/%7Euser', base: HOST, target: '/~user' },
    { htu: 'http://api.example/~user', base: HOST, target: '/%7Euser' },
    { htu: 'http://api.example/%7euser', base: HOST, target: '/~user' },
    { htu: 'http://api.example/%41%5A%61%7a', base: HOST, target: '/AZaz' },
    { htu: 'http://api.example/AZaz', base: HOST, target: '/%41%5A%61%7a' },
    { htu: 'http://api.example/%30%39', base: HOST, target: '/09' },
    { htu: 'http://api.example/%2D%2E%5F%7E', base: HOST, target: '/-._~' },
    { htu: 'http://api.example/x%2Ey', base: HOST, target: '/x.y' },
    { htu: 'http://api.example/%61pi/p%72ivate', base: HOST, target: '/api/private' },
    { htu: 'http://%61pi.example/', base: HOST, target: '/' },
    { htu: 'http://api%2Eexample/', base: HOST, target: '/' }
  ],
  'RFC 3986 section 6.2.2.3: dot segments of the proof': [
    { htu: 'http://api.example/a/./b', base: HOST, target: '/a/b' },
    { htu: 'http://api.example/a/../b', base: HOST, target: '/b' },
    { htu: 'http://api.example/a/b/c/./../../g', base: HOST, target: '/a/g' },
    { htu: 'http://api.example/mid/content=5/../6', base: HOST, target: '/mid/6' },
    { htu: 'http://api.example/./', base: HOST, target: '/' },
    { htu: 'http://api.example/../', base: HOST, target: '/' },
    { htu: 'http://api.example/..', base: HOST, target: '/' },
    { htu: 'http://api.example/.', base: HOST, target: '/' },
    { htu: 'http://api.example/a/.', base: HOST, target: '/a/' },
    { htu: 'http://api.example/a/..', base: HOST, target: '/' },
    { htu: 'http://api.example/../../g', base: HOST, target: '/g' },
    { htu: 'http://api.example/a/%2e/b', base: HOST, target: '/a/b' },
    { htu: 'http://api.example/a/%2E%2e/b', base: HOST, target: '/b' },
    { htu: 'http://api.example/a/.%2e/b', base: HOST, target: '/b' },
    { htu: 'http://api.example/a//../b', base: HOST, target: '/a/b' },
    { htu: 'http://api.example/a/...', base: HOST, target: '/a/...' }
  ],
  'RFC 3986 section 5.4, resolved against http://a/b/c/d;p': [
    { htu: 'http://a/b/c/./g', base: 'http://a', target: '/b/c/g' },
    { htu: 'http://a/b/c/./g/', base: 'http://a', target: '/b/c/g/' },
    { htu: 'http://a/b/c/.', base: 'http://a', target: '/b/c/' },
    { htu: 'http://a/b/c/./', base: 'http://a', target: '/b/c/' },
    { htu: 'http://a/b/c/..', base: 'http://a', target: '/b/' },
    { htu: 'http://a/b/c/../', base: 'http://a', target: '/b/' },
    { htu: 'http://a/b/c/../g', base: 'http://a', target: '/b/g' },
    { htu: 'http://a/b/c/../..', base: 'http://a', target: '/' },
    { htu: 'http://a/b/c/../../g', base: 'http://a', target: '/g' },
    { htu: 'http://a/b/c/../../../g', base: 'http://a', target: '/g' },
    { htu: 'http://a/b/c/../../../../g', base: 'http://a', target: '/g' },
    { htu: 'http://a/b/c/g.', base: 'http://a', target: '/b/c/g.' },
    { htu: 'http://a/b/c/.g', base: 'http://a', target: '/b/c/.g' },
    { htu: 'http://a/b/c/g..', base: 'http://a', target: '/b/c/g..' },
    { htu: 'http://a/b/c/..g', base: 'http://a', target: '/b/c/..g' },
    { htu: 'http://a/b/c/./../g', base: 'http://a', target: '/b/g' },
    { htu: 'http://a/b/c/./g/.', base: 'http://a', target: '/b/c/g/' },
    { htu: 'http://a/b/c/g/./h', base: 'http://a', target: '/b/c/g/h' },
    { htu: 'http://a/b/c/g/../h', base: 'http://a', target: '/b/c/h' },
    { htu: 'http://a/b/c/g;x=1/./y', base: 'http://a', target: '/b/c/g;x=1/y' },
    { htu: 'http://a/b/c/g;x=1/../y', base: 'http://a', target: '/b/c/y' },
    { htu: 'http://a/b/c/g?y/./x', base: 'http://a', target: '/b/c/g' },
    { htu: 'http://a/b/c/g#s/../x', base: 'http://a', target: '/b/c/g' }
  ],
  'RFC 3986 section 6.2.3: scheme': [
    { htu: 'http://example.com', base: 'http://example.com', target: '/' },
    { htu: 'http://example.com/', base: 'http://example.com', target: '/' },
    { htu: 'http://example.com:/', base: 'http://example.com', target: '/' },
    { htu: 'http://example.com:80/', base: 'http://example.com', target: '/' },
    { htu: 'http://example.com:80', base: 'http://example.com', target: '/' },
    { htu: 'http://example.com:', base: 'http://example.com', target: '/' },
    { htu: 'https://example.com:443/x', base: 'https://example.com', target: '/x' },
    { htu: 'https://example.com/x', base: 'https://example.com:443', target: '/x' },
    { htu: 'http://example.com/x', base: 'http://example.com:80', target: '/x' },
    { htu: 'http://[::1]:80/x', base: 'http://[::1]', target: '/x' },
    { htu: 'http://[::1]:/x', base: 'http://[::1]', target: '/x' },
    { htu: 'https://example.com:08443/x', base: 'https://example.com:8443', target: '/x' }
  ],
  'query and fragment of the proof, which do not count': [
    { htu: 'http://api.example/api?x=1', base: HOST, target: '/api' },
    { htu: 'http://api.example/api?', base: HOST, target: '/api?x=1' },
    { htu: 'http://api.example/api#f', base: HOST, target: '/api' },
    { htu: 'http://api.example/api#', base: HOST, target: '/api' },
    { htu: 'http://api.example/api?x#f', base: HOST, target: '/api?y' },
    { htu: 'http://api.example/api#f?x', base: HOST, target: '/api' },
    { htu: 'http://api.example?x=/y', base: HOST, target: '/?z' },
    { htu: 'http://api.example#/y', base: HOST, target: '/' },
    { htu: 'http://api.example/api?a b\\c', base: HOST, target: '/api' },
    { htu: 'http://api.example/api?x=a@b', base: HOST, target: '/api' },
    { htu: 'http://api.example/api', base: HOST, target: '/api?x=/../y%zz' }
  ],
  'hosts in other forms': [
    { htu: 'http://bücher.example/', base: 'http://xn--bcher-kva.example', target: '/' },
    { htu: 'http://BÜCHER.example/', base: 'http://xn--bcher-kva.example', target: '/' },
    { htu: 'http://b%C3%BCcher.example/', base: 'http://xn--bcher-kva.example', target: '/' },
    { htu: 'http://XN--BCHER-KVA.example/', base: 'http://bücher.example', target: '/' },
    { htu: 'http://日本語.jp/', base: 'http://xn--wgv71a119e.jp', target: '/' },
    { htu: 'http://[0:0:0:0:0:0:0:1]/', base: 'http://[::1]', target: '/' },
    { htu: 'http://[2001:DB8::0:1]:8000/', base: 'http://[2001:db8::1]:8000', target: '/' },
    { htu: 'http://[::ffff:192.0.2.1]/', base: 'http://[::ffff:c000:201]', target: '/' },
    { htu: 'http://my_service:8000/', base: 'http://my_service:8000', target: '/' }
  ],
  'paths in another script': [
    { htu: 'http://api.example/é', base: HOST, target: '/%C3%A9' },
    { htu: 'http://api.example/日本/x', base: HOST, target: '/%E6%97%A5%E6%9C%AC/x' },
    { htu: 'http://api.example/😀', base: HOST, target: '/%F0%9F%98%80' }
  ]
}

t.test('An htu is accepted if it names the URL of the request', async t => {
  for (const [group, rows] of Object.entries(equal)) {
    t.test(group, async t => {
      for (const { htu, base, target } of rows) {
        t.doesNotThrow(() => verifyHtu(htu, urlOf(base, target)), `${htu} is ${target} of ${base}`)
      }
    })
  }
})

const different: ReadonlyArray<Compared & { readonly cause: HtuCause }> = [
  { htu: 'https://api.example/api', base: HOST, target: '/api', cause: 'scheme' },
  { htu: 'http://api.example/api', base: 'https://api.example', target: '/api', cause: 'scheme' },
  { htu: 'https://api.example:8000/api', base: 'http://api.example:8000', target: '/api', cause: 'scheme' },
  { htu: 'https://other.example/api', base: HOST, target: '/other', cause: 'scheme' },
  { htu: 'https://api.example:80/api', base: HOST, target: '/api', cause: 'scheme' },
  { htu: 'http://other.example/api', base: HOST, target: '/api', cause: 'host' },
  { htu: 'http://api.example./api', base: HOST, target: '/api', cause: 'host' },
  { htu: 'http://api.example.evil.example/api', base: HOST, target: '/api', cause: 'host' },
  { htu: 'http://other.example:8000/api', base: 'http://api.example:8000', target: '/api', cause: 'host' },
  { htu: 'http://[::2]:8000/api', base: 'http://[::1]:8000', target: '/api', cause: 'host' },
  { htu: 'http://127.0.0.1/api', base: 'http://localhost', target: '/api', cause: 'host' },
  { htu: 'http://127.1/api', base: 'http://127.0.0.1', target: '/api', cause: 'host' },
  { htu: 'http://api.example:8000/api', base: HOST, target: '/api', cause: 'port' },
  { htu: 'http://api.example/api', base: 'http://api.example:8000', target: '/api', cause: 'port' },
  { htu: 'http://api.example:443/api', base: HOST, target: '/api', cause: 'port' },
  { htu: 'https://api.example:80/api', base: 'https://api.example', target: '/api', cause: 'port' },
  { htu: 'http://[::1]/api', base: 'http://[::1]:8000', target: '/api', cause: 'port' },
  { htu: 'http://api.example/svc/api', base: HOST, target: '/api', cause: 'prefix' },
  { htu: 'http://api.example/a/svc/api', base: 'http://api.example/svc', target: '/api', cause: 'prefix' },
  { htu: 'http://api.example/api', base: 'http://api.example/svc', target: '/api', cause: 'prefix_extra' },
  { htu: 'http://api.example/api/', base: HOST, target: '/api', cause: 'trailing_slash' },
  { htu: 'http://api.example/api', base: HOST, target: '/api/', cause: 'trailing_slash' },
  { htu: 'http://api.example/svc', base: 'http://api.example/svc', target: '/', cause: 'trailing_slash' },
  { htu: 'http://api.example/API', base: HOST, target: '/api', cause: 'path_case' },
  { htu: 'http://api.example/api', base: HOST, target: '/Api', cause: 'path_case' },
  { htu: 'http://api.example/a%2Fb', base: HOST, target: '/a/b', cause: 'path_rewritten' },
  { htu: 'http://api.example/a/b', base: HOST, target: '/a%2fb', cause: 'path_rewritten' },
  { htu: 'http://api.example/a//b', base: HOST, target: '/a/b', cause: 'path_rewritten' },
  { htu: 'http://api.example//api', base: HOST, target: '/api', cause: 'path_rewritten' },
  { htu: 'http://api.example/a%2F/b', base: HOST, target: '/a/b', cause: 'path_rewritten' },
  { htu: 'http://api.example/a%3Ab', base: HOST, target: '/a:b', cause: 'path_rewritten' },
  { htu: 'http://api.example/a%7Cb', base: HOST, target: '/a|b', cause: 'path_rewritten' },
  { htu: 'http://api.example/%2561', base: HOST, target: '/%61', cause: 'path' },
  { htu: 'http://api.example/%FF', base: HOST, target: '/%FE', cause: 'path' },
  { htu: 'http://api.example/api/public', base: HOST, target: '/api/private', cause: 'path' },
  { htu: 'http://api.example/api/private', base: HOST, target: '/api/private-scoped', cause: 'path' },
  { htu: 'http://api.example/api/private/..', base: HOST, target: '/api/private', cause: 'path' },
  { htu: 'http://api.example/api;x', base: HOST, target: '/api', cause: 'path' },
  { htu: 'http://api.example', base: HOST, target: '/api', cause: 'path' },
  { htu: 'http://api.example?/api', base: HOST, target: '/api', cause: 'path' },
  { htu: 'http://api.example/e\u0301', base: HOST, target: '/%C3%A9', cause: 'path' }
]

t.test('An htu is refused with its cause if it names another URL', async t => {
  for (const { htu, base, target, cause } of different) {
    const refusal = refusalOf(() => verifyHtu(htu, urlOf(base, target)))
    t.equal(refusal.reason, 'htu_mismatch', `${htu} is not ${target} of ${base}`)
    t.equal(refusal.detail?.cause, cause, `${htu} differs from ${target} of ${base} in ${cause}`)
    t.doesNotThrow(() => verifyHtu(urlOf(base, target).href, urlOf(base, target)))
  }
})

/** `accepted` is the nearest text that is accepted for /api of http://api.example. */
const invalid: Array<{ htu: string, cause: string, accepted: string }> = [
  { htu: '', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: '/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: '//api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'http:/api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'http:api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'http:\\\\api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'ftp://api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'wss://api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'javascript://api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: ' http://api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'http\n://api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: '://api.example/api', cause: 'not_absolute', accepted: 'http://api.example/api' },
  { htu: 'http://user@api.example/api', cause: 'user_info', accepted: 'http://api.example/api' },
  { htu: 'http://user:pass@api.example/api', cause: 'user_info', accepted: 'http://api.example/api' },
  { htu: 'http://@api.example/api', cause: 'user_info', accepted: 'http://api.example/api' },
  { htu: 'http://api.example@evil.example/api', cause: 'user_info', accepted: 'http://api.example/api' },
  { htu: 'http:///api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://:80/api', cause: 'authority', accepted: 'http://api.example:80/api' },
  { htu: 'http://api.example:0/api', cause: 'authority', accepted: 'http://api.example:80/api' },
  { htu: 'http://api.example:65536/api', cause: 'authority', accepted: 'http://api.example:80/api' },
  { htu: 'http://api.example:000080/api', cause: 'authority', accepted: 'http://api.example:00080/api' },
  { htu: 'http://api.example:8a/api', cause: 'authority', accepted: 'http://api.example:80/api' },
  { htu: 'http://api.example:+80/api', cause: 'authority', accepted: 'http://api.example:80/api' },
  { htu: 'http://api.example:80:80/api', cause: 'authority', accepted: 'http://api.example:80/api' },
  { htu: 'http://api example/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://api.example\\/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://api.exa\tmple/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://api%2fexample/api', cause: 'authority', accepted: 'http://api%2eexample/api' },
  { htu: 'http://api.example%00/api', cause: 'authority', accepted: 'http://api.exampl%65/api' },
  { htu: 'http://api.example%/api', cause: 'authority', accepted: 'http://api.exampl%65/api' },
  { htu: 'http://api.example%FF/api', cause: 'authority', accepted: 'http://api.exampl%65/api' },
  { htu: 'http://℀pi.example/api', cause: 'authority', accepted: 'http://ａpi.example/api' },
  { htu: 'http://api／x.example/api', cause: 'authority', accepted: 'http://api．example/api' },
  { htu: 'http://[::1/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://[::1]x/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://[]/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://[v1.a]/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://[fe80::1%25eth0]/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://::1/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: `http://${'a'.repeat(256)}/api`, cause: 'authority', accepted: 'http://api.example/api' },
  { htu: `http://${'ü'.repeat(1025)}/api`, cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://api.example/api ', cause: 'path', accepted: 'http://api.example/api' },
  { htu: 'http://api.example\n/api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://api.example/ap\ni', cause: 'path', accepted: 'http://api.example/api' },
  { htu: 'http://api.example/\u0000api', cause: 'path', accepted: 'http://api.example/api' },
  { htu: 'http://api.example/api\u007f', cause: 'path', accepted: 'http://api.example/api' },
  { htu: 'http://api.example\\api', cause: 'authority', accepted: 'http://api.example/api' },
  { htu: 'http://api.example/x\\../api', cause: 'path', accepted: 'http://api.example/x/../api' },
  { htu: 'http://api.example/api%', cause: 'path', accepted: 'http://api.example/ap%69' },
  { htu: 'http://api.example/api%6', cause: 'path', accepted: 'http://api.example/ap%69' },
  { htu: 'http://api.example/ap%6g', cause: 'path', accepted: 'http://api.example/ap%69' },
  { htu: 'http://api.example/ap%g9', cause: 'path', accepted: 'http://api.example/ap%69' },
  { htu: 'http://api.example/api\ud800', cause: 'path', accepted: 'http://api.example/api' }
]

t.test('An htu that is no absolute http or https URL is refused as such, its nearest neighbour is not', async t => {
  for (const { htu, cause, accepted } of invalid) {
    const title = JSON.stringify(htu.slice(0, 60))
    const refusal = refusalOf(() => verifyHtu(htu, urlOf(HOST, '/api')))
    t.equal(refusal.reason, 'htu_invalid', title)
    t.strictSame(refusal.detail, { cause }, `${title} fails for its ${cause}`)
    t.doesNotThrow(() => verifyHtu(accepted, urlOf(HOST, '/api')), accepted)
  }
})

t.test('The log fields of a mismatch are bounded, plain ASCII and without a query', async t => {
  const refusal = refusalOf(() =>
    verifyHtu(
      `http://bücher.example/é${'x'.repeat(9000)}?access_token=secret#secret`,
      urlOf(HOST, `/${'y'.repeat(9000)}?secret`)
    )
  )
  const { htu, url } = refusal.detail as Record<string, string>
  t.equal(htu!.length, 512)
  t.equal(url!.length, 512)
  t.match(htu, /^http:\/\/xn--bcher-kva\.example\/%C3%A9x+\.\.\.$/)
  t.match(`${htu} ${url}`, /^[\x20-\x7e]+$/)
  t.notMatch(`${htu} ${url}`, /secret/)
  const short = refusalOf(() => verifyHtu('https://api.example:8443/svc/api?secret', urlOf(HOST, '/api?secret')))
  t.strictSame(short.detail, {
    htu: 'https://api.example:8443/svc/api',
    url: 'http://api.example/api',
    cause: 'scheme'
  })
})

t.test('Each cause has its advice, and every cause appears in a row above', async t => {
  t.strictSame([...new Set(different.map(({ cause }) => cause))].sort(), Object.keys(HTU_ADVICE).sort())
  for (const advice of Object.values(HTU_ADVICE)) t.match(advice, /\.$/)
})

t.test('docs/reference/troubleshooting.md has a cure for every cause', async t => {
  const page = readFileSync(
    join(import.meta.dirname, '../../../../docs/reference/troubleshooting.md'),
    'utf8'
  )
  const rows = page.split('\n').filter(line => line.startsWith('| `'))
  const named = (reason: string, cause: string): boolean =>
    rows.some(row => row.includes(`| \`${reason}\``) && row.includes(`\`${cause}\``))
  for (const cause of Object.keys(HTU_ADVICE)) t.ok(named('htu_mismatch', cause), `htu_mismatch ${cause}`)
  for (const cause of new Set(invalid.map(({ cause }) => cause))) {
    t.ok(named('htu_invalid', cause), `htu_invalid ${cause}`)
  }
})
