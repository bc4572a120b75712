import { createHmac, createPublicKey } from 'node:crypto'
import t from 'tap'
import { isVerifiable } from '../../lib/guard/jose/public-key.ts'
import { encodeDer, JWS_ALGS } from '../../lib/guard/jose/signature.ts'
import { usableKey } from '../../lib/guard/provider/key-set.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import { startApp } from '../helpers/app.ts'
import { callBearer, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { createTokenKey, makeToken, startTokenProvider, type TokenKey } from '../helpers/token-issuer.ts'
import { oddNumber } from '../helpers/rsa-jwk.ts'
import { rowsOf } from '../helpers/rows.ts'

const keys = new Map<string, TokenKey>()
/** ML-DSA-44 if this Node has it. */
const ALGS = JWS_ALGS.filter(isVerifiable)
for (const alg of ALGS) keys.set(alg, await createTokenKey(alg))
const keyOf = (alg: string) => keys.get(alg)!

t.test('A token of each accepted algorithm passes, and the same token with another signature does not', async t => {
  // One kid for all of them: they differ only in type, curve and algorithm.
  const provider = await startTokenProvider(
    t,
    ...[...keys.values()].map(({ alg, jwk }) => ({ ...jwk, kid: 'one', alg, use: 'sig', key_ops: ['verify'] }))
  )
  const running = await startApp(t, { url: provider.issuer } as Issuer, { IDP_ALGS: ALGS.join(' ') })
  for (const alg of ALGS) {
    for (const kid of ['one', undefined]) {
      const token = makeToken(provider.issuer, keyOf(alg), { header: { kid } })
      t.equal((await callBearer(running, token)).status, 200, `${alg} with the kid ${kid}`)
      const [header, , signature] = token.split('.')
      const [, payload] = makeToken(provider.issuer, keyOf(alg), { claims: { sub: 'admin' } }).split('.')
      await expectBearerRefusal(t, running, `${header}.${payload}.${signature}`, 'token_signature', `${alg} with the signature of another token`)
    }
  }
  t.strictSame(await readiness(running.url), { status: 200, keys: 'ok' })
})

async function readiness (url: string) {
  const answer = await fetch(`${url}/health/ready`)
  return { status: answer.status, keys: (await answer.json() as { checks: { keys: string } }).checks.keys }
}

t.test('The algorithm of a token must be in the list literally, and causes no fetch otherwise', async t => {
  const provider = await startTokenProvider(t, keyOf('ES256').jwk, keyOf('RS256').jwk)
  const running = await startApp(t, { url: provider.issuer } as Issuer, { IDP_ALGS: 'ES256' })
  t.equal((await callBearer(running, makeToken(provider.issuer, keyOf('ES256')))).status, 200)
  const { fetches } = provider
  for (const alg of ['RS256', 'ES384', 'EdDSA', 'es256', 'ES256 ', 'none', 'HS256', ['ES256'], null, undefined]) {
    const token = makeToken(provider.issuer, keyOf('ES256'), { header: { alg } })
    await expectBearerRefusal(t, running, token, 'token_algorithm', JSON.stringify(alg))
  }
  t.equal(provider.fetches, fetches)
})

t.test('No key is used for an algorithm that it was not made for', async t => {
  const [rsa, pss] = [await createTokenKey('RS256', 'rsa'), await createTokenKey('PS256', 'pss')]
  const provider = await startTokenProvider(
    t,
    { ...rsa.jwk, alg: 'RS256' },
    { ...pss.jwk, alg: 'PS256' },
    keyOf('ES256').jwk,
    keyOf('ES384').jwk,
    { ...keyOf('EdDSA').jwk, alg: 'Ed25519' },
    { ...keyOf('Ed25519').jwk, alg: 'EdDSA' }
  )
  const running = await startApp(t, { url: provider.issuer } as Issuer, {
    IDP_ALGS: 'RS256 RS512 PS256 ES256 ES384 EdDSA Ed25519'
  })
  const pem = createPublicKey({ key: rsa.jwk as never, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  const hmac = (kid: string, alg: string, secret: string | Buffer) =>
    encodeJws(
      { alg, kid },
      JSON.parse(Buffer.from(makeToken(provider.issuer, rsa).split('.')[1]!, 'base64url').toString()),
      input => createHmac('sha256', secret).update(input).digest()
    )
  const es256 = keyOf('ES256')
  const rows = rowsOf<RefusalReason | 'accepted', string>({
    accepted: {
      'the key for RS256 with RS256': makeToken(provider.issuer, rsa),
      'the key for PS256 with PS256': makeToken(provider.issuer, pss),
      'the key for Ed25519 with EdDSA': makeToken(provider.issuer, keyOf('EdDSA')),
      'the key for EdDSA with Ed25519': makeToken(provider.issuer, keyOf('Ed25519'))
    },
    token_key_unknown: {
      'the key for RS256 with PS256, well signed': makeToken(provider.issuer, { ...pss, kid: 'rsa' }),
      'the key for RS256 with RS512': makeToken(provider.issuer, { ...rsa, alg: 'RS512' }),
      'the key for PS256 with RS256': makeToken(provider.issuer, { ...rsa, kid: 'pss' }),
      'a key on P-256 with ES384': makeToken(provider.issuer, { ...es256, alg: 'ES384' }),
      'a key on P-256 with RS256': makeToken(provider.issuer, { ...es256, alg: 'RS256' }),
      'an RSA key with ES256': makeToken(provider.issuer, { ...rsa, alg: 'ES256' })
    },
    token_signature: {
      'a key on P-384 with the kid of one on P-256': makeToken(provider.issuer, { ...keyOf('ES384'), alg: 'ES256', kid: 'ES256' }),
      'the PEM of the key as a secret, under the name of its algorithm': hmac('rsa', 'RS256', pem),
      'an ECDSA signature in DER': encodeDerSigned(provider.issuer),
      'an EdDSA signature of 32 bytes': cutSignature(makeToken(provider.issuer, keyOf('EdDSA')), 32),
      'an Ed25519 signature of 32 bytes': cutSignature(makeToken(provider.issuer, keyOf('Ed25519')), 32),
      'an ECDSA signature of zeros': zeroSignature(makeToken(provider.issuer, es256))
    },
    token_algorithm: { 'the PEM of the key as a secret': hmac('rsa', 'HS256', pem) }
  })
  for (const { title, value, outcome: expected } of rows) {
    const outcome = await callBearer(running, value)
    if (expected !== 'accepted') expectRefusal(t, outcome, expected, 'Bearer', title)
    else t.equal(outcome.status, 200, title)
  }
})

t.test('A signature whose leading zero byte was left out is refused, and the whole one is accepted', async t => {
  const alg = 'PS256'
  const key = keyOf(alg)
  for (const others of [[], [(await createTokenKey(alg)).jwk]]) {
    const provider = await startTokenProvider(t, key.jwk, ...others)
    const running = await startApp(t, { url: provider.issuer } as Issuer, { IDP_ALGS: alg })
    // One signature in 256 is such.
    let token: string
    do token = makeToken(provider.issuer, key)
    while (!/^A[A-P]/.test(token.slice(token.lastIndexOf('.') + 1)))
    const title = `${1 + others.length} keys`
    t.equal((await callBearer(running, token)).status, 200, title)
    await expectBearerRefusal(t, running, cutSignature(token, undefined, 1), 'token_signature', title)
  }
})

function encodeDerSigned (iss: string) {
  const key = keyOf('ES256')
  return makeToken(iss, { ...key, sign: input => encodeDer(key.sign(input), 64)! })
}

const cutSignature = (token: string, to: number | undefined, from = 0) => {
  const end = token.lastIndexOf('.') + 1
  return token.slice(0, end) + Buffer.from(token.slice(end), 'base64url').subarray(from, to).toString('base64url')
}

const zeroSignature = (token: string) => {
  const end = token.lastIndexOf('.') + 1
  return token.slice(0, end) + Buffer.alloc(64).toString('base64url')
}

t.test('A provider without a key for the algorithms is not ready, and its tokens are refused', async t => {
  const provider = await startTokenProvider(t, keyOf('ES256').jwk)
  const running = await startApp(t, { url: provider.issuer } as Issuer, { IDP_ALGS: 'PS256 ES384' })
  await expectBearerRefusal(t, running, makeToken(provider.issuer, keyOf('PS256')), 'token_key_unknown')
  t.strictSame(await readiness(running.url), { status: 503, keys: 'none_usable' })
  t.hasStrict(running.log.find(({ event }) => event === 'keys_fetched'), {
    keys: 0,
    passedOver: { curve: 1 },
    issuer: provider.issuer
  })
})

t.test('Which entries of a set verify which algorithms', async t => {
  const { jwk: ec } = keyOf('ES256')
  // One key in 256 is such.
  let padded = ec
  while (Buffer.from(padded.x!, 'base64url')[0] !== 0) padded = (await createTokenKey('ES256')).jwk
  const { jwk: okp } = keyOf('EdDSA')
  const { jwk: rsa } = keyOf('RS256')
  // Each text of this length is a public key.
  const akp = { kty: 'AKP', alg: 'ML-DSA-44', pub: 'A'.repeat(1750) }
  const ed448 = (await createTokenKey('Ed448')).jwk
  const other = keyOf('ES384').jwk
  const rows: Array<[title: string, entry: object, expected: readonly string[] | string]> = [
    ['an RSA key', rsa, ['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512']],
    ['an RSA key with alg', { ...rsa, alg: 'PS384' }, ['PS384']],
    ['an RSA key of 4096 bits', { kty: 'RSA', e: 'AQAB', n: oddNumber(4096) }, [
      'PS256',
      'PS384',
      'PS512',
      'RS256',
      'RS384',
      'RS512'
    ]],
    ['an EC key', ec, ['ES256']],
    ['an EC key with a coordinate that begins with a zero', padded, ['ES256']],
    ['an EC key with alg', { ...ec, alg: 'ES256', use: 'sig' }, ['ES256']],
    ['an Ed25519 key', okp, ['EdDSA', 'Ed25519']],
    ['an Ed25519 key with the old name', { ...okp, alg: 'EdDSA' }, ['EdDSA', 'Ed25519']],
    ['an Ed25519 key with the new name', { ...okp, alg: 'Ed25519' }, ['EdDSA', 'Ed25519']],
    ['a key for ML-DSA-44, if this Node has it', akp, isVerifiable('ML-DSA-44') ? ['ML-DSA-44'] : 'point']
  ]
  const refused = rowsOf<string, object>({
    modulus: {
      'an RSA key of 1024 bits': { kty: 'RSA', e: 'AQAB', n: oddNumber(1024) },
      'an RSA key of 8192 bits': { kty: 'RSA', e: 'AQAB', n: oddNumber(8192) },
      'an RSA key of 4104 bits': { kty: 'RSA', e: 'AQAB', n: oddNumber(4104) }
    },
    exponent: { 'an RSA key with an even exponent': { ...rsa, e: 'AQAA' } },
    point: {
      'the same key without that zero': { ...padded, x: Buffer.from(padded.x!, 'base64url').toString('base64url', 1) },
      'a point that is not on the curve': { ...ec, y: ec.x },
      'a point of another curve': { ...ec, x: other.x, y: other.y },
      'a point without y': { ...ec, y: undefined },
      'a coordinate without its leading zero': { ...okp, x: okp.x!.slice(0, -2) },
      'a coordinate that is a number': { ...okp, x: 7 },
      'a key for ML-DSA-44 with a byte too few': { ...akp, pub: akp.pub.slice(0, -2) },
      'a key for ML-DSA-44 that is a number': { ...akp, pub: 7 }
    },
    curve: {
      'an EC key for another curve': { ...ec, alg: 'ES384' },
      'an EC key on secp256k1': { ...ec, crv: 'secp256k1' },
      'an EC key without a curve': { ...ec, crv: undefined },
      'an EC key on a curve of another type': { ...ec, crv: 'Ed25519' },
      Ed448: ed448,
      X25519: { ...okp, crv: 'X25519' }
    },
    algorithm: {
      'an EC key for an RSA algorithm': { ...ec, alg: 'RS256' },
      'an RSA key for an EC algorithm': { ...rsa, alg: 'ES256' },
      'a key for ML-DSA-44 that does not say so': { ...akp, alg: undefined },
      'a key for ML-DSA-65': { ...akp, alg: 'ML-DSA-65' }
    },
    key_use: { 'an EC key for key agreement': { ...ec, use: 'enc' } },
    private_key: {
      'a private EC key': { ...ec, d: ec.x },
      'a private Ed25519 key': { ...okp, d: okp.x },
      'a private key for ML-DSA-44': { ...akp, priv: 'A'.repeat(43) }
    },
    key_type: { 'a symmetric key': { kty: 'oct', k: 'AAAA' } }
  })
  for (const [title, entry, expected] of rows) {
    const verdict = usableKey(entry, JWS_ALGS)
    t.strictSame(typeof verdict === 'string' ? verdict : verdict.algs, expected, title)
  }
  for (const { title, value, outcome } of refused) t.equal(usableKey(value, JWS_ALGS), outcome, title)
})
