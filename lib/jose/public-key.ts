import { createPublicKey, hash } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { Refusal } from '../refusal.ts'
import type { AlgorithmSpec } from './signature.ts'
import { isCanonicalBase64url } from './jws.ts'
import type { JsonObject } from './jws.ts'

const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 4096
const MAX_EXPONENT_BITS = 32
const MAX_MODULUS_CHARACTERS = Math.ceil(MAX_MODULUS_BITS / 6)

/**
 * Whether the `n` and `e` of a JWK (RFC 7518 section 6.3.1) make an RSA key of 2048 to 4096 bits with an odd exponent of at most 32
 * bits. A larger key or exponent costs its sender nothing and the verifier much. A shorter key is not secure.
 */
export function isUsableRsaSize (n: unknown, e: unknown): boolean {
  const modulus = readUnsigned(n, MAX_MODULUS_CHARACTERS)
  const exponent = readUnsigned(e, Math.ceil(MAX_EXPONENT_BITS / 6))
  if (!modulus || !exponent) return false
  const bits = bitLength(modulus)
  const isOdd = (bytes: Buffer): boolean => bytes[bytes.length - 1]! % 2 === 1
  return bits >= MIN_MODULUS_BITS && bits <= MAX_MODULUS_BITS && isOdd(modulus) &&
    bitLength(exponent) <= MAX_EXPONENT_BITS && isOdd(exponent) && bitLength(exponent) > 1
}

// RFC 7518 section 2, Base64urlUInt: no leading zero bytes.
function readUnsigned (value: unknown, maxCharacters: number): Buffer | undefined {
  if (typeof value !== 'string' || value.length > maxCharacters || !isCanonicalBase64url(value)) return undefined
  const bytes = Buffer.from(value, 'base64url')
  return bytes[0] === 0 ? undefined : bytes
}

function bitLength (bytes: Buffer): number {
  return (bytes.length - 1) * 8 + (32 - Math.clz32(bytes[0]!))
}

/** The members of a public JWK that its thumbprint covers, in lexicographic order (RFC 7638 section 3.2). */
export type CanonicalJwk =
  | { readonly crv: string, readonly kty: 'EC', readonly x: string, readonly y: string }
  | { readonly crv: string, readonly kty: 'OKP', readonly x: string }
  | { readonly e: string, readonly kty: 'RSA', readonly n: string }

const COORDINATE_BYTES: Readonly<Record<string, number>> = { 'P-256': 32, 'P-384': 48, 'P-521': 66, Ed25519: 32, Ed448: 57 }
// RFC 9449 section 4.2: the key is public. RFC 7518 section 6 lists the members of private and symmetric keys.
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'] as const

/**
 * Takes the members that make the key from a proof's `jwk`, after it has checked that they fit the type, curve and size that the
 * algorithm needs. It builds no key, so it costs no more than reading, whatever the size of the input.
 * @throws Refusal proof_key
 */
export function parsePublicJwk (jwk: unknown, algorithm: AlgorithmSpec): CanonicalJwk {
  if (typeof jwk !== 'object' || jwk === null || Array.isArray(jwk)) throw new Refusal('proof_key')
  const members = jwk as JsonObject
  if (members.kty !== algorithm.kty || PRIVATE_MEMBERS.some(name => Object.hasOwn(members, name))) throw new Refusal('proof_key')
  if (algorithm.kty === 'RSA') {
    const { e, n } = members
    if (!isUsableRsaSize(n, e)) throw new Refusal('proof_key')
    return { e: e as string, kty: 'RSA', n: n as string }
  }
  const { x, y } = members
  const crv = algorithm.crvs.find(name => name === members.crv)
  if (crv === undefined || !isCoordinate(x, crv)) throw new Refusal('proof_key')
  if (algorithm.kty === 'OKP') return { crv, kty: 'OKP', x }
  if (!isCoordinate(y, crv)) throw new Refusal('proof_key')
  return { crv, kty: 'EC', x, y }
}

/** Whether a text is a coordinate of a point on this curve, with every leading zero (RFC 7518 section 6.2.1.2, RFC 8037 section 2). */
export function isCoordinate (value: unknown, crv: string): value is string {
  const bytes = COORDINATE_BYTES[crv]!
  return typeof value === 'string' && value.length === Math.ceil(bytes * 8 / 6) && isCanonicalBase64url(value)
}

/** RFC 7638 thumbprint with SHA-256, base64url. Its input needs no escaping: the members hold only base64url and curve names. */
export function thumbprint (jwk: CanonicalJwk): string {
  return hash('sha256', JSON.stringify(jwk), 'base64url')
}

/** @throws Refusal proof_key if a point is not on its curve */
export function importPublicJwk (jwk: CanonicalJwk): KeyObject {
  try {
    return createPublicKey({ key: { ...jwk }, format: 'jwk' })
  } catch {
    throw new Refusal('proof_key')
  }
}
