import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Message } from '../../../lib/message.ts'
import { Refusal } from '../../../lib/refusal.ts'
import type { HtuCause, RequestUrl } from '../../../lib/url/request-url.ts'
import { compareHtu, HTU_ADVICE, createRequestUrlResolver } from '../../../lib/url/request-url.ts'

/** The URL of a request to `target` of `base`, as the service makes it. */
function urlOf (base: string, target: string): RequestUrl {
  const resolve = createRequestUrlResolver({ trustProxy: false, publicUrl: base })
  return resolve({ target, headers: {}, host: undefined, hostCount: 0, encrypted: false, remoteAddress: undefined } as Message)
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

// [htu, base of the request, target of the request]
const equal: Record<string, Array<[string, string, string]>> = {
  'equal as they stand': [
    ['http://api.example/api/private', HOST, '/api/private'],
    ['https://api.example/api/private', 'https://api.example', '/api/private'],
    ['http://api.example:8000/', 'http://api.example:8000', '/'],
    ['https://api.example/svc/api/private', 'https://api.example/svc', '/api/private'],
    ['http://[::1]:8000/api', 'http://[::1]:8000', '/api'],
    ['http://127.0.0.1:8000/api', 'http://127.0.0.1:8000', '/api'],
    ['http://api.example/a;b=c,d/e@f:g!$&\'()*+', HOST, '/a;b=c,d/e@f:g!$&\'()*+'],
    ['http://api.example/a|b{c}^d`e"f<g>', HOST, '/a|b{c}^d`e"f<g>'],
    ['http://api.example//api', HOST, '//api'],
    ['http://api.example/a%2Fb', HOST, '/a%2Fb'],
    ['http://api.example/.well-known/x', HOST, '/.well-known/x'],
    ['http://api.example/a/...', HOST, '/a/...'],
    ['http://api.example/a./b..', HOST, '/a./b..'],
    ['http://api.example/~user/-_.', HOST, '/~user/-_.'],
    ['http://api.example/%FF', HOST, '/%FF']
  ],
  'RFC 3986 section 6.2.2': [
    ['http://a/./b/../b/%63/%7bfoo%7d', 'http://a', '/b/c/%7Bfoo%7D'],
    ['HTTP://A/b/c/%7Bfoo%7D', 'http://a', '/b/c/%7Bfoo%7D']
  ],
  'RFC 3986 section 6.2.2.1: case': [
    ['HTTP://www.EXAMPLE.com/', 'http://www.example.com', '/'],
    ['http://www.example.com/', 'http://www.example.com', '/'],
    ['HTTPS://WWW.EXAMPLE.COM/x', 'https://www.example.com', '/x'],
    ['hTTp://api.example/%3a', HOST, '/%3A'],
    ['http://api.example/%3A', HOST, '/%3a'],
    ['http://api.example/%c3%a9', HOST, '/%C3%A9'],
    ['http://api.example/%C3%a9', HOST, '/%c3%A9'],
    ['http://api.example/a%2fb', HOST, '/a%2Fb'],
    ['http://[FE80::ABCD]/', 'http://[fe80::abcd]', '/']
  ],
  'RFC 3986 section 6.2.2.2: percent-encoding': [
    ['http://api.example/%7Euser', HOST, '/~user'],
    ['http://api.example/~user', HOST, '/%7Euser'],
    ['http://api.example/%7euser', HOST, '/~user'],
    ['http://api.example/%41%5A%61%7a', HOST, '/AZaz'],
    ['http://api.example/AZaz', HOST, '/%41%5A%61%7a'],
    ['http://api.example/%30%39', HOST, '/09'],
    ['http://api.example/%2D%2E%5F%7E', HOST, '/-._~'],
    ['http://api.example/x%2Ey', HOST, '/x.y'],
    ['http://api.example/%61pi/p%72ivate', HOST, '/api/private'],
    ['http://%61pi.example/', HOST, '/'],
    ['http://api%2Eexample/', HOST, '/']
  ],
  'RFC 3986 section 6.2.2.3: dot segments of the proof': [
    ['http://api.example/a/./b', HOST, '/a/b'],
    ['http://api.example/a/../b', HOST, '/b'],
    ['http://api.example/a/b/c/./../../g', HOST, '/a/g'],
    ['http://api.example/mid/content=5/../6', HOST, '/mid/6'],
    ['http://api.example/./', HOST, '/'],
    ['http://api.example/../', HOST, '/'],
    ['http://api.example/..', HOST, '/'],
    ['http://api.example/.', HOST, '/'],
    ['http://api.example/a/.', HOST, '/a/'],
    ['http://api.example/a/..', HOST, '/'],
    ['http://api.example/../../g', HOST, '/g'],
    ['http://api.example/a/%2e/b', HOST, '/a/b'],
    ['http://api.example/a/%2E%2e/b', HOST, '/b'],
    ['http://api.example/a/.%2e/b', HOST, '/b'],
    ['http://api.example/a//../b', HOST, '/a/b'],
    ['http://api.example/a/...', HOST, '/a/...']
  ],
  'RFC 3986 section 5.4, resolved against http://a/b/c/d;p': [
    ['http://a/b/c/./g', 'http://a', '/b/c/g'],
    ['http://a/b/c/./g/', 'http://a', '/b/c/g/'],
    ['http://a/b/c/.', 'http://a', '/b/c/'],
    ['http://a/b/c/./', 'http://a', '/b/c/'],
    ['http://a/b/c/..', 'http://a', '/b/'],
    ['http://a/b/c/../', 'http://a', '/b/'],
    ['http://a/b/c/../g', 'http://a', '/b/g'],
    ['http://a/b/c/../..', 'http://a', '/'],
    ['http://a/b/c/../../g', 'http://a', '/g'],
    ['http://a/b/c/../../../g', 'http://a', '/g'],
    ['http://a/b/c/../../../../g', 'http://a', '/g'],
    ['http://a/b/c/g.', 'http://a', '/b/c/g.'],
    ['http://a/b/c/.g', 'http://a', '/b/c/.g'],
    ['http://a/b/c/g..', 'http://a', '/b/c/g..'],
    ['http://a/b/c/..g', 'http://a', '/b/c/..g'],
    ['http://a/b/c/./../g', 'http://a', '/b/g'],
    ['http://a/b/c/./g/.', 'http://a', '/b/c/g/'],
    ['http://a/b/c/g/./h', 'http://a', '/b/c/g/h'],
    ['http://a/b/c/g/../h', 'http://a', '/b/c/h'],
    ['http://a/b/c/g;x=1/./y', 'http://a', '/b/c/g;x=1/y'],
    ['http://a/b/c/g;x=1/../y', 'http://a', '/b/c/y'],
    ['http://a/b/c/g?y/./x', 'http://a', '/b/c/g'],
    ['http://a/b/c/g#s/../x', 'http://a', '/b/c/g']
  ],
  'RFC 3986 section 6.2.3: scheme': [
    ['http://example.com', 'http://example.com', '/'],
    ['http://example.com/', 'http://example.com', '/'],
    ['http://example.com:/', 'http://example.com', '/'],
    ['http://example.com:80/', 'http://example.com', '/'],
    ['http://example.com:80', 'http://example.com', '/'],
    ['http://example.com:', 'http://example.com', '/'],
    ['https://example.com:443/x', 'https://example.com', '/x'],
    ['https://example.com/x', 'https://example.com:443', '/x'],
    ['http://example.com/x', 'http://example.com:80', '/x'],
    ['http://[::1]:80/x', 'http://[::1]', '/x'],
    ['http://[::1]:/x', 'http://[::1]', '/x'],
    ['https://example.com:08443/x', 'https://example.com:8443', '/x']
  ],
  'query and fragment of the proof, which do not count': [
    ['http://api.example/api?x=1', HOST, '/api'],
    ['http://api.example/api?', HOST, '/api?x=1'],
    ['http://api.example/api#f', HOST, '/api'],
    ['http://api.example/api#', HOST, '/api'],
    ['http://api.example/api?x#f', HOST, '/api?y'],
    ['http://api.example/api#f?x', HOST, '/api'],
    ['http://api.example?x=/y', HOST, '/?z'],
    ['http://api.example#/y', HOST, '/'],
    ['http://api.example/api?a b\\c', HOST, '/api'],
    ['http://api.example/api?x=a@b', HOST, '/api'],
    ['http://api.example/api', HOST, '/api?x=/../y%zz']
  ],
  'hosts in other forms': [
    ['http://bücher.example/', 'http://xn--bcher-kva.example', '/'],
    ['http://BÜCHER.example/', 'http://xn--bcher-kva.example', '/'],
    ['http://b%C3%BCcher.example/', 'http://xn--bcher-kva.example', '/'],
    ['http://XN--BCHER-KVA.example/', 'http://bücher.example', '/'],
    ['http://日本語.jp/', 'http://xn--wgv71a119e.jp', '/'],
    ['http://[0:0:0:0:0:0:0:1]/', 'http://[::1]', '/'],
    ['http://[2001:DB8::0:1]:8000/', 'http://[2001:db8::1]:8000', '/'],
    ['http://[::ffff:192.0.2.1]/', 'http://[::ffff:c000:201]', '/'],
    ['http://my_service:8000/', 'http://my_service:8000', '/']
  ],
  'paths in another script': [
    ['http://api.example/é', HOST, '/%C3%A9'],
    ['http://api.example/日本/x', HOST, '/%E6%97%A5%E6%9C%AC/x'],
    ['http://api.example/😀', HOST, '/%F0%9F%98%80']
  ]
}

t.test('An htu is accepted where it names the URL of the request', async (t) => {
  for (const [group, rows] of Object.entries(equal)) {
    t.test(group, async (t) => {
      for (const [htu, base, target] of rows) t.doesNotThrow(() => compareHtu(htu, urlOf(base, target)), `${htu} is ${target} of ${base}`)
    })
  }
})

// [htu, base of the request, target of the request, cause]
const different: Array<[string, string, string, HtuCause]> = [
  ['https://api.example/api', HOST, '/api', 'scheme'],
  ['http://api.example/api', 'https://api.example', '/api', 'scheme'],
  ['https://api.example:8000/api', 'http://api.example:8000', '/api', 'scheme'],
  ['https://other.example/api', HOST, '/other', 'scheme'],
  ['https://api.example:80/api', HOST, '/api', 'scheme'],
  ['http://other.example/api', HOST, '/api', 'host'],
  ['http://api.example./api', HOST, '/api', 'host'],
  ['http://api.example.evil.example/api', HOST, '/api', 'host'],
  ['http://other.example:8000/api', 'http://api.example:8000', '/api', 'host'],
  ['http://[::2]:8000/api', 'http://[::1]:8000', '/api', 'host'],
  ['http://127.0.0.1/api', 'http://localhost', '/api', 'host'],
  ['http://127.1/api', 'http://127.0.0.1', '/api', 'host'],
  ['http://api.example:8000/api', HOST, '/api', 'port'],
  ['http://api.example/api', 'http://api.example:8000', '/api', 'port'],
  ['http://api.example:443/api', HOST, '/api', 'port'],
  ['https://api.example:80/api', 'https://api.example', '/api', 'port'],
  ['http://[::1]/api', 'http://[::1]:8000', '/api', 'port'],
  ['http://api.example/svc/api', HOST, '/api', 'prefix'],
  ['http://api.example/a/svc/api', 'http://api.example/svc', '/api', 'prefix'],
  ['http://api.example/api', 'http://api.example/svc', '/api', 'prefix_extra'],
  ['http://api.example/api/', HOST, '/api', 'trailing_slash'],
  ['http://api.example/api', HOST, '/api/', 'trailing_slash'],
  ['http://api.example/svc', 'http://api.example/svc', '/', 'trailing_slash'],
  ['http://api.example/API', HOST, '/api', 'path_case'],
  ['http://api.example/api', HOST, '/Api', 'path_case'],
  ['http://api.example/a%2Fb', HOST, '/a/b', 'path_rewritten'],
  ['http://api.example/a/b', HOST, '/a%2fb', 'path_rewritten'],
  ['http://api.example/a//b', HOST, '/a/b', 'path_rewritten'],
  ['http://api.example//api', HOST, '/api', 'path_rewritten'],
  ['http://api.example/a%2F/b', HOST, '/a/b', 'path_rewritten'],
  ['http://api.example/a%3Ab', HOST, '/a:b', 'path_rewritten'],
  ['http://api.example/a%7Cb', HOST, '/a|b', 'path_rewritten'],
  ['http://api.example/%2561', HOST, '/%61', 'path'],
  ['http://api.example/%FF', HOST, '/%FE', 'path'],
  ['http://api.example/api/public', HOST, '/api/private', 'path'],
  ['http://api.example/api/private', HOST, '/api/private-scoped', 'path'],
  ['http://api.example/api/private/..', HOST, '/api/private', 'path'],
  ['http://api.example/api;x', HOST, '/api', 'path'],
  ['http://api.example', HOST, '/api', 'path'],
  ['http://api.example?/api', HOST, '/api', 'path'],
  ['http://api.example/e\u0301', HOST, '/%C3%A9', 'path']
]

t.test('An htu is refused with its cause where it names another URL', async (t) => {
  for (const [htu, base, target, cause] of different) {
    const refusal = refusalOf(() => compareHtu(htu, urlOf(base, target)))
    t.equal(refusal.reason, 'htu_mismatch', `${htu} is not ${target} of ${base}`)
    t.equal(refusal.detail?.cause, cause, `${htu} differs from ${target} of ${base} in ${cause}`)
    t.doesNotThrow(() => compareHtu(urlOf(base, target).href, urlOf(base, target)))
  }
})

// [htu, cause, the nearest text that is accepted for /api of http://api.example]
const invalid: Array<[string, string, string]> = [
  ['', 'not_absolute', 'http://api.example/api'],
  ['/api', 'not_absolute', 'http://api.example/api'],
  ['//api.example/api', 'not_absolute', 'http://api.example/api'],
  ['api.example/api', 'not_absolute', 'http://api.example/api'],
  ['http:/api.example/api', 'not_absolute', 'http://api.example/api'],
  ['http:api.example/api', 'not_absolute', 'http://api.example/api'],
  ['http:\\\\api.example/api', 'not_absolute', 'http://api.example/api'],
  ['ftp://api.example/api', 'not_absolute', 'http://api.example/api'],
  ['wss://api.example/api', 'not_absolute', 'http://api.example/api'],
  ['javascript://api.example/api', 'not_absolute', 'http://api.example/api'],
  [' http://api.example/api', 'not_absolute', 'http://api.example/api'],
  ['http\n://api.example/api', 'not_absolute', 'http://api.example/api'],
  ['://api.example/api', 'not_absolute', 'http://api.example/api'],
  ['http://user@api.example/api', 'user_info', 'http://api.example/api'],
  ['http://user:pass@api.example/api', 'user_info', 'http://api.example/api'],
  ['http://@api.example/api', 'user_info', 'http://api.example/api'],
  ['http://api.example@evil.example/api', 'user_info', 'http://api.example/api'],
  ['http:///api', 'authority', 'http://api.example/api'],
  ['http://', 'authority', 'http://api.example/api'],
  ['http://:80/api', 'authority', 'http://api.example:80/api'],
  ['http://api.example:0/api', 'authority', 'http://api.example:80/api'],
  ['http://api.example:65536/api', 'authority', 'http://api.example:80/api'],
  ['http://api.example:000080/api', 'authority', 'http://api.example:00080/api'],
  ['http://api.example:8a/api', 'authority', 'http://api.example:80/api'],
  ['http://api.example:+80/api', 'authority', 'http://api.example:80/api'],
  ['http://api.example:80:80/api', 'authority', 'http://api.example:80/api'],
  ['http://api example/api', 'authority', 'http://api.example/api'],
  ['http://api.example\\/api', 'authority', 'http://api.example/api'],
  ['http://api.exa\tmple/api', 'authority', 'http://api.example/api'],
  ['http://api%2fexample/api', 'authority', 'http://api%2eexample/api'],
  ['http://api.example%00/api', 'authority', 'http://api.exampl%65/api'],
  ['http://api.example%/api', 'authority', 'http://api.exampl%65/api'],
  ['http://api.example%FF/api', 'authority', 'http://api.exampl%65/api'],
  ['http://℀pi.example/api', 'authority', 'http://ａpi.example/api'],
  ['http://api／x.example/api', 'authority', 'http://api．example/api'],
  ['http://[::1/api', 'authority', 'http://api.example/api'],
  ['http://[::1]x/api', 'authority', 'http://api.example/api'],
  ['http://[]/api', 'authority', 'http://api.example/api'],
  ['http://[v1.a]/api', 'authority', 'http://api.example/api'],
  ['http://[fe80::1%25eth0]/api', 'authority', 'http://api.example/api'],
  ['http://::1/api', 'authority', 'http://api.example/api'],
  [`http://${'a'.repeat(256)}/api`, 'authority', 'http://api.example/api'],
  [`http://${'ü'.repeat(1025)}/api`, 'authority', 'http://api.example/api'],
  ['http://api.example/api ', 'path', 'http://api.example/api'],
  ['http://api.example\n/api', 'authority', 'http://api.example/api'],
  ['http://api.example/ap\ni', 'path', 'http://api.example/api'],
  ['http://api.example/\u0000api', 'path', 'http://api.example/api'],
  ['http://api.example/api\u007f', 'path', 'http://api.example/api'],
  ['http://api.example\\api', 'authority', 'http://api.example/api'],
  ['http://api.example/x\\../api', 'path', 'http://api.example/x/../api'],
  ['http://api.example/api%', 'path', 'http://api.example/ap%69'],
  ['http://api.example/api%6', 'path', 'http://api.example/ap%69'],
  ['http://api.example/ap%6g', 'path', 'http://api.example/ap%69'],
  ['http://api.example/ap%g9', 'path', 'http://api.example/ap%69'],
  ['http://api.example/api\ud800', 'path', 'http://api.example/api']
]

t.test('An htu that is no absolute http or https URL is refused as such, its nearest neighbour is not', async (t) => {
  for (const [htu, cause, accepted] of invalid) {
    const title = JSON.stringify(htu.slice(0, 60))
    const refusal = refusalOf(() => compareHtu(htu, urlOf(HOST, '/api')))
    t.equal(refusal.reason, 'htu_invalid', title)
    t.strictSame(refusal.detail, { cause }, `${title} fails for its ${cause}`)
    t.doesNotThrow(() => compareHtu(accepted, urlOf(HOST, '/api')), accepted)
  }
})

t.test('What a mismatch logs is bounded, plain ASCII and without a query', async (t) => {
  const refusal = refusalOf(() => compareHtu(`http://bücher.example/é${'x'.repeat(9000)}?access_token=secret#secret`, urlOf(HOST, `/${'y'.repeat(9000)}?secret`)))
  const { htu, url } = refusal.detail as Record<string, string>
  t.equal(htu!.length, 512)
  t.equal(url!.length, 512)
  t.match(htu, /^http:\/\/xn--bcher-kva\.example\/%C3%A9x+\.\.\.$/)
  t.match(`${htu} ${url}`, /^[\x20-\x7e]+$/)
  t.notMatch(`${htu} ${url}`, /secret/)
  const short = refusalOf(() => compareHtu('https://api.example:8443/svc/api?secret', urlOf(HOST, '/api?secret')))
  t.strictSame(short.detail, { htu: 'https://api.example:8443/svc/api', url: 'http://api.example/api', cause: 'scheme' })
})

t.test('Each cause has its advice, and every cause that can be told appears above', async (t) => {
  t.strictSame([...new Set(different.map((row) => row[3]))].sort(), Object.keys(HTU_ADVICE).sort())
  for (const advice of Object.values(HTU_ADVICE)) t.match(advice, /\.$/)
})

t.test('docs/behind-a-proxy.md tells a cure for every cause', async (t) => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', '..', 'docs', 'behind-a-proxy.md'), 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  const named = (reason: string, cause: string): boolean => rows.some((row) => row.includes(`| \`${reason}\``) && row.includes(`\`${cause}\``))
  for (const cause of Object.keys(HTU_ADVICE)) t.ok(named('htu_mismatch', cause), `htu_mismatch ${cause}`)
  for (const cause of new Set(invalid.map((row) => row[1]))) t.ok(named('htu_invalid', cause), `htu_invalid ${cause}`)
})
