import { createPublicKey } from 'node:crypto'

/** An RSA key of the provider that may verify access tokens, with no more of the JWK than that takes. */
export interface UsableKey {
  readonly kid: string | undefined
  readonly n: string
  readonly e: string
}

/** Why an entry of a set is passed over. Stable words, for logs; docs/operating.md explains each. */
export const UNUSABLE_KEYS = Object.freeze([
  'not_a_key', 'key_type', 'key_use', 'algorithm', 'key_id', 'private_key', 'modulus', 'exponent'
] as const)

export type UnusableKey = (typeof UNUSABLE_KEYS)[number]

const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

/** 4096 bits take 683 characters; the slack is for leading zeros. A longer text is not worth decoding. */
const MAX_MODULUS_CHARACTERS = 700
const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 4096
const MAX_EXPONENT = 2n ** 32n - 1n

/** One text for one number of bytes: no padding, no foreign alphabet, no stray trailing bits (RFC 4648 section 3.5). */
function isCanonicalBase64url (text: unknown): text is string {
  return typeof text === 'string' && text !== '' && text.length <= MAX_MODULUS_CHARACTERS &&
    Buffer.from(text, 'base64url').toString('base64url') === text
}

function isOdd (text: string): boolean {
  return Buffer.from(text, 'base64url').at(-1)! % 2 === 1
}

/**
 * Decides whether one entry of a JWK Set may verify RS256 access tokens (RFC 7517 section 4, RFC 7518 section 6.3): RSA with
 * an odd modulus of 2048 to 4096 bits and an odd exponent, at least 3, of at most 32 bits, and not set aside for encryption, for another
 * algorithm or only for signing. An entry that carries private members is passed over, for then anyone can sign with it.
 *
 * Returns the key, or the word for why not. Never throws.
 */
export function usableKey (entry: unknown): UsableKey | UnusableKey {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return 'not_a_key'
  const { kty, use, key_ops: keyOps, alg, kid, n, e } = entry as Record<string, unknown>
  if (kty !== 'RSA') return 'key_type'
  if (use !== undefined && use !== 'sig') return 'key_use'
  if (keyOps !== undefined && !(Array.isArray(keyOps) && keyOps.includes('verify'))) return 'key_use'
  if (alg !== undefined && alg !== 'RS256') return 'algorithm'
  if (kid !== undefined && typeof kid !== 'string') return 'key_id'
  if (PRIVATE_MEMBERS.some((member) => Object.hasOwn(entry, member))) return 'private_key'
  // An even number is no product of two large primes, and the library takes it until it is to verify something.
  if (!isCanonicalBase64url(n) || !isOdd(n)) return 'modulus'
  if (!isCanonicalBase64url(e)) return 'exponent'
  // Measured by the library that will verify with the key. It takes any two numbers, so an absent measure is only a type.
  const { modulusLength = 0, publicExponent = 0n } = createPublicKey({ key: { kty, n, e }, format: 'jwk' }).asymmetricKeyDetails!
  if (modulusLength < MIN_MODULUS_BITS || modulusLength > MAX_MODULUS_BITS) return 'modulus'
  if (publicExponent < 3n || publicExponent > MAX_EXPONENT || publicExponent % 2n === 0n) return 'exponent'
  return { kid, n, e }
}
