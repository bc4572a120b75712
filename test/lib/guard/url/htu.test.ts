import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Message } from '../../../../lib/guard/message.ts'
import { Refusal } from '../../../../lib/refusal.ts'
import {
  verifyHtu,
  createRequestUrlResolver,
  type HtuCause
} from '../../../../lib/guard/url/request-url.ts'
import { HTU_ADVICE } from '../../../../cli/explain/htu-advice.ts'

/** The URL of a request to `target` of `base`, as the service makes it. */
function urlOf (base: string, target: string) {
  const resolve = createRequestUrlResolver({ trustProxy: false, publicUrl: base })
  return resolve(
    { target, headers: {}, host: undefined, hostCount: 0, encrypted: false, remoteAddress: undefined } as Message
  )
}

function refusalOf (act: () => unknown) {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const HOST = 'http://api.example'

/** By the URL of the request as far as its target: an htu, and that target. */
type Compared = Record<string, ReadonlyArray<readonly [htu: string, target: string]>>

const equal: Record<string, Compared> = {
  'equal character by character': {
    [HOST]: [
      ['http://api.example/api/private', '/api/private'],
      ["http://api.example/a;b=c,d/e@f:g!$&'()*+", "/a;b=c,d/e@f:g!$&'()*+"],
      ['http://api.example/a|b{c}^d`e"f<g>', '/a|b{c}^d`e"f<g>'], ['http://api.example//api', '//api'],
      ['http://api.example/a%2Fb', '/a%2Fb'], ['http://api.example/.well-known/x', '/.well-known/x'],
      ['http://api.example/a/...', '/a/...'], ['http://api.example/a./b..', '/a./b..'],
      ['http://api.example/~user/-_.', '/~user/-_.'], ['http://api.example/%FF', '/%FF']
    ],
    'https://api.example': [['https://api.example/api/private', '/api/private']],
    'http://api.example:8000': [['http://api.example:8000/', '/']],
    'https://api.example/svc': [['https://api.example/svc/api/private', '/api/private']],
    'http://[::1]:8000': [['http://[::1]:8000/api', '/api']],
    'http://127.0.0.1:8000': [['http://127.0.0.1:8000/api', '/api']]
  },
  'RFC 3986 section 6.2.2': {
    'http://a': [['http://a/./b/../b/%63/%7bfoo%7d', '/b/c/%7Bfoo%7D'], ['HTTP://A/b/c/%7Bfoo%7D', '/b/c/%7Bfoo%7D']]
  },
  'RFC 3986 section 6.2.2.1: case': {
    'http://www.example.com': [['HTTP://www.EXAMPLE.com/', '/'], ['http://www.example.com/', '/']],
    'https://www.example.com': [['HTTPS://WWW.EXAMPLE.COM/x', '/x']],
    [HOST]: [
      ['hTTp://api.example/%3a', '/%3A'], ['http://api.example/%3A', '/%3a'],
      ['http://api.example/%c3%a9', '/%C3%A9'], ['http://api.example/%C3%a9', '/%c3%A9'],
      ['http://api.example/a%2fb', '/a%2Fb']
    ],
    'http://[fe80::abcd]': [['http://[FE80::ABCD]/', '/']]
  },
  'RFC 3986 section 6.2.2.2: percent-encoding': {
    [HOST]: [
      ['http://api.example/%7Euser', '/~user'], ['http://api.example/~user', '/%7Euser'],
      ['http://api.example/%7euser', '/~user'], ['http://api.example/%41%5A%61%7a', '/AZaz'],
      ['http://api.example/AZaz', '/%41%5A%61%7a'], ['http://api.example/%30%39', '/09'],
      ['http://api.example/%2D%2E%5F%7E', '/-._~'], ['http://api.example/x%2Ey', '/x.y'],
      ['http://api.example/%61pi/p%72ivate', '/api/private'], ['http://%61pi.example/', '/'],
      ['http://api%2Eexample/', '/']
    ]
  },
  'RFC 3986 section 6.2.2.3: dot segments of the proof': {
    [HOST]: [
      ['http://api.example/a/./b', '/a/b'], ['http://api.example/a/../b', '/b'],
      ['http://api.example/a/b/c/./../../g', '/a/g'], ['http://api.example/mid/content=5/../6', '/mid/6'],
      ['http://api.example/./', '/'], ['http://api.example/../', '/'], ['http://api.example/..', '/'],
      ['http://api.example/.', '/'], ['http://api.example/a/.', '/a/'], ['http://api.example/a/..', '/'],
      ['http://api.example/../../g', '/g'], ['http://api.example/a/%2e/b', '/a/b'],
      ['http://api.example/a/%2E%2e/b', '/b'], ['http://api.example/a/.%2e/b', '/b'],
      ['http://api.example/a//../b', '/a/b'], ['http://api.example/a/...', '/a/...']
    ]
  },
  'RFC 3986 section 5.4, resolved against http://a/b/c/d;p': {
    'http://a': [
      ['http://a/b/c/./g', '/b/c/g'], ['http://a/b/c/./g/', '/b/c/g/'], ['http://a/b/c/.', '/b/c/'],
      ['http://a/b/c/./', '/b/c/'], ['http://a/b/c/..', '/b/'], ['http://a/b/c/../', '/b/'],
      ['http://a/b/c/../g', '/b/g'], ['http://a/b/c/../..', '/'], ['http://a/b/c/../../g', '/g'],
      ['http://a/b/c/../../../g', '/g'], ['http://a/b/c/../../../../g', '/g'], ['http://a/b/c/g.', '/b/c/g.'],
      ['http://a/b/c/.g', '/b/c/.g'], ['http://a/b/c/g..', '/b/c/g..'], ['http://a/b/c/..g', '/b/c/..g'],
      ['http://a/b/c/./../g', '/b/g'], ['http://a/b/c/./g/.', '/b/c/g/'], ['http://a/b/c/g/./h', '/b/c/g/h'],
      ['http://a/b/c/g/../h', '/b/c/h'], ['http://a/b/c/g;x=1/./y', '/b/c/g;x=1/y'],
      ['http://a/b/c/g;x=1/../y', '/b/c/y'], ['http://a/b/c/g?y/./x', '/b/c/g'], ['http://a/b/c/g#s/../x', '/b/c/g']
    ]
  },
  'RFC 3986 section 6.2.3: scheme': {
    'http://example.com': [
      ['http://example.com', '/'], ['http://example.com/', '/'], ['http://example.com:/', '/'],
      ['http://example.com:80/', '/'], ['http://example.com:80', '/'], ['http://example.com:', '/']
    ],
    'https://example.com': [['https://example.com:443/x', '/x']],
    'https://example.com:443': [['https://example.com/x', '/x']],
    'http://example.com:80': [['http://example.com/x', '/x']],
    'http://[::1]': [['http://[::1]:80/x', '/x'], ['http://[::1]:/x', '/x']],
    'https://example.com:8443': [['https://example.com:08443/x', '/x']]
  },
  'query and fragment of the proof, which do not count': {
    [HOST]: [
      ['http://api.example/api?x=1', '/api'], ['http://api.example/api?', '/api?x=1'],
      ['http://api.example/api#f', '/api'], ['http://api.example/api#', '/api'],
      ['http://api.example/api?x#f', '/api?y'], ['http://api.example/api#f?x', '/api'],
      ['http://api.example?x=/y', '/?z'], ['http://api.example#/y', '/'], ['http://api.example/api?a b\\c', '/api'],
      ['http://api.example/api?x=a@b', '/api'], ['http://api.example/api', '/api?x=/../y%zz']
    ]
  },
  'hosts in other forms': {
    'http://xn--bcher-kva.example': [['http://bücher.example/', '/'], ['http://BÜCHER.example/', '/'], ['http://b%C3%BCcher.example/', '/']],
    'http://bücher.example': [['http://XN--BCHER-KVA.example/', '/']],
    'http://xn--wgv71a119e.jp': [['http://日本語.jp/', '/']],
    'http://[::1]': [['http://[0:0:0:0:0:0:0:1]/', '/']],
    'http://[2001:db8::1]:8000': [['http://[2001:DB8::0:1]:8000/', '/']],
    'http://[::ffff:c000:201]': [['http://[::ffff:192.0.2.1]/', '/']],
    'http://my_service:8000': [['http://my_service:8000/', '/']]
  },
  'paths in another script': {
    [HOST]: [
      ['http://api.example/é', '/%C3%A9'],
      ['http://api.example/日本/x', '/%E6%97%A5%E6%9C%AC/x'],
      ['http://api.example/😀', '/%F0%9F%98%80']
    ]
  }
}

t.test('An htu is accepted if it names the URL of the request', async t => {
  for (const [group, rows] of Object.entries(equal)) {
    t.test(group, async t => {
      for (const [base, pairs] of Object.entries(rows)) {
        for (const [htu, target] of pairs) {
          t.doesNotThrow(() => verifyHtu(htu, urlOf(base, target)), `${htu} is ${target} of ${base}`)
        }
      }
    })
  }
})

const different: Record<HtuCause, Compared> = {
  scheme: {
    [HOST]: [
      ['https://api.example/api', '/api'], ['https://other.example/api', '/other'],
      ['https://api.example:80/api', '/api']
    ],
    'https://api.example': [['http://api.example/api', '/api']],
    'http://api.example:8000': [['https://api.example:8000/api', '/api']]
  },
  host: {
    [HOST]: [
      ['http://other.example/api', '/api'], ['http://api.example./api', '/api'],
      ['http://api.example.evil.example/api', '/api']
    ],
    'http://api.example:8000': [['http://other.example:8000/api', '/api']],
    'http://[::1]:8000': [['http://[::2]:8000/api', '/api']],
    'http://localhost': [['http://127.0.0.1/api', '/api']],
    'http://127.0.0.1': [['http://127.1/api', '/api']]
  },
  port: {
    [HOST]: [['http://api.example:8000/api', '/api'], ['http://api.example:443/api', '/api']],
    'http://api.example:8000': [['http://api.example/api', '/api']],
    'https://api.example': [['https://api.example:80/api', '/api']],
    'http://[::1]:8000': [['http://[::1]/api', '/api']]
  },
  prefix: {
    [HOST]: [['http://api.example/svc/api', '/api']],
    'http://api.example/svc': [['http://api.example/a/svc/api', '/api']]
  },
  prefix_extra: { 'http://api.example/svc': [['http://api.example/api', '/api']] },
  trailing_slash: {
    [HOST]: [['http://api.example/api/', '/api'], ['http://api.example/api', '/api/']],
    'http://api.example/svc': [['http://api.example/svc', '/']]
  },
  path_case: { [HOST]: [['http://api.example/API', '/api'], ['http://api.example/api', '/Api']] },
  path_rewritten: {
    [HOST]: [
      ['http://api.example/a%2Fb', '/a/b'], ['http://api.example/a/b', '/a%2fb'], ['http://api.example/a//b', '/a/b'],
      ['http://api.example//api', '/api'], ['http://api.example/a%2F/b', '/a/b'],
      ['http://api.example/a%3Ab', '/a:b'], ['http://api.example/a%7Cb', '/a|b']
    ]
  },
  path: {
    [HOST]: [
      ['http://api.example/%2561', '/%61'], ['http://api.example/%FF', '/%FE'],
      ['http://api.example/api/public', '/api/private'], ['http://api.example/api/private', '/api/private-scoped'],
      ['http://api.example/api/private/..', '/api/private'], ['http://api.example/api;x', '/api'],
      ['http://api.example', '/api'], ['http://api.example?/api', '/api'], ['http://api.example/e\u0301', '/%C3%A9']
    ]
  }
}

t.test('An htu is refused with its cause if it names another URL', async t => {
  for (const [cause, rows] of Object.entries(different)) {
    for (const [base, pairs] of Object.entries(rows)) {
      for (const [htu, target] of pairs) {
        const refusal = refusalOf(() => verifyHtu(htu, urlOf(base, target)))
        t.equal(refusal.reason, 'htu_mismatch', `${htu} is not ${target} of ${base}`)
        t.equal(refusal.detail?.cause, cause, `${htu} differs from ${target} of ${base} in ${cause}`)
        t.doesNotThrow(() => verifyHtu(urlOf(base, target).href, urlOf(base, target)))
      }
    }
  }
})

/** By cause and by the nearest text that is accepted for /api of http://api.example. */
const invalid: Record<string, Record<string, readonly string[]>> = {
  not_absolute: {
    'http://api.example/api': [
      '', '/api', '//api.example/api', 'api.example/api', 'http:/api.example/api', 'http:api.example/api',
      'http:\\\\api.example/api', 'ftp://api.example/api', 'wss://api.example/api', 'javascript://api.example/api',
      ' http://api.example/api', 'http\n://api.example/api', '://api.example/api'
    ]
  },
  user_info: {
    'http://api.example/api': [
      'http://user@api.example/api', 'http://user:pass@api.example/api', 'http://@api.example/api',
      'http://api.example@evil.example/api'
    ]
  },
  authority: {
    'http://api.example/api': [
      'http:///api', 'http://', 'http://api example/api', 'http://api.example\\/api', 'http://api.exa\tmple/api',
      'http://[::1/api', 'http://[::1]x/api', 'http://[]/api', 'http://[v1.a]/api', 'http://[fe80::1%25eth0]/api',
      'http://::1/api', `http://${'a'.repeat(256)}/api`, `http://${'ü'.repeat(1025)}/api`, 'http://api.example\n/api',
      'http://api.example\\api'
    ],
    'http://api.example:80/api': [
      'http://:80/api', 'http://api.example:0/api', 'http://api.example:65536/api', 'http://api.example:8a/api',
      'http://api.example:+80/api', 'http://api.example:80:80/api'
    ],
    'http://api.example:00080/api': ['http://api.example:000080/api'],
    'http://api%2eexample/api': ['http://api%2fexample/api'],
    'http://api.exampl%65/api': ['http://api.example%00/api', 'http://api.example%/api', 'http://api.example%FF/api'],
    'http://ａpi.example/api': ['http://℀pi.example/api'],
    'http://api．example/api': ['http://api／x.example/api']
  },
  path: {
    'http://api.example/api': [
      'http://api.example/api ', 'http://api.example/ap\ni', 'http://api.example/\u0000api',
      'http://api.example/api\u007f', 'http://api.example/api\ud800'
    ],
    'http://api.example/x/../api': ['http://api.example/x\\../api'],
    'http://api.example/ap%69': [
      'http://api.example/api%', 'http://api.example/api%6', 'http://api.example/ap%6g', 'http://api.example/ap%g9'
    ]
  }
}

t.test('An htu that is no absolute http or https URL is refused as such, its nearest neighbour is not', async t => {
  for (const [cause, neighbours] of Object.entries(invalid)) {
    for (const [accepted, texts] of Object.entries(neighbours)) {
      t.doesNotThrow(() => verifyHtu(accepted, urlOf(HOST, '/api')), accepted)
      for (const htu of texts) {
        const title = JSON.stringify(htu.slice(0, 60))
        const refusal = refusalOf(() => verifyHtu(htu, urlOf(HOST, '/api')))
        t.equal(refusal.reason, 'htu_invalid', title)
        t.strictSame(refusal.detail, { cause }, `${title} fails for its ${cause}`)
      }
    }
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
  t.strictSame(Object.keys(different).sort(), Object.keys(HTU_ADVICE).sort())
  for (const advice of Object.values(HTU_ADVICE)) t.match(advice, /\.$/)
})

t.test('docs/reference/troubleshooting.md has a cure for every cause', async t => {
  const page = readFileSync(
    join(import.meta.dirname, '../../../../docs/reference/troubleshooting.md'),
    'utf8'
  )
  const rows = page.split('\n').filter(line => line.startsWith('| `'))
  const named = (reason: string, cause: string) =>
    rows.some(row => row.includes(`| \`${reason}\``) && row.includes(`\`${cause}\``))
  for (const cause of Object.keys(HTU_ADVICE)) t.ok(named('htu_mismatch', cause), `htu_mismatch ${cause}`)
  for (const cause of Object.keys(invalid)) {
    t.ok(named('htu_invalid', cause), `htu_invalid ${cause}`)
  }
})
