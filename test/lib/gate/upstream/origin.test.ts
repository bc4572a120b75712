import t from 'tap'
import { parseUpstream, tlsNameOf } from '../../../../lib/gate/upstream/origin.ts'

t.test('An upstream is only an origin.', async t => {
  const rows: ReadonlyArray<readonly [given: unknown, origin: string | undefined]> = [
    ['http://a', 'http://a'],
    ['HTTPS://A:443/', 'https://a'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://a//', undefined],
    ['http://a/x', undefined],
    [' http://a', undefined],
    ['http://a ', undefined],
    ['http://a?', undefined],
    ['http://a#', undefined],
    ['http://u@a', undefined],
    ['http://a\\b', undefined],
    ['http://a:99999', undefined],
    ['ftp://a', undefined],
    ['//a', undefined],
    ['', undefined],
    [undefined, undefined],
    [['http://a'], undefined]
  ]
  for (const [given, origin] of rows) t.equal(parseUpstream(given), origin, JSON.stringify(given))
  t.strictSame(['https://a:1', 'https://[::1]:1', 'https://127.0.0.1'].map(tlsNameOf), ['a', '', ''])
})
