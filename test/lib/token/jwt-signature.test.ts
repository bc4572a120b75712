import { sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import t from 'tap'
import type { JwsAlg } from '../../../lib/jose/signature.ts'
import { createSignerFinder } from '../../../lib/token/jwt-signature.ts'
import { encodeJws } from '../../helpers/jws.ts'
import { takeRsaKey } from '../../helpers/rsa-keys.ts'

const made = takeRsaKey()
const pemOf = (key: KeyObject): string => key.export({ format: 'pem', type: 'spki' }) as string

/** Whether the key with this text has signed a token. */
function makeVerify (): (token: string, pem: string, alg: JwsAlg) => boolean {
  const findSigner = createSignerFinder()
  return (token, pem, alg) => findSigner(token, [{ kid: undefined, pem, algs: [alg] }], alg) !== undefined
}

const token = encodeJws({ alg: 'RS256' }, { sub: 'user-1' }, input => sign('sha256', input, made.privateKey))

t.test('A signature is that of its key, or it is none', async t => {
  const verify = makeVerify()
  const other = takeRsaKey().publicKey
  t.equal(verify(token, pemOf(made.publicKey), 'RS256'), true)
  t.equal(verify(token, pemOf(other), 'RS256'), false)
  t.equal(verify(`${token.slice(0, -8)}AAAAAAAA`, pemOf(made.publicKey), 'RS256'), false)
  for (const alg of ['RS384', 'PS256', 'ES256', 'EdDSA'] as const) t.equal(verify(token, pemOf(made.publicKey), alg), false, `${alg}, which the token does not name`)
  t.equal(verify(token, 'no key', 'RS256'), false)
  t.equal(verify('no token', pemOf(made.publicKey), 'RS256'), false)
})

t.test('However many keys come, verifiers are not kept without end, and the newest still work', async t => {
  const verify = makeVerify()
  const pem = pemOf(made.publicKey)
  for (let spaces = 0; spaces < 2001; spaces++) if (!verify(token, pem + ' '.repeat(spaces), 'RS256')) t.fail(`with ${spaces} spaces`)
  t.equal(verify(token, pem, 'RS256'), true)
})
