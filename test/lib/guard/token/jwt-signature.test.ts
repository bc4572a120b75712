import { sign, type KeyObject } from 'node:crypto'
import t from 'tap'
import type { JwsAlg } from '../../../../lib/guard/jose/signature.ts'
import type { SignerFinder } from '../../../../lib/guard/jose/signed-jwt.ts'
import { createFastifyJwtFinder } from '../../../../plugins/auth/fastify-jwt.ts'
import { JWT_TOOLS } from '../../../helpers/jwt-tools.ts'
import { encodeJws } from '../../../helpers/jws.ts'
import { takeRsaKey } from '../../../helpers/rsa-keys.ts'
import { signingKeyOf } from '../../../helpers/signing-key.ts'

const made = takeRsaKey()

/** Whether a key has signed a token. */
function makeVerify (findSigner: SignerFinder): (token: string, key: KeyObject, alg: JwsAlg) => boolean {
  return (token, key, alg) => findSigner(token, [signingKeyOf(key, undefined, [alg])], alg) !== undefined
}

const token = encodeJws({ alg: 'RS256' }, { sub: 'user-1' }, input => sign('sha256', input, made.privateKey))

for (const [name, { createSignerFinder }] of Object.entries(JWT_TOOLS)) {
  t.test(`By ${name}, a signature is that of its key, or it is none`, async t => {
    const verify = makeVerify(createSignerFinder())
    const other = takeRsaKey().publicKey
    t.equal(verify(token, made.publicKey, 'RS256'), true)
    t.equal(verify(token, other, 'RS256'), false)
    t.equal(verify(`${token.slice(0, -8)}AAAAAAAA`, made.publicKey, 'RS256'), false)
    for (const alg of ['RS384', 'PS256'] as const) {
      t.equal(verify(token, made.publicKey, alg), false, `${alg}, which the token does not name`)
    }
    t.equal(verify('no token', made.publicKey, 'RS256'), false)
    t.match(new Error('of the app').stack, /jwt-signature/, 'errors of the app keep their stacks')
  })
}

t.test('However many keys come, the verifiers of @fastify/jwt are not kept without end, and the newest still work', async t => {
  const findSigner = createFastifyJwtFinder()
  const key = signingKeyOf(made.publicKey, undefined)
  for (let spaces = 0; spaces < 1002; spaces++) {
    const another = { ...key, pem: key.pem + ' '.repeat(spaces) }
    if (findSigner(token, [another], 'RS256') !== another) t.fail(`with ${spaces} spaces`)
  }
  t.equal(findSigner(token, [key], 'RS256'), key)
})
