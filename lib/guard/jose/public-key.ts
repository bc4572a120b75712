import { createPublicKey, hash, type JsonWebKeyInput, type KeyObject } from 'node:crypto'
import { isCanonicalBase64url } from './signed-jwt.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { ALGORITHMS, isSameAlg, type JwsAlg } from './signature.ts'

const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 4096
const MAX_EXPONENT_BITS = 32
/** 4096 bits take 683 characters. The rest allows for leading zeros. A longer text is not decoded. */
const MAX_NUMBER_CHARACTERS = 700
const COORDINATE_BYTES: Readonly<Record<string, number>> = {
  'P-256': 32,
  'P-384': 48,
  'P-521': 66,
  Ed25519: 32,
  Ed448: 57
}
/** FIPS 204 section 4. */
const ML_DSA_44_BYTES = 1312
/** The members of private and symmetric keys (RFC 7518 section 6, RFC 9964). */
export const PRIVATE_MEMBERS: readonly string[] = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

/** The members of a public JWK that its thumbprint covers, in lexicographic order (RFC 7638 section 3.2, RFC 9964). */
export type PublicJwk =
  | { readonly crv: string, readonly kty: 'EC', readonly x: string, readonly y: string }
  | { readonly crv: string, readonly kty: 'OKP', readonly x: string }
  | { readonly e: string, readonly kty: 'RSA', readonly n: string }
  | { readonly alg: 'ML-DSA-44', readonly kty: 'AKP', readonly pub: string }

/**
 * Why a JWK may not verify signatures, in the order of the checks. The words are stable, for logs.
 * docs/reference/monitoring.md explains each.
 */
export const JWK_FAULTS = [
  'not_a_key',
  'key_type',
  'key_use',
  'algorithm',
  'key_id',
  'private_key',
  'modulus',
  'exponent',
  'curve',
  'point'
] as const

export type JwkFault = (typeof JWK_FAULTS)[number]

/**
 * Decides whether a JWK may verify signatures by an algorithm (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section
 * 2, RFC 9964), and takes the members that make the key. It must be of the algorithm's type and curve, and not be
 * reserved for encryption, for another algorithm or for signing only. One with private members is refused, because
 * anyone could sign with it. An RSA key has an odd modulus of 2048 to 4096 bits and an odd exponent of 3 or more and at
 * most 32 bits, since a larger number costs its sender nothing and the verifier much. Coordinates have every leading
 * zero (RFC 7518 section 6.2.1.2).
 *
 * It builds no key, so it costs no more than reading, whatever the size of the input. Whether a point is on its curve
 * shows in `importPublicJwk`.
 * @param origin `proof`: the header of a proof. `set`: the key set of a provider or of a file. Only there RSA numbers
 * may begin with zero bytes (against RFC 7518 section 2: then one key has several thumbprints), a `kid` must be a text,
 * and Ed448 is not accepted
 */
export function readPublicJwk (jwk: unknown, alg: JwsAlg, origin: 'proof' | 'set'): PublicJwk | JwkFault {
  if (!isJsonObject(jwk)) return 'not_a_key'
  const { kty, crvs } = ALGORITHMS[alg]
  if (jwk.kty !== kty) return 'key_type'
  if (!isForVerifying(jwk)) return 'key_use'
  if (!isForAlg(jwk, alg)) return 'algorithm'
  if (origin === 'set' && jwk.kid !== undefined && typeof jwk.kid !== 'string') return 'key_id'
  if (PRIVATE_MEMBERS.some(name => Object.hasOwn(jwk, name))) return 'private_key'
  const { n, e, pub, x, y } = jwk
  if (kty === 'RSA') return rsaFault(n, e, origin === 'set') ?? { e: e as string, kty, n: n as string }
  if (kty === 'AKP') return isBytes(pub, ML_DSA_44_BYTES) ? { alg: 'ML-DSA-44', kty, pub } : 'point'
  const crv = crvs.find(name => name === jwk.crv)
  if (crv === undefined || (origin === 'set' && crv === 'Ed448')) return 'curve'
  const bytes = COORDINATE_BYTES[crv]!
  if (!isBytes(x, bytes)) return 'point'
  if (kty === 'OKP') return { crv, kty, x }
  return isBytes(y, bytes) ? { crv, kty, x, y } : 'point'
}

/** RFC 7517 sections 4.2 and 4.3. */
function isForVerifying ({ use, key_ops: keyOps }: JsonObject): boolean {
  return (use === undefined || use === 'sig') &&
    (keyOps === undefined || (Array.isArray(keyOps) && keyOps.includes('verify')))
}

/** RFC 7517 section 4.4. A key of ML-DSA must have an `alg` (RFC 9964). */
function isForAlg ({ kty, alg: ofKey }: JsonObject, alg: JwsAlg): boolean {
  return ofKey === undefined ? kty !== 'AKP' : isSameAlg(ofKey, alg)
}

function rsaFault (n: unknown, e: unknown, allowsLeadingZeros: boolean): JwkFault | undefined {
  const modulusBits = bitsOfOddNumber(n, allowsLeadingZeros)
  if (!(modulusBits >= MIN_MODULUS_BITS && modulusBits <= MAX_MODULUS_BITS)) return 'modulus'
  const exponentBits = bitsOfOddNumber(e, allowsLeadingZeros)
  return exponentBits > 1 && exponentBits <= MAX_EXPONENT_BITS ? undefined : 'exponent'
}

/** The size of a Base64urlUInt (RFC 7518 section 2) in bits. 0 for one that is even, and for what is none. */
function bitsOfOddNumber (value: unknown, allowsLeadingZeros: boolean): number {
  if (typeof value !== 'string' || value.length > MAX_NUMBER_CHARACTERS || !isCanonicalBase64url(value)) return 0
  const bytes = Buffer.from(value, 'base64url')
  const first = bytes.findIndex(byte => byte !== 0)
  if (first === -1 || (first > 0 && !allowsLeadingZeros) || bytes.at(-1)! % 2 === 0) return 0
  return (bytes.length - first) * 8 - Math.clz32(bytes[first]!) + 24
}

function isBytes (value: unknown, length: number): value is string {
  return typeof value === 'string' && value.length === Math.ceil(length * 8 / 6) && isCanonicalBase64url(value)
}

/**
 * RFC 7638 thumbprint with SHA-256, base64url. Its input needs no escaping: the members hold only base64url and names
 * of curves and algorithms.
 */
export function thumbprint (jwk: PublicJwk): string {
  return hash('sha256', JSON.stringify(jwk), 'base64url')
}

/** Returns undefined if a point is not on its curve, or if this Node has no such keys. */
export function importPublicJwk (jwk: PublicJwk): KeyObject | undefined {
  try {
    return createPublicKey({ key: { ...jwk } as JsonWebKeyInput['key'], format: 'jwk' })
  } catch {
    return undefined
  }
}

/** Whether this service, with this Node, can verify signatures of this name. ML-DSA came with Node 24.7. */
export function isVerifiable (alg: string): boolean {
  if (alg !== 'ML-DSA-44') return Object.hasOwn(ALGORITHMS, alg)
  return importPublicJwk({ alg, kty: 'AKP', pub: 'A'.repeat(Math.ceil(ML_DSA_44_BYTES * 8 / 6)) }) !== undefined
}
