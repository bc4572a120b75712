import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import t from 'tap'
import { exactly } from '../../helpers/containing.ts'
import { createStatementSigner } from '../../../lib/gate/statement.ts'

t.test('A statement is signed by the key that is published, for a minute.', t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const signer = createStatementSigner(pem, { now: () => 1_700_000_000.999, randomBytes: size => Buffer.alloc(size, 7) })
  const claims = { iss: 'i', aud: 'a', exp: 1, sub: 'user-1' }
  const statement = signer.sign({ claims, scopes: ['a', 'b'], issuer: 'i' }, { issuer: 'https://gate.example', audience: 'http://up', method: 'PUT', path: '/x' })
  const [header, payload, signature] = statement.split('.') as [string, string, string]
  const { keys: [jwk] } = signer.keySet as { keys: [Record<string, string>] }
  t.ok(verify('sha256', Buffer.from(`${header}.${payload}`), { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')))
  const read = (part: string): unknown => JSON.parse(String(Buffer.from(part, 'base64url')))
  t.strictSame(read(header), { alg: 'ES256', typ: 'JWT', kid: jwk.kid })
  t.strictSame(read(payload), {
    iss: 'https://gate.example', aud: 'http://up', sub: 'user-1', scope: 'a b', method: 'PUT', path: '/x', iat: 1_700_000_000, exp: 1_700_000_060, jti: Buffer.alloc(16, 7).toString('base64url')
  })
  t.match(jwk, { kty: exactly('EC'), crv: exactly('P-256'), alg: exactly('ES256'), use: exactly('sig'), kid: /^[\w-]{43}$/ })
  t.strictSame(Object.keys(jwk).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'], 'and nothing private')

  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const message = 'it is no private key in PKCS#8 and PEM form, EC P-256'
  const sec1 = privateKey.export({ type: 'sec1', format: 'pem' }) as string
  for (const bad of ['', sec1, '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n', p384.export({ type: 'pkcs8', format: 'pem' }) as string, rsa.export({ type: 'pkcs8', format: 'pem' }) as string]) {
    t.throws(() => createStatementSigner(bad, { now: () => 0, randomBytes: Buffer.alloc }), { name: 'TypeError', message })
  }
  t.end()
})
