import { createPublicKey } from 'node:crypto'
import type { AsymmetricKeyDetails, JsonWebKey } from 'node:crypto'
import { isCanonicalBase64url } from '../jose/jws.ts'
import { isCoordinate } from '../jose/public-key.ts'
import { ALGORITHMS, isSameAlg } from '../jose/signature.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseDocument } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'

/** The members of a JWK that make the public key, and no other. */
export type KeyMaterial =
  | { readonly kty: 'RSA', readonly n: string, readonly e: string }
  | { readonly kty: 'EC', readonly crv: string, readonly x: string, readonly y: string }
  | { readonly kty: 'OKP', readonly crv: string, readonly x: string }

/** A key of the provider that may verify access tokens. */
export interface UsableKey {
  readonly kid: string | undefined
  readonly material: KeyMaterial
  readonly algs: readonly JwsAlg[]
}

/** Why an entry of a set is passed over. The words are stable, for logs. docs/operating.md explains each. */
export const UNUSABLE_KEYS = Object.freeze([
  'not_a_key', 'key_type', 'key_use', 'algorithm', 'key_id', 'private_key', 'modulus', 'exponent', 'curve', 'point'
] as const)

export type UnusableKey = (typeof UNUSABLE_KEYS)[number]

const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

/** 4096 bits take 683 characters. The rest allows for leading zeros. A longer text is not decoded. */
const MAX_NUMBER_CHARACTERS = 700
const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 4096
const MAX_EXPONENT = 2n ** 32n - 1n

/** Each byte string has exactly one text: no padding, no other alphabet, no stray trailing bits (RFC 4648 section 3.5). */
function isNumber (text: unknown): text is string {
  return typeof text === 'string' && text.length <= MAX_NUMBER_CHARACTERS && isCanonicalBase64url(text)
}

function isOdd (text: string): boolean {
  return Buffer.from(text, 'base64url').at(-1)! % 2 === 1
}

/**
 * Decides whether one entry of a JWK Set may verify access tokens, and by which algorithms (RFC 7517 section 4, RFC 7518 section 6,
 * RFC 8037 section 2). The entry must be of the type and curve of an accepted algorithm. An RSA key must have an odd modulus of 2048
 * to 4096 bits and an odd exponent of at least 3 and at most 32 bits. It must not be reserved for encryption, for another algorithm
 * or for signing only. An entry with private members is passed over, because anyone can sign with it.
 *
 * Returns the key, or the word that says why not. Never throws.
 * @param accepted the accepted algorithms of tokens
 */
export function usableKey (entry: unknown, accepted: readonly JwsAlg[] = ['RS256']): UsableKey | UnusableKey {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return 'not_a_key'
  const { kty, use, key_ops: keyOps, alg, kid, crv } = entry as Record<string, unknown>
  const ofType = accepted.filter(name => ALGORITHMS[name].kty === kty)
  if (ofType.length === 0) return 'key_type'
  if (use !== undefined && use !== 'sig') return 'key_use'
  if (keyOps !== undefined && !(Array.isArray(keyOps) && keyOps.includes('verify'))) return 'key_use'
  if (alg !== undefined && !ofType.some(name => isSameAlg(alg, name))) return 'algorithm'
  if (kid !== undefined && typeof kid !== 'string') return 'key_id'
  if (PRIVATE_MEMBERS.some((member) => Object.hasOwn(entry, member))) return 'private_key'
  const algs = ofType.filter(name => (alg === undefined || isSameAlg(alg, name)) && (kty === 'RSA' || ALGORITHMS[name].crvs.includes(crv as string)))
  // Only proofs may use Ed448.
  if (algs.length === 0 || (kty === 'OKP' && crv === 'Ed448')) return 'curve'
  const material = kty === 'RSA' ? rsaMaterial(entry) : curveMaterial(entry)
  return typeof material === 'string' ? material : { kid, material, algs }
}

function rsaMaterial ({ n, e }: { n?: unknown, e?: unknown }): KeyMaterial | UnusableKey {
  // An even number is not a product of two large primes, and the library accepts it until it verifies a signature.
  if (!isNumber(n) || !isOdd(n)) return 'modulus'
  if (!isNumber(e)) return 'exponent'
  // The library that will verify with the key measures it. It accepts any two numbers, so only the types allow an absent measure.
  const { modulusLength = 0, publicExponent = 0n } = measure({ kty: 'RSA', n, e })!
  if (modulusLength < MIN_MODULUS_BITS || modulusLength > MAX_MODULUS_BITS) return 'modulus'
  if (publicExponent < 3n || publicExponent > MAX_EXPONENT || publicExponent % 2n === 0n) return 'exponent'
  return { kty: 'RSA', n, e }
}

function curveMaterial ({ kty, crv, x, y }: { kty?: unknown, crv?: unknown, x?: unknown, y?: unknown }): KeyMaterial | UnusableKey {
  if (!isCoordinate(x, crv as string) || (kty === 'EC' && !isCoordinate(y, crv as string))) return 'point'
  const material = (kty === 'EC' ? { kty, crv, x, y } : { kty, crv, x }) as KeyMaterial
  // The library refuses a point that is not on its curve.
  return measure(material) ? material : 'point'
}

function measure (material: KeyMaterial): AsymmetricKeyDetails | undefined {
  try {
    return createPublicKey({ key: material as unknown as JsonWebKey, format: 'jwk' }).asymmetricKeyDetails
  } catch {
    return undefined
  }
}

/** The limit is far above what a provider publishes. It is low enough that all entries are judged in a few milliseconds. */
const MAX_ENTRIES = 100

/** The number of entries of a set that were passed over, by reason. */
export type PassedOver = Readonly<Partial<Record<UnusableKey, number>>>

export interface KeySet {
  readonly usable: readonly UsableKey[]
  readonly passedOver: PassedOver
}

/**
 * Decides which keys of a JWK Set document (RFC 7517 section 5) may verify access tokens. `accepted` are the algorithms of tokens.
 *
 * A set without usable keys is a valid answer: the provider has withdrawn its keys. A document that is not a set is a fault of the
 * provider and says nothing about its keys. The same holds for a set without any JSON object in it, and for a set of more than 100
 * entries, since it is not our choice which keys to drop.
 *
 * Several keys may have the same `kid` (RFC 7517 section 4.5 only says that they should not). A key that appears twice counts once.
 *
 * Throws ProviderFailure `not_json`, `set_malformed`, `set_too_many_keys`.
 */
export function parseKeySet (body: Uint8Array, accepted?: readonly JwsAlg[]): KeySet {
  const { keys } = parseDocument(body, 'set_malformed')
  if (!Array.isArray(keys)) throw new ProviderFailure('set_malformed')
  if (keys.length > MAX_ENTRIES) throw new ProviderFailure('set_too_many_keys', keys.length)

  const judged = keys.map(key => usableKey(key, accepted))
  if (keys.length > 0 && judged.every((verdict) => verdict === 'not_a_key')) throw new ProviderFailure('set_malformed')
  const passedOver: Partial<Record<UnusableKey, number>> = {}
  const usable = new Map<string, UsableKey>()
  for (const verdict of judged) {
    if (typeof verdict === 'string') passedOver[verdict] = (passedOver[verdict] ?? 0) + 1
    else usable.set(keyIdentity(verdict), verdict)
  }
  return { usable: [...usable.values()], passedOver }
}

/** Equal for two keys only if their texts are equal: a number that is written in two ways counts as two numbers. */
export function keyIdentity ({ kid, material, algs }: UsableKey): string {
  return JSON.stringify([material, algs, kid])
}
