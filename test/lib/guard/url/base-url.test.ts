import t from 'tap'
import { createPeerTrust, parsePublicUrl } from '../../../../lib/guard/url/base-url.ts'
import { parseHttpUrl, urlUnder } from '../../../../lib/guard/url/http-url.ts'

t.test('A function of the app is asked about peers with an address, and only true is trust', async t => {
  const asked: unknown[] = []
  const isTrusted = createPeerTrust((address, hop) => {
    asked.push([address, hop])
    return address === '192.0.2.1' ? true : 'yes' as never
  })
  t.strictSame(['192.0.2.1', '192.0.2.2', undefined].map(address => isTrusted(address)), [true, false, false])
  t.strictSame(asked, [['192.0.2.1', 0], ['192.0.2.2', 0]])
  t.equal(createPeerTrust(['loopback'])(undefined), false)
})

t.test('A path under the address of a service follows its prefix', async t => {
  t.strictSame(urlUnder(parsePublicUrl('https://a.example/svc')!, '/x'), {
    scheme: 'https',
    host: 'a.example',
    path: '/svc/x',
    href: 'https://a.example/svc/x'
  })
})

t.test('Dot segments at the end of a URL leave a slash', async t => {
  for (const path of ['/b/c/..', '/b/.', '/b/c/../', '/b/./']) {
    t.hasStrict(parseHttpUrl(`https://a.example${path}`), { href: 'https://a.example/b/' }, path)
  }
})
