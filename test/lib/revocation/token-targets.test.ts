import t from 'tap'
import { keyOf } from '../../../lib/revocation/entry.ts'
import { revocationKeysOf } from '../../../lib/revocation/token-targets.ts'
import type { RevocableToken } from '../../../lib/revocation/token-targets.ts'

const ISSUER = 'https://issuer.example/'
const keysOf = (claims: object): readonly string[] => revocationKeysOf({ claims: { sub: 'u', ...claims }, issuer: ISSUER, binding: {} } as unknown as RevocableToken, { session: ['sid'], other: ['uid'] })

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
