import { createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import t, { type Test } from 'tap'
import { importPublicJwk, isVerifiable } from '../../../../lib/guard/jose/public-key.ts'
import { ALGORITHMS, JWS_ALGS, type JwsAlg } from '../../../../lib/guard/jose/signature.ts'
import { readKeySet } from '../../../../lib/guard/provider/fetch-key-set.ts'
import type { KeySet } from '../../../../lib/guard/provider/key-set.ts'
import { JWT_TOOLS } from '../../../helpers/jwt-tools.ts'
import { encodeJws } from '../../../helpers/jws.ts'
import { oddNumber } from '../../../helpers/rsa-jwk.ts'
import { takeRsaKey } from '../../../helpers/rsa-keys.ts'
import { createRandom } from '../../../fuzz/random.ts'

/** The same inputs in each run. */
const SEED = 44
/** More in `npm run test:programs`. */
const PARTS = process.env['FC_RUNS'] === undefined ? 4 : 20
const SETS_PER_PART = 25
const TOKENS_PER_SET = 20

interface Signer {
  alg: JwsAlg
  privateKey: KeyObject
  jwk: Record<string, unknown>
}

const { below, oneIn, among: oneOf } = createRandom(SEED)
const ALGS = JWS_ALGS.filter(isVerifiable)

function signersOf (alg: JwsAlg, rsaKeys: ReadonlyArray<ReturnType<typeof takeRsaKey>>) {
  const { kty, crvs: [crv] } = ALGORITHMS[alg]
  const pairs = kty === 'RSA'
    ? rsaKeys
    : Array.from({ length: 2 }, () =>
      kty === 'EC'
        ? generateKeyPairSync('ec', { namedCurve: crv! })
        : generateKeyPairSync((kty === 'OKP' ? 'ed25519' : 'ml-dsa-44') as 'ed25519'))
  return pairs.map(({ privateKey, publicKey }) => ({ alg, privateKey, jwk: publicKey.export({ format: 'jwk' }) }))
}

const rsaKeys = Array.from({ length: 3 }, takeRsaKey)
const signers = ALGS.flatMap(alg => signersOf(alg, rsaKeys))

/** Entries that a provider may publish: good keys, and keys that are changed in one thing. */
const CHANGES: ReadonlyArray<(jwk: Signer['jwk'], alg: JwsAlg) => unknown> = [
  jwk => jwk,
  jwk => jwk,
  (jwk, alg) => ({ ...jwk, alg, use: 'sig', kid: 'a' }),
  (jwk, alg) => ({ ...jwk, alg, key_ops: ['verify'], kid: 'b' }),
  jwk => ({ ...jwk, kid: 'a' }),
  jwk => ({ ...jwk, crv: jwk['kty'] === 'RSA' ? 'P-256' : jwk['crv'], x5c: ['AA=='], extra: { deep: [[]] } }),
  jwk => ({
    ...jwk,
    ...jwk['kty'] === 'RSA' &&
      { n: Buffer.concat([Buffer.alloc(2), Buffer.from(String(jwk['n']), 'base64url')]).toString('base64url') }
  }),
  jwk => ({ ...jwk, ...jwk['kty'] === 'RSA' && { e: 'AAEAAQ' } }),
  jwk => ({ ...jwk, ...jwk['kty'] === 'RSA' && { e: oneOf(['Aw', 'AQ', 'AA', 'Ag', 'AQAAAAE', '____', 'AQAAAAAB']) } }),
  jwk => ({ ...jwk, ...jwk['kty'] === 'RSA' && { n: oddNumber(oneOf([1024, 2040, 2048, 4096, 4104])) } }),
  jwk => ({ ...jwk, use: oneOf(['enc', 'sig', '', 1]) }),
  jwk => ({ ...jwk, kid: oneOf([1, null, {}, '', '0', 'constructor']) }),
  jwk => ({ ...jwk, alg: oneOf([...JWS_ALGS, 'none', 'HS256', 1, null]) }),
  jwk => ({ ...jwk, d: 'AQ' }),
  jwk => ({ ...jwk, crv: oneOf(['P-256', 'P-384', 'P-521', 'Ed25519', 'Ed448', 'secp256k1']) }),
  jwk => ({ ...jwk, x: typeof jwk['x'] === 'string' ? `${jwk['x'].slice(0, -4)}AAAA` : undefined }),
  jwk => ({ kty: 'oct', k: jwk['n'] ?? jwk['x'] }),
  () => oneOf([null, [], 'key', 1, {}])
]

function signatureOf ({ alg, privateKey }: Signer, input: Buffer) {
  const { digest, signing, signatureBytes } = ALGORITHMS[alg]
  return sign(
    digest,
    input,
    { key: privateKey, ...signing, ...signatureBytes !== undefined && { dsaEncoding: 'ieee-p1363' } } as never
  )
}

/** What is signed: signing anew for each token would take longer than all verifications. */
const HEADERS = [{}, { typ: 'at+jwt', kid: 'a' }, { jku: 'https://x.test', x5c: [] }]
const PAYLOADS = [{ sub: 'a' }, {}, { exp: 1, nbf: 9e9, iat: 0.5 }]
const bases = signers.flatMap(signer =>
  HEADERS.map((header, at) => {
    let signed: Buffer
    encodeJws({ alg: signer.alg, ...header }, PAYLOADS[at]!, input => {
      signed = input
      return input
    })
    return { signer, input: signed!.toString(), signature: signatureOf(signer, signed!) }
  })
)

/** Signatures as a hostile client may send them, made of a good one. */
const SIGNATURES: ReadonlyArray<(good: Buffer) => Buffer> = [
  good => good,
  good => good,
  good => good,
  good => good,
  () => oneOf(bases).signature,
  good => good.subarray(0, -1),
  good => good.subarray(1),
  good => Buffer.concat([good, Buffer.alloc(1)]),
  good => Buffer.concat([Buffer.alloc(1), good]),
  good => Buffer.alloc(good.length),
  good => Buffer.alloc(good.length, 0xff),
  good => {
    const flipped = Buffer.from(good)
    flipped[below(good.length)]! ^= 1 << below(8)
    return flipped
  },
  good => Buffer.concat([good, good]),
  good => good.subarray(0, good.length / 2),
  () => Buffer.from([1])
]

/** What a set holds, whichever pair has read it. */
function contentOf ({ keys, passedOver }: KeySet) {
  return {
    passedOver,
    keys: keys.map(({ kid, algs, pem }) => ({
      kid,
      algs,
      key: createPublicKey(pem).export({ format: 'jwk' })
    }))
  }
}

const finders = {
  packages: JWT_TOOLS.packages.createSignerFinder(),
  node: JWT_TOOLS['node:crypto'].createSignerFinder()
}

/** Compares both pairs under one set. @returns how many tokens were signed by a key of it */
async function compareSet (t: Test) {
  const chosen = Array.from({ length: 1 + below(5) }, () => oneOf(signers))
  const published = bases.filter(({ signer }) => chosen.includes(signer))
  const document = Buffer.from(JSON.stringify({ keys: chosen.map(({ jwk, alg }) => oneOf(CHANGES)(jwk, alg)) }))
  const read = (reader: keyof typeof JWT_TOOLS) =>
    readKeySet(document, [], ALGS, JWT_TOOLS[reader].readPem).catch((error: Error) => error)
  const [byPackages, byNode] = await Promise.all([read('packages'), read('node:crypto')])
  if (byPackages instanceof Error || byNode instanceof Error) {
    t.strictSame(byNode, byPackages, document.toString())
    return 0
  }
  t.strictSame(contentOf(byNode), contentOf(byPackages), document.toString())
  const [ofPackages, ofNode] = [byPackages.keys, byNode.keys]
  let signed = 0
  for (let each = 0; each < TOKENS_PER_SET; each++) {
    // The caller has checked that the token names the algorithm, and that the keys are made for it.
    const { signer: { alg }, input, signature } = oneOf(oneIn(4) ? bases : published)
    const token = `${input}.${oneOf(SIGNATURES)(signature).toString('base64url')}`
    const isFor = ofNode.map(({ algs }) => algs.includes(alg))
    const found = ofNode.indexOf(finders.node(token, ofNode.filter((_key, index) => isFor[index]), alg)!)
    const expected = ofPackages.indexOf(finders.packages(token, ofPackages.filter((_key, index) => isFor[index]), alg)!)
    if (found >= 0) signed++
    if (found !== expected) t.fail(`token ${token}: ${found}, by the packages ${expected}\n${String(document)}`)
  }
  return signed
}

t.test('Thousands of tokens, under hundreds of key sets, get the same verdict by the packages as by node:crypto.', async t => {
  let signed = 0
  for (let part = 0; part < PARTS; part++) {
    await t.test(`part ${part + 1}`, async t => {
      for (let at = 0; at < SETS_PER_PART; at++) signed += await compareSet(t)
    })
  }
  t.ok(signed > PARTS * 50, `${signed} of them are signed by a key of their set`)
})

t.test('Both can be loaded before the first token comes.', async t => {
  for (const tools of Object.values(JWT_TOOLS)) tools.load()
  t.ok(importPublicJwk({ kty: 'RSA', n: oddNumber(2048), e: 'AQAB' }))
})
