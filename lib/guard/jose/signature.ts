import { constants, verify, type KeyObject, type SigningOptions, type VerifyKeyObjectInput } from 'node:crypto'

/**
 * What a JWS algorithm requires of a key, and the options with which node:crypto verifies it (RFC 7518 section 3.1, RFC
 * 8037, RFC 9864).
 */
export interface AlgorithmSpec {
  readonly kty: 'EC' | 'RSA' | 'OKP' | 'AKP'
  /** The curves of the algorithm. None for RSA and AKP. */
  readonly crvs: readonly string[]
  /** Digest name, or null if the algorithm has its own. */
  readonly digest: string | null
  /** Bytes of an ECDSA signature in JOSE form: half for r and half for s. */
  readonly signatureBytes?: number
  /** Options in addition to the key: padding and salt of RSASSA-PSS. */
  readonly signing?: SigningOptions
}

const ec = (crv: string, digest: string, signatureBytes: number): AlgorithmSpec => ({
  kty: 'EC',
  crvs: [crv],
  digest,
  signatureBytes
})
const rsa = (digest: string): AlgorithmSpec => ({ kty: 'RSA', crvs: [], digest })
const pss = (digest: string, saltLength: number): AlgorithmSpec => ({
  kty: 'RSA',
  crvs: [],
  digest,
  signing: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength }
})

const TABLE = {
  ES256: ec('P-256', 'sha256', 64),
  ES384: ec('P-384', 'sha384', 96),
  ES512: ec('P-521', 'sha512', 132),
  PS256: pss('sha256', 32),
  PS384: pss('sha384', 48),
  PS512: pss('sha512', 64),
  RS256: rsa('sha256'),
  RS384: rsa('sha384'),
  RS512: rsa('sha512'),
  EdDSA: { kty: 'OKP', crvs: ['Ed25519', 'Ed448'], digest: null },
  Ed25519: { kty: 'OKP', crvs: ['Ed25519'], digest: null },
  'ML-DSA-44': { kty: 'AKP', crvs: [], digest: null }
} satisfies Readonly<Record<string, AlgorithmSpec>>

/** A known value of `alg` (RFC 7518 section 3.1, RFC 8037, RFC 9864, RFC 9964). */
export type JwsAlg = keyof typeof TABLE

export const ALGORITHMS: Readonly<Record<JwsAlg, AlgorithmSpec>> = TABLE

export const JWS_ALGS = Object.keys(TABLE) as readonly JwsAlg[]

/**
 * Whether a key whose `alg` member is `ofKey` may verify a signature with this `alg`. `EdDSA` and `Ed25519` are two
 * names of one algorithm (RFC 9864).
 */
export function isSameAlg (ofKey: unknown, alg: JwsAlg): boolean {
  const isEdwards = (name: unknown) => name === 'EdDSA' || name === 'Ed25519'
  return ofKey === alg || (isEdwards(ofKey) && isEdwards(alg))
}

/**
 * Verifies a JWS signature on the thread pool (RFC 7515 section 5.2).
 * @param signature base64url
 * @param done gets true if the signature belongs to the key, and false in every other case
 */
export function verifySignature (
  algorithm: AlgorithmSpec,
  key: KeyObject,
  input: string,
  signature: string,
  done: (isValid: boolean) => void
): void {
  const bytes = decodeSignature(algorithm, signature)
  if (!bytes || !isOfLength(algorithm, key, signature)) return done(false)
  verify(
    algorithm.digest,
    Buffer.from(input, 'latin1'),
    materialOf(algorithm, key),
    bytes,
    (_error, isValid) => done(isValid === true)
  )
}

/**
 * Finds the key that has signed a compact JWS, on the thread of the caller (RFC 7515 section 5.2). It is decoded once,
 * however many keys are possible. Returns undefined if none of them has.
 */
export function findSignerByCrypto<Key extends { readonly key: KeyObject }> (
  jws: string,
  keys: readonly Key[],
  alg: JwsAlg
): Key | undefined {
  const algorithm = ALGORITHMS[alg]
  const end = jws.lastIndexOf('.')
  const signature = jws.slice(end + 1)
  const bytes = decodeSignature(algorithm, signature)
  if (!bytes) return undefined
  const signed = Buffer.from(jws.slice(0, end), 'latin1')
  return keys.find(({ key }) =>
    isOfLength(algorithm, key, signature) && verify(algorithm.digest, signed, materialOf(algorithm, key), bytes)
  )
}

/**
 * Whether a signature is as long as its algorithm and key make it (RFC 8017 sections 8.1.2 and 8.2.2). node:crypto
 * takes an RSASSA-PSS signature whose leading zero byte was left out, so that one token would have two texts. Of all
 * others it checks the length itself.
 * @param signature base64url
 */
export function isOfLength ({ kty }: AlgorithmSpec, key: KeyObject, signature: string): boolean {
  return kty !== 'RSA' ||
    Math.floor(signature.length * 3 / 4) === Math.ceil(key.asymmetricKeyDetails!.modulusLength! / 8)
}

/** node:crypto gets ECDSA signatures as DER: the JOSE form would cost 60 microseconds more a call on Node 24. */
function decodeSignature ({ signatureBytes }: AlgorithmSpec, signature: string): Buffer | undefined {
  const bytes = Buffer.from(signature, 'base64url')
  return signatureBytes === undefined ? bytes : encodeDer(bytes, signatureBytes)
}

function materialOf ({ signing }: AlgorithmSpec, key: KeyObject): KeyObject | VerifyKeyObjectInput {
  return signing ? { key, ...signing } : key
}

const INTEGER = 0x02
const SEQUENCE = 0x30
const LONG_FORM = 0x81

/**
 * Converts `r || s` (RFC 7518 section 3.4) to `SEQUENCE { r INTEGER, s INTEGER }`. Returns undefined if the length does
 * not fit the curve.
 */
export function encodeDer (signature: Buffer, signatureBytes: number): Buffer | undefined {
  if (signature.length !== signatureBytes) return undefined
  const half = signatureBytes / 2
  // At most four bytes for the sequence and three bytes for each integer.
  const der = Buffer.allocUnsafe(signatureBytes + 10)
  let end = writeInteger(der, 4, signature, 0, half)
  end = writeInteger(der, end, signature, half, signatureBytes)
  const length = end - 4
  const start = length < 0x80 ? 2 : 1
  der[start] = SEQUENCE
  if (length >= 0x80) der[start + 1] = LONG_FORM
  der[3] = length
  return der.subarray(start, end)
}

// A DER integer is signed. It has no leading zero byte, except for one if its first bit would be set.
function writeInteger (der: Buffer, at: number, source: Buffer, from: number, to: number): number {
  while (from < to - 1 && source[from] === 0) from++
  const pad = source[from]! >= 0x80 ? 1 : 0
  der[at] = INTEGER
  der[at + 1] = to - from + pad
  der[at + 2] = 0
  source.copy(der, at + 2 + pad, from, to)
  return at + 2 + pad + to - from
}
