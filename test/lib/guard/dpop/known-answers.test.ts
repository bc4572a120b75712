import { createHash, createPublicKey, generateKeyPairSync, sign, verify, type JsonWebKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  ALGORITHMS,
  encodeDer,
  findSignerByCrypto,
  isSameAlg,
  verifySignature,
  JWS_ALGS,
  type JwsAlg
} from '../../../../lib/guard/jose/signature.ts'
import { createClientKeys, parseProofHeader } from '../../../../lib/guard/dpop/client-keys.ts'
import { importPublicJwk, isVerifiable, thumbprint, type PublicJwk } from '../../../../lib/guard/jose/public-key.ts'
import { decodeJsonObject, isCanonicalBase64url, isMediaType, splitCompactJws } from '../../../../lib/guard/jose/signed-jwt.ts'
import { createNonces, processOfNonce, type Nonces } from '../../../../lib/guard/dpop/nonces.ts'
import {
  CHECKS_AFTER_SIGNATURE,
  CHECKS_BEFORE_SIGNATURE,
  verifyProof,
  type PresentedProof,
  type ProofPolicy
} from '../../../../lib/guard/dpop/proof.ts'
import type { Refusal } from '../../../../lib/refusal.ts'
import { usableKey } from '../../../../lib/guard/provider/key-set.ts'
import { createOffStore } from '../../../../lib/guard/replay/create-store.ts'
import { createDpopClient } from '../../../helpers/dpop-client.ts'

/** The public key of a proof with that JWK in its header. */
const parseProofJwk = (jwk: unknown, alg: JwsAlg) =>
  parseProofHeader(Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg, jwk })).toString('base64url'), [alg]).jwk

const importProofKey = (jwk: PublicJwk) =>
  createClientKeys(JWS_ALGS, { nowMs: () => 0 }).keyOf({ algorithm: ALGORITHMS.ES256, jwk, jkt: thumbprint(jwk) })

// RFC 9449 section 7.1: the request for a protected resource, and section 6.1: the thumbprint that its token holds.
const EXAMPLE = {
  token: 'Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU',
  jkt: '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I',
  url: 'https://resource.example.org/protectedresource',
  iat: 1562262618,
  proof:
    'eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCR' +
    'nMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.' +
    'eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.' +
    '2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA'
}

function attemptOf (overrides: Partial<PresentedProof> = {}): PresentedProof {
  return {
    proof: EXAMPLE.proof,
    method: 'GET',
    tokenHash: createHash('sha256').update(EXAMPLE.token).digest('base64url'),
    tokenJkt: EXAMPLE.jkt,
    requestUrl: () => ({
      scheme: 'https',
      host: 'resource.example.org',
      path: '/protectedresource',
      ownPath: '/protectedresource',
      href: EXAMPLE.url
    }),
    now: EXAMPLE.iat,
    ...overrides
  }
}

function outcome (attempt: PresentedProof) {
  const policy = {
    iatOffsetSeconds: 300,
    iatLeewaySeconds: 30,
    keys: createClientKeys(JWS_ALGS, { nowMs: () => 0 }),
    replay: createOffStore(),
    nonces: undefined
  }
  return new Promise(resolve =>
    verifyProof(attempt, policy, error => resolve(error === null ? 'accepted' : (error as Refusal).reason))
  )
}

t.test('The complete example of RFC 9449 section 7.1 passes, and each change of it is refused for its own reason', async t => {
  const url = {
    scheme: 'https',
    host: 'resource.example.org',
    path: '/protectedresource',
    ownPath: '/protectedresource',
    href: EXAMPLE.url
  } as const
  const rows: Array<{ title: string, overrides: Partial<PresentedProof>, expected: string }> = [
    { title: 'unchanged', overrides: {}, expected: 'accepted' },
    { title: 'another method', overrides: { method: 'POST' }, expected: 'htm_mismatch' },
    { title: 'the method in lower case', overrides: { method: 'get' }, expected: 'htm_mismatch' },
    {
      title: 'another path',
      overrides: { requestUrl: () => ({ ...url, path: '/other', href: 'https://resource.example.org/other' }) },
      expected: 'htu_mismatch'
    },
    { title: 'the oldest moment that passes', overrides: { now: EXAMPLE.iat + 300.999 }, expected: 'accepted' },
    { title: 'just older', overrides: { now: EXAMPLE.iat + 301 }, expected: 'iat_too_old' },
    { title: 'the furthest future that passes', overrides: { now: EXAMPLE.iat - 30 }, expected: 'accepted' },
    { title: 'just further', overrides: { now: EXAMPLE.iat - 30.001 }, expected: 'iat_in_future' },
    {
      title: 'another token',
      overrides: { tokenHash: createHash('sha256').update('another').digest('base64url') },
      expected: 'ath_mismatch'
    },
    {
      title: 'a token of another key',
      overrides: { tokenJkt: 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs' },
      expected: 'jkt_mismatch'
    },
    {
      title: 'a signature with one bit changed',
      overrides: { proof: `${EXAMPLE.proof.slice(0, -2)}iA` },
      expected: 'proof_signature'
    }
  ]
  for (const { title, overrides, expected } of rows) t.equal(await outcome(attemptOf(overrides)), expected, title)
})

t.test('Each check of a proof has a name of its own', async t => {
  t.strictSame([...CHECKS_BEFORE_SIGNATURE, ...CHECKS_AFTER_SIGNATURE].map(({ name }) => name), [
    'form',
    'header',
    'claims',
    'htm',
    'htu',
    'iat',
    'ath',
    'jkt',
    'nonce',
    'iat-beside-nonce'
  ])
})

t.test('The time limits of a proof are exact to the second, at both ends', async t => {
  const NOW = 1_800_000_000
  const check = (claims: object, now = NOW) => {
    const presented = attemptOf({ now })
    presented.jws = {
      header: '',
      payload: Buffer.from(JSON.stringify({ jti: 'a', htm: 'GET', htu: 'b', ath: 'c', iat: NOW, ...claims })).toString(
        'base64url'
      ),
      signature: ''
    }
    try {
      CHECKS_BEFORE_SIGNATURE.find(({ name }) => name === 'claims')!.run(
        presented,
        { iatLeewaySeconds: 30 } as ProofPolicy
      )
      return 'accepted'
    } catch (error) {
      const { reason, detail } = error as Refusal
      return [reason, detail]
    }
  }
  t.equal(check({ nbf: NOW + 30 }), 'accepted')
  t.strictSame(check({ nbf: NOW + 30.5 }), ['proof_not_yet_valid', {
    expected: `nbf up to ${NOW + 30}`,
    found: NOW + 30.5
  }])
  t.equal(check({ exp: NOW - 29 }), 'accepted')
  t.equal(check({ exp: NOW - 29.5 }), 'accepted')
  t.strictSame(check({ exp: NOW - 30 }, NOW + 0.5), ['proof_expired', {
    expected: `exp after ${NOW - 30}`,
    found: NOW - 30
  }])
  t.hasStrict(check({ exp: NOW - 30 }), ['proof_expired'])
  for (const name of ['exp', 'nbf']) {
    for (const value of ['soon', null, [NOW], true]) {
      t.hasStrict(check({ [name]: value }), ['proof_claim_invalid'], `${name}: ${value}`)
    }
  }
})

t.test('A segment is canonical base64url of a JSON object in UTF-8', async t => {
  const segment = (bytes: string | Buffer) => Buffer.from(bytes).toString('base64url')
  t.strictSame(decodeJsonObject(segment('{"a":"ü"}')), { a: 'ü' })
  for (const bytes of [Buffer.from('{"a":"\xff"}', 'latin1'), '[]', 'null', '1', '{', '']) {
    t.equal(decodeJsonObject(segment(bytes)), undefined, String(bytes))
  }

  for (const text of ['AA', 'AAA', 'AAAA', 'AAAAAA', '-_w', 'A'.repeat(40)]) {
    t.equal(isCanonicalBase64url(text), true, text)
    t.equal(Buffer.from(text, 'base64url').toString('base64url'), text)
  }
  for (const text of ['', 'A', 'AAAAA', 'AB', 'AAB', 'AAAAAB', 'AA==', 'AAA+', 'AAA/', 'AAA\n', ' AAA', 'AAAé']) {
    t.equal(isCanonicalBase64url(text), false, JSON.stringify(text))
  }

  t.strictSame(splitCompactJws('AA.AAA.AAAA'), { header: 'AA', payload: 'AAA', signature: 'AAAA' })
  for (
    const text of [
      'AA.AAA',
      '.AAA.AAAA',
      'AA..AAAA',
      'AA.AAA.',
      'AA.AAA.AAAA.AAAA',
      'AB.AAA.AAAA',
      'AA.AAB.AAAA',
      'AA.AAA.AB',
      'A',
      ''
    ]
  ) t.equal(splitCompactJws(text), undefined, text)
})

t.test('EdDSA and Ed25519 are two names of one algorithm, and no others are', async t => {
  for (
    const [ofKey, alg] of [['EdDSA', 'Ed25519'], ['Ed25519', 'EdDSA'], ['EdDSA', 'EdDSA'], ['ES256', 'ES256']] as const
  ) t.equal(isSameAlg(ofKey, alg), true, `${ofKey} ${alg}`)
  for (
    const [ofKey, alg] of [['EdDSA', 'ES256'], ['ES256', 'EdDSA'], ['RS256', 'PS256'], [undefined, 'EdDSA'], [
      undefined,
      'RS256'
    ], ['Ed448', 'EdDSA']] as const
  ) t.equal(isSameAlg(ofKey, alg), false, `${ofKey} ${alg}`)
})

t.test('A media type is recognised in any case, with or without application/', async t => {
  for (const typ of ['at+jwt', 'AT+JWT', 'application/at+jwt', 'Application/AT+jwt']) {
    t.equal(isMediaType(typ, 'at+jwt'), true, typ)
  }
  for (
    const typ of ['jwt', 'at+jwt ', 'text/at+jwt', 'application/application/at+jwt', '', undefined, null, 1, ['at+jwt']]
  ) t.equal(isMediaType(typ, 'at+jwt'), false, String(typ))
})

t.test('Thumbprints are those of RFC 7638 section 3.1 and RFC 8037 appendix A.3', async t => {
  const rsa = {
    kty: 'RSA',
    n: '0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw',
    e: 'AQAB',
    alg: 'RS256',
    kid: '2011-04-29'
  }
  t.equal(thumbprint(parseProofJwk(rsa, 'RS256')), 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs')
  const ed25519 = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }
  t.equal(thumbprint(parseProofJwk(ed25519, 'EdDSA')), 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
  t.equal(thumbprint(parseProofJwk(ed25519, 'Ed25519')), 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
})

function canMake (type: string) {
  try {
    return Boolean(generateKeyPairSync(type as 'ed25519').privateKey)
  } catch {
    return false
  }
}

t.test('A key of ML-DSA-44 must say its algorithm, and its thumbprint covers alg, kty and pub', async t => {
  // Each text of this length is a public key.
  const akp = { kty: 'AKP', alg: 'ML-DSA-44', pub: 'A'.repeat(1750) }
  const parsed = parseProofJwk({ ...akp, kid: 'x', use: 'sig' }, 'ML-DSA-44')
  t.strictSame(parsed, { alg: 'ML-DSA-44', kty: 'AKP', pub: akp.pub })
  t.equal(
    thumbprint(parsed),
    createHash('sha256').update(`{"alg":"ML-DSA-44","kty":"AKP","pub":"${akp.pub}"}`).digest('base64url')
  )
  const rows: Array<[title: string, jwk: object]> = [
    ['without alg', { ...akp, alg: undefined }],
    ['of ML-DSA-65', { ...akp, alg: 'ML-DSA-65' }],
    ['of another type', { ...akp, kty: 'OKP' }],
    ['private', { ...akp, priv: 'A'.repeat(43) }],
    ['too short', { ...akp, pub: akp.pub.slice(1) }],
    ['too long', { ...akp, pub: `${akp.pub}AA` }],
    ['with another end', { ...akp, pub: `${akp.pub.slice(1)}B` }],
    ['no text', { ...akp, pub: 7 }]
  ]
  for (const [title, jwk] of rows) {
    t.throws(() => parseProofJwk(jwk, 'ML-DSA-44'), { name: 'Refusal', reason: 'proof_key' }, title)
  }
  t.strictSame(['ES256', 'ML-DSA-65', 'none'].map(isVerifiable), [true, false, false])
  t.equal(isVerifiable('ML-DSA-44'), canMake('ml-dsa-44'), 'as this Node has it')
})

t.test('A signature verifies under each algorithm with the key that made it, and under no other', async t => {
  for (const alg of JWS_ALGS.filter(isVerifiable)) {
    const [client, other] = [await createDpopClient(alg), await createDpopClient(alg)]
    const algorithm = ALGORITHMS[alg]
    const signature = client.sign(Buffer.from('header.payload')).toString('base64url')
    const verifies = (jwk: object, input = 'header.payload', text = signature) =>
      new Promise<boolean>(resolve => {
        verifySignature(algorithm, importPublicJwk(parseProofJwk(jwk, alg))!, input, text, resolve)
      })
    t.equal(await verifies(client.jwk), true, `${alg}: its own key`)
    t.equal(await verifies(other.jwk), false, `${alg}: another key`)
    t.equal(await verifies(client.jwk, 'header.payloae'), false, `${alg}: another input`)
    t.equal(await verifies(client.jwk, 'header.payload', signature.slice(0, -4)), false, `${alg}: three bytes short`)
    t.equal(
      await verifies(
        client.jwk,
        'header.payload',
        Buffer.alloc(Buffer.from(signature, 'base64url').length).toString('base64url')
      ),
      false,
      `${alg}: all zero`
    )
  }
})

t.test('An RSASSA-PSS signature has each of its leading zero bytes, in proofs and in whatever else is signed', async t => {
  for (const alg of ['PS256', 'PS384', 'PS512'] as const) {
    const client = await createDpopClient(alg)
    const key = importPublicJwk(parseProofJwk(client.jwk, alg))!
    const outcomes = (bytes: Buffer) =>
      new Promise(resolve => {
        const text = bytes.toString('base64url')
        verifySignature(ALGORITHMS[alg], key, 'a.b', text, isValid =>
          resolve([isValid, findSignerByCrypto(`a.b.${text}`, [{ key }], alg) !== undefined]))
      })
    let signature: Buffer
    do signature = client.sign(Buffer.from('a.b'))
    while (signature[0] !== 0)
    t.strictSame(await outcomes(signature), [true, true], alg)
    t.strictSame(await outcomes(signature.subarray(1)), [false, false], `${alg}, without its zero`)
    t.strictSame(await outcomes(Buffer.concat([Buffer.alloc(1), signature])), [false, false], `${alg}, with one more`)
  }
})

t.test('ECDSA signatures become the DER that node:crypto itself writes, for every length of r and s', async t => {
  const recorded = JSON.parse(readFileSync(new URL('../../../fixtures/ecdsa.json', import.meta.url), 'utf8')) as Record<
    string,
    { jwk: JsonWebKey, signatures: Array<{ message: string, signature: string }> }
  >
  t.strictSame(Object.keys(recorded), ['ES256', 'ES384', 'ES512'])
  for (const [alg, { jwk, signatures }] of Object.entries(recorded)) {
    const publicKey = createPublicKey({ key: jwk, format: 'jwk' })
    const { digest, signatureBytes } = ALGORITHMS[alg as JwsAlg]
    const lengths = new Set<string>()
    for (const { message, signature } of signatures) {
      const jose = Buffer.from(signature, 'base64url')
      const half = jose.length / 2
      for (const number of [jose.subarray(0, half), jose.subarray(half)]) {
        lengths.add(`${number.findIndex(byte => byte > 0)} ${number.find(byte => byte > 0)! > 0x7f}`)
      }
      t.ok(verify(digest, Buffer.from(message), publicKey, encodeDer(jose, signatureBytes!)!), `${alg}, ${message}`)
    }
    t.ok(lengths.size >= 4, `${alg}: with and without leading zeros, with and without a sign byte`)
  }
  // The other curves take twenty times as long.
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  for (let i = 0; i < 300; i++) {
    const input = Buffer.from(`message ${i}`)
    const jose = sign('sha256', input, { key: privateKey, dsaEncoding: 'ieee-p1363' })
    if (!verify('sha256', input, publicKey, encodeDer(jose, 64)!)) t.fail(`ES256, message ${i}`)
  }
  const small = Buffer.alloc(64)
  small[31] = 1
  small[63] = 0x80
  t.equal(encodeDer(small, 64)!.toString('hex'), '300702010102020080', 'small numbers, one of which needs a sign byte')
  t.equal(encodeDer(Buffer.alloc(64), 64)!.toString('hex'), '3006020100020100', 'a zero has one byte')
  t.equal(encodeDer(Buffer.alloc(63), 64), undefined, "a length that is not the curve's")
})

t.test('A public JWK must be of the type, curve and size that the algorithm needs', async t => {
  const ec = (await createDpopClient('ES256')).jwk
  const p384 = (await createDpopClient('ES384')).jwk
  const rsa = (await createDpopClient('RS256')).jwk
  const ed = (await createDpopClient('EdDSA')).jwk
  const ed448 = (await createDpopClient('Ed448')).jwk
  /** The same bytes with bits beyond them. */
  const withSpareBits = (text: string) =>
    text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + 1)
  const modulus = (bits: number) => {
    const bytes = Buffer.alloc(Math.ceil(bits / 8), 0xff)
    bytes[0] = 0xff >> (bytes.length * 8 - bits)
    return bytes.toString('base64url')
  }
  const rows: Partial<Record<JwsAlg, Partial<Record<'accepted' | 'proof_key', Record<string, unknown>>>>> = {
    ES256: {
      accepted: {
        'P-256 for ES256': ec,
        'a key and an empty __proto__': JSON.parse(`{"__proto__":{},${JSON.stringify(ec).slice(1)}`),
        'other members are not looked at': { ...ec, use: 'sig', kid: 'a', foo: {} }
      },
      proof_key: {
        'RSA for ES256': rsa,
        'no key': undefined,
        text: JSON.stringify(ec),
        'an array': [ec],
        null: null,
        'a key under __proto__': JSON.parse(`{"__proto__":${JSON.stringify(ec)}}`),
        'x one character short': { ...ec, x: ec.x!.slice(1) },
        'x with padding': { ...ec, x: `${ec.x}=` },
        'x in another alphabet': { ...ec, x: `+${ec.x!.slice(1)}` },
        'x with bits beyond its bytes': { ...ec, x: withSpareBits(ec.x!) },
        'y with bits beyond its bytes': { ...ec, y: withSpareBits(ec.y!) },
        'y one character short': { ...ec, y: ec.y!.slice(1) },
        'no y': { ...ec, y: undefined },
        'y a number': { ...ec, y: 1 },
        'crv a number': { ...ec, crv: 256 },
        'kty in lower case': { ...ec, kty: 'ec' },
        'a private key': { ...ec, d: ec.x },
        'a private member that is null': { ...ec, d: null },
        'a symmetric member': { ...ec, k: 'AAAA' }
      }
    },
    ES384: { proof_key: { 'P-256 for ES384': ec }, accepted: { 'P-384 for ES384': p384 } },
    PS512: { accepted: { 'RSA for PS512': rsa } },
    RS256: {
      proof_key: {
        'P-256 for RS256': ec,
        'RSA of 2047 bits': { kty: 'RSA', e: 'AQAB', n: modulus(2047) },
        'RSA of 4097 bits': { kty: 'RSA', e: 'AQAB', n: modulus(4097) },
        'RSA of 16384 bits': { kty: 'RSA', e: 'AQAB', n: modulus(16384) },
        'RSA with a leading zero byte': {
          kty: 'RSA',
          e: 'AQAB',
          n: Buffer.concat([Buffer.alloc(1), Buffer.from(modulus(2048), 'base64url')]).toString('base64url')
        },
        'a modulus with padding': { kty: 'RSA', e: 'AQAB', n: `${modulus(2048)}=` },
        'a modulus with bits beyond its bytes': { kty: 'RSA', e: 'AQAB', n: withSpareBits(modulus(2048)) },
        'an exponent with padding': { kty: 'RSA', e: 'AQAB==', n: modulus(2048) },
        'an exponent with bits beyond its bytes': { kty: 'RSA', e: 'Ax', n: modulus(2048) },
        'an even modulus': {
          kty: 'RSA',
          e: 'AQAB',
          n: Buffer.concat([Buffer.alloc(255, 0xff), Buffer.alloc(1)]).toString('base64url')
        },
        'an exponent of 33 bits': { kty: 'RSA', e: modulus(33), n: modulus(2048) },
        'an even exponent': { kty: 'RSA', e: 'AQAA', n: modulus(2048) },
        'the exponent 1': { kty: 'RSA', e: 'AQ', n: modulus(2048) },
        'no exponent': { kty: 'RSA', n: modulus(2048) },
        ...Object.fromEntries(['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'].map(name =>
          [`the private member ${name} by itself`, { ...rsa, [name]: 'AQ' }]
        ))
      },
      accepted: {
        'RSA of 2048 bits': { kty: 'RSA', e: 'AQAB', n: modulus(2048) },
        'RSA of 4096 bits': { kty: 'RSA', e: 'AQAB', n: modulus(4096) },
        'the exponent 3': { kty: 'RSA', e: 'Aw', n: modulus(2048) },
        'an exponent of 32 bits': { kty: 'RSA', e: modulus(32), n: modulus(2048) }
      }
    },
    EdDSA: {
      accepted: { 'Ed25519 for EdDSA': ed, 'Ed448 for EdDSA': ed448 },
      proof_key: {
        'X25519 for EdDSA': { ...ed, crv: 'X25519' },
        'x of an Ed25519 key with bits beyond its bytes': { ...ed, x: withSpareBits(ed.x!) }
      }
    },
    Ed25519: { accepted: { 'Ed25519 for Ed25519': ed }, proof_key: { 'Ed448 for Ed25519': ed448 } }
  }
  for (const [alg, outcomes] of Object.entries(rows)) {
    for (const [expected, jwks] of Object.entries(outcomes)) {
      for (const [title, jwk] of Object.entries(jwks)) {
        let result: unknown
        try {
          result = importProofKey(parseProofJwk(jwk, alg as JwsAlg)) ? 'accepted' : 'no key'
        } catch (error) {
          result = (error as Refusal).reason
        }
        t.equal(result, expected, `${alg}: ${title}`)
      }
    }
  }
  for (const name of ['x', 'y'] as const) {
    const padded = Buffer.concat([Buffer.alloc(1), Buffer.from(ec[name]!, 'base64url')]).toString('base64url')
    t.throws(
      () => parseProofJwk({ ...ec, [name]: padded }, 'ES256'),
      { name: 'Refusal', reason: 'proof_key' },
      `${name} with a leading zero byte: one key must not have two thumbprints`
    )
  }
  // On the curve's field, and not on the curve.
  const off = parseProofJwk({ ...ec, y: `${ec.y![0] === 'A' ? 'B' : 'A'}${ec.y!.slice(1)}` }, 'ES256')
  t.equal(importProofKey(off), undefined, 'a point off the curve')
})

t.test('Nonces are made from the secret and the minute', async t => {
  const [secret, older] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const start = 1_800_000_000 - 1_800_000_000 % 60
  const nonces = createNonces([secret], 'shared')
  const nonce = nonces.current(start)
  t.match(nonce, /^[A-Za-z0-9_-]{22}$/)
  t.equal(nonces.current(start + 59.9), nonce, 'the same within its minute')
  t.not(nonces.current(start + 60), nonce, 'another one after it')
  for (
    const [age, expiry] of [[0, start + 300], [299.9, start + 300], [300, undefined], [-1, start + 300], [
      -60,
      start + 300
    ], [-61, undefined]] as const
  ) {
    t.equal(nonces.expiryOf(nonce, start + age), expiry, `${age} seconds after its making`)
  }
  t.equal(nonces.expiryOf('', start), undefined)
  t.equal(
    createNonces([secret], 'shared').expiryOf(nonce, start),
    start + 300,
    'an instance with the same secret accepts it'
  )
  t.equal(createNonces([older], 'shared').expiryOf(nonce, start), undefined, 'an instance with another secret does not')
  t.equal(
    createNonces([older, secret], 'shared').expiryOf(nonce, start),
    start + 300,
    'every secret of the list verifies'
  )
  t.equal(
    createNonces([older, secret], 'shared').current(start),
    createNonces([older], 'shared').current(start),
    'the first secret of the list makes nonces'
  )
})

t.test('A nonce that is good at one process begins with 4 characters that name the process, and its hash covers them', async t => {
  const now = 1_800_000_000
  const [own, other] = [1, 2].map(byte => createNonces([Buffer.alloc(32, byte)], 'process')) as [Nonces, Nonces]
  const [nonce, foreign] = [own.current(now), other.current(now)]
  t.match(nonce, /^[A-Za-z0-9_-]{26}$/)
  t.equal(own.current(now + 60).slice(0, 4), nonce.slice(0, 4))
  t.not(foreign.slice(0, 4), nonce.slice(0, 4))
  t.equal(processOfNonce(nonce), nonce.slice(0, 4))
  t.strictSame([own, other].map(({ expiryOf }) => expiryOf(nonce, now)), [now + 300, undefined])
  t.equal(own.expiryOf(foreign.slice(0, 4) + nonce.slice(4), now), undefined)
  const rows: Array<[isOfAnother: boolean, text: string, title: string]> = [
    [true, foreign, 'one of another process'],
    [true, other.current(now - 3600), 'an old one of another process'],
    [false, own.current(now - 3600), 'an old one of this process'],
    [false, nonce.slice(0, 25) + (nonce.endsWith('A') ? 'B' : 'A'), 'one of this process with another end'],
    [false, foreign.slice(0, 25), 'one character too few'],
    [false, `${foreign}A`, 'one character too many'],
    [false, `${foreign.slice(0, 25)}+`, 'a sign that is not base64url'],
    [false, `${foreign}\n`, 'a line break'],
    [false, '', 'nothing']
  ]
  for (const [isOfAnother, text, title] of rows) t.equal(own.isOfAnotherProcess(text), isOfAnother, title)
  t.equal(
    createNonces([Buffer.alloc(32, 1)], 'shared').isOfAnotherProcess(foreign),
    false,
    'shared nonces name no process'
  )
})

t.test('A header that was found has its key, also if another client has taken its place since', async t => {
  const keys = createClientKeys(['ES256'], { maxKeys: 1, nowMs: () => 0 })
  const keepNew = async () => {
    const client = await createDpopClient()
    const encoded = Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk: client.jwk })).toString(
      'base64url'
    )
    const read = () => keys.readHeader(encoded, client.jkt)
    const key = keys.keyOf(read())!
    keys.keep(encoded, read(), key)
    return { key, read }
  }
  const { key, read } = await keepNew()
  const header = read()
  await keepNew()
  t.equal(keys.keyOf(header), key)
  t.not(keys.keyOf(read()), key, 'the next request with it makes the key anew')
})

t.test('Client keys', async t => {
  const client = await createDpopClient()
  const keys = createClientKeys(['ES256'], { nowMs: () => 0 })
  const encoded = Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk: client.jwk })).toString('base64url')
  const header = keys.readHeader(encoded, client.jkt)
  t.not(
    keys.readHeader(encoded, client.jkt),
    keys.readHeader(encoded, client.jkt),
    'a header that was read and not accepted is not kept'
  )
  const key = keys.keyOf(header)!
  t.not(keys.keyOf(header), key, 'neither is its key')
  keys.keep(encoded, header, key)
  const kept = keys.readHeader(encoded, client.jkt)
  t.equal(keys.readHeader(encoded, client.jkt), kept, 'an accepted one is')
  t.hasStrict(kept, header)
  t.equal(keys.keyOf(kept), key)
  keys.keep(encoded, kept, key)
  t.equal(keys.readHeader(encoded, client.jkt), kept, 'and stays')
  t.not(keys.readHeader(encoded, 'another'), kept, 'for tokens bound to its key')
  t.equal(keys.keyOf(header), key)
  t.strictSame(keys.state(), { entries: 1, hits: 2, misses: 2 })

  const long = Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk: client.jwk, x: 'y'.repeat(1000) }))
    .toString('base64url')
  const longHeader = keys.readHeader(long, client.jkt)
  keys.keep(long, longHeader, key)
  t.not(
    keys.readHeader(long, client.jkt),
    keys.readHeader(long, client.jkt),
    'a header beyond the limit is read anew each time'
  )
  t.equal(keys.keyOf(longHeader), key, 'while its key is the kept one, by its canonical members')
})

interface Wycheproof {
  signatures: ReadonlyArray<{
    alg: JwsAlg,
    source: string,
    jwk: JsonWebKey,
    tests: ReadonlyArray<
      {
        tcId: number,
        comment: string,
        message: string,
        signature: string,
        isValid: boolean
      }
    >
  }>
  keys: ReadonlyArray<
    { comment: string, keys: readonly object[], isUsable: boolean }
  >
}

const wycheproof = JSON.parse(
  readFileSync(new URL('../../../fixtures/wycheproof.json', import.meta.url), 'utf8')
) as Wycheproof

t.test('Signatures of Project Wycheproof are judged as it expects', async t => {
  const judged = new Map<string, number>()
  for (const { alg, source, jwk, tests } of wycheproof.signatures) {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    for (const { tcId, comment, message, signature, isValid } of tests) {
      const input = Buffer.from(message, 'base64url').toString('latin1')
      const outcome = await new Promise<boolean>(resolve =>
        verifySignature(ALGORITHMS[alg], key, input, signature, resolve)
      )
      if (outcome !== isValid) t.fail(`${source} ${tcId}: ${comment}`)
      judged.set(`${alg} ${isValid}`, (judged.get(`${alg} ${isValid}`) ?? 0) + 1)
    }
  }
  for (const alg of ['ES256', 'ES384', 'ES512', 'Ed25519', 'PS256', 'PS384', 'PS512']) {
    for (const isValid of [true, false]) {
      t.ok((judged.get(`${alg} ${isValid}`) ?? 0) >= 4, `${alg}, ${isValid ? 'valid' : 'invalid'} ones`)
    }
  }
})

t.test('Keys of Project Wycheproof that must not be used are skipped', async t => {
  for (const { comment, keys, isUsable } of wycheproof.keys) {
    for (const key of keys) t.equal(typeof usableKey(key, JWS_ALGS), isUsable ? 'object' : 'string', comment)
  }
})
