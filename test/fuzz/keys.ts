import {
  constants,
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  sign,
  type JsonWebKey,
  type KeyObject
} from 'node:crypto'
import { takeRsaKey } from '../helpers/rsa-keys.ts'

export type Jwk = JsonWebKey & Record<string, unknown>

/** A key pair that is the same in every run, and how it signs. */
export interface FuzzKey {
  alg: string
  jwk: Jwk
  privateJwk: Jwk
  pem: string
  jkt: string
  sign (input: string): Buffer
}

/** RFC 7638, written a second time: what is tested must not judge itself. */
export function thumbprintOf ({ kty, crv, x, y, e, n }: Jwk): string {
  const members = kty === 'RSA' ? { e, kty, n } : kty === 'OKP' ? { crv, kty, x } : { crv, kty, x, y }
  return createHash('sha256').update(JSON.stringify(members)).digest('base64url')
}

function keyOf (alg: string, privateKey: KeyObject, sign: FuzzKey['sign']) {
  const publicKey = createPublicKey(privateKey)
  const jwk = publicKey.export({ format: 'jwk' }) as Jwk
  return {
    alg,
    jwk,
    privateJwk: privateKey.export({ format: 'jwk' }) as Jwk,
    pem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    jkt: thumbprintOf(jwk),
    sign
  }
}

const secretOf = (name: string) => createHash('sha256').update(name).digest()

function ecKey (name: string) {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(secretOf(name))
  const point = pair.getPublicKey()
  const jwk = {
    kty: 'EC',
    crv: 'P-256',
    x: point.toString('base64url', 1, 33),
    y: point.toString('base64url', 33),
    d: secretOf(name).toString('base64url')
  }
  const key = createPrivateKey({ key: jwk, format: 'jwk' })
  return keyOf('ES256', key, input => sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }))
}

function edKey (name: string, alg: string) {
  const key = createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), secretOf(name)]),
    format: 'der',
    type: 'pkcs8'
  })
  return keyOf(alg, key, input => sign(null, Buffer.from(input), key))
}

const rsaPair = takeRsaKey()

function rsaKey (alg: 'RS256' | 'PS256') {
  const key = rsaPair.privateKey
  const options = alg === 'PS256' ? { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 } : {}
  return keyOf(alg, key, input => sign('sha256', Buffer.from(input), { key, ...options }))
}

/** The keys of the provider by `kid`. Two of them share an algorithm. */
export const TOKEN_KEYS: Record<string, FuzzKey> = {
  ec: ecKey('token'),
  ec2: ecKey('token 2'),
  ed: edKey('token', 'EdDSA'),
  ed2: edKey('token ed 2', 'Ed25519'),
  rsa: rsaKey('RS256')
}

/** What the provider publishes. One key names its algorithm, one its use. */
export const KEY_SET = {
  keys: Object.entries(TOKEN_KEYS).map(([kid, { jwk, alg }]) => ({
    ...jwk,
    kid,
    ...(kid === 'ed' || kid === 'rsa' ? { alg, use: 'sig' } : {})
  }))
}

/** The algorithms that are accepted, of tokens and of proofs. */
export const ALGS = ['ES256', 'EdDSA', 'Ed25519', 'RS256', 'PS256']

/** The keys of clients. */
export const CLIENT_KEYS: readonly FuzzKey[] = [
  ecKey('client'),
  ecKey('client 2'),
  edKey('client', 'EdDSA'),
  edKey('client', 'Ed25519'),
  rsaKey('PS256')
]

/** A key that is not published, and that no token is bound to. */
export const STRANGER = ecKey('stranger')

/** A signature with a public text as the secret: what a confused verifier would accept (RFC 8725 section 3.1). */
export const hmacOf = (secret: string, input: string): Buffer => createHmac('sha256', secret).update(input).digest()
