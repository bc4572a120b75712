import { sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import t from 'tap'
import type { JwsAlg } from '../../../lib/jose/signature.ts'
import type { SignerFinder } from '../../../lib/jose/signed-jwt.ts'
import { createFastifyJwtFinder } from '../../../server/fastify-jwt.ts'
import { JWT_TOOLS } from '../../helpers/jwt-tools.ts'
import { encodeJws } from '../../helpers/jws.ts'
import { takeRsaKey } from '../../helpers/rsa-keys.ts'

const made = takeRsaKey()
const pemOf = (key: KeyObject): string => key.export({ format: 'pem', type: 'spki' }) as string

/** Whether the key with this text has signed a token. */
function makeVerify (findSigner: SignerFinder): (token: string, pem: string, alg: JwsAlg) => boolean {
  return (token, pem, alg) => findSigner(token, [{ kid: undefined, pem, algs: [alg] }], alg) !== undefined
}

const token = encodeJws({ alg: 'RS256' }, { sub: 'user-1' }, input => sign('sha256', input, made.privateKey))

for (const [name, { createSignerFinder }] of Object.entries(JWT_TOOLS)) {
  t.test(`By ${name}, a signature is that of its key, or it is none`, async t => {
    const verify = makeVerify(createSignerFinder())
    const other = takeRsaKey().publicKey
    t.equal(verify(token, pemOf(made.publicKey), 'RS256'), true)
    t.equal(verify(token, pemOf(other), 'RS256'), false)
    t.equal(verify(`${token.slice(0, -8)}AAAAAAAA`, pemOf(made.publicKey), 'RS256'), false)
    for (const alg of ['RS384', 'PS256'] as const) {
      t.equal(verify(token, pemOf(made.publicKey), alg), false, `${alg}, which the token does not name`)
    }
    t.equal(verify('no token', pemOf(made.publicKey), 'RS256'), false)
  })
}

t.test('However many keys come, the verifiers of @fastify/jwt are not kept without end, and the newest still work', async t => {
  const verify = makeVerify(createFastifyJwtFinder())
  const pem = pemOf(made.publicKey)
  for (let spaces = 0; spaces < 1002; spaces++) {
    if (!verify(token, pem + ' '.repeat(spaces), 'RS256')) t.fail(`with ${spaces} spaces`)
  }
  t.equal(verify(token, pem, 'RS256'), true)
})
