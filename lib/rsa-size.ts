import { isCanonicalBase64url } from './jws.ts'

const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 4096
const MAX_EXPONENT_BITS = 32
const MAX_MODULUS_CHARACTERS = Math.ceil(MAX_MODULUS_BITS / 6)

/**
 * Whether the `n` and `e` of a JWK (RFC 7518 section 6.3.1) make an RSA key of 2048 to 4096 bits with an odd exponent of at most
 * 32 bits. A larger key or exponent costs its sender nothing and the verifier much; a shorter key protects nothing.
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
