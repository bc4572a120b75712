import t from 'tap'
import { keyOf, revocationFactsOf } from '../../../lib/revocation/target.ts'
import type { RevocableToken } from '../../../lib/revocation/target.ts'

const ISSUER = 'https://issuer.example/'
const keysOf = (claims: object): readonly string[] => revocationFactsOf({ claims: { sub: 'u', ...claims }, issuer: ISSUER, binding: {} } as unknown as RevocableToken, { session: ['sid'], other: ['uid'] }).keys

t.test('A claim is compared by each of its values, a text or a number.', async t => {
  const always = keysOf({})
  const added = (claims: object): readonly string[] => keysOf(claims).filter(key => !always.includes(key))
  const uid = (value: string): string[] => [keyOf(['claim', ISSUER, 'uid', value]), keyOf(['claim', '*', 'uid', value])]
  t.strictSame(added({ uid: 7 }), uid('7'))
  t.strictSame(added({ uid: ['a', 'b', {}, null] }), [...uid('a'), ...uid('b')])
  t.strictSame(added({ uid: {} }), [])
  t.strictSame(added({ sid: 's' }), [keyOf(['sid', ISSUER, 's']), keyOf(['sid', '*', 's'])])
  t.equal(added({ uid: Array(1000).fill(0).map((_, index) => String(index)) }).length, 40)
})

t.test('Keys are short, and say apart what differs', async t => {
  t.equal(keyOf(['sub', 'https://i.example/', 'u']), keyOf(['sub', 'https://i.example', 'u']), 'the last slash of an issuer')
  t.not(keyOf(['sub', 'https://i.example', 'u']), keyOf(['sid', 'https://i.example', 'u']))
  t.not(keyOf(['claim', 'https://i.example', 'a', 'b c']), keyOf(['claim', 'https://i.example', 'a b', 'c']))
  t.equal(keyOf(['jkt', 'abc/']), '["jkt","abc/"]', 'a thumbprint is no issuer')
  const long = keyOf(['sub', 'https://i.example', 'u'.repeat(60_000)])
  t.equal(long.length, 47)
  t.not(long, keyOf(['sub', 'https://i.example', 'u'.repeat(60_001)]))
})
