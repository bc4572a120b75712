import { createPublicKey } from 'node:crypto'
import { ProviderFailure } from './provider-failure.ts'

/** A key of the provider. It is the same object for as long as the key stays in the set unchanged, so caches may refer to it. */
export interface SigningKey {
  readonly kid: string | undefined
  /** SPKI in PEM. */
  readonly pem: string
}

/** The usable keys of one fetched set, by identity. */
export type SigningKeys = ReadonlyMap<string, SigningKey>

/** An RSA key of the provider that may verify access tokens, with only the members of the JWK that verification needs. */
export interface UsableKey {
  readonly kid: string | undefined
  readonly n: string
  readonly e: string
}

/** Why an entry of a set is passed over. The words are stable, for logs. docs/operating.md explains each. */
export const UNUSABLE_KEYS = Object.freeze([
  'not_a_key', 'key_type', 'key_use', 'algorithm', 'key_id', 'private_key', 'modulus', 'exponent'
] as const)

export type UnusableKey = (typeof UNUSABLE_KEYS)[number]

const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

/** 4096 bits take 683 characters. The rest allows for leading zeros. A longer text is not decoded. */
const MAX_MODULUS_CHARACTERS = 700
const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 4096
const MAX_EXPONENT = 2n ** 32n - 1n

/** Each byte string has exactly one text: no padding, no other alphabet, no stray trailing bits (RFC 4648 section 3.5). */
function isCanonicalBase64url (text: unknown): text is string {
  return typeof text === 'string' && text !== '' && text.length <= MAX_MODULUS_CHARACTERS &&
    Buffer.from(text, 'base64url').toString('base64url') === text
}

function isOdd (text: string): boolean {
  return Buffer.from(text, 'base64url').at(-1)! % 2 === 1
}

/**
 * Decides whether one entry of a JWK Set may verify RS256 access tokens (RFC 7517 section 4, RFC 7518 section 6.3). The entry must
 * be an RSA key with an odd modulus of 2048 to 4096 bits and an odd exponent of at least 3 and at most 32 bits. It must not be
 * reserved for encryption, for another algorithm or for signing only. An entry with private members is passed over, because anyone
 * can sign with it.
 *
 * Returns the key, or the word that says why not. Never throws.
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
  // An even number is not a product of two large primes, and the library accepts it until it verifies a signature.
  if (!isCanonicalBase64url(n) || !isOdd(n)) return 'modulus'
  if (!isCanonicalBase64url(e)) return 'exponent'
  // The library that will verify with the key measures it. It accepts any two numbers, so only the types allow an absent measure.
  const { modulusLength = 0, publicExponent = 0n } = createPublicKey({ key: { kty, n, e }, format: 'jwk' }).asymmetricKeyDetails!
  if (modulusLength < MIN_MODULUS_BITS || modulusLength > MAX_MODULUS_BITS) return 'modulus'
  if (publicExponent < 3n || publicExponent > MAX_EXPONENT || publicExponent % 2n === 0n) return 'exponent'
  return { kid, n, e }
}

/** The limit is far above what a provider publishes. It is low enough that all entries are judged in a few milliseconds. */
const MAX_ENTRIES = 100

/** The number of entries of a set that were passed over, by reason. */
export type PassedOver = Readonly<Partial<Record<UnusableKey, number>>>

export interface KeySet {
  readonly usable: readonly UsableKey[]
  readonly passedOver: PassedOver
}

/** UTF-8, as RFC 8259 section 8.1 requires. A byte order mark is dropped. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the object that a document of the provider holds. Throws ProviderFailure `not_json`, or `malformed` for other JSON. */
export function parseDocument (body: Uint8Array, malformed: 'discovery_malformed' | 'set_malformed'): Record<string, unknown> {
  let document: unknown
  try {
    document = JSON.parse(utf8.decode(body))
  } catch {
    throw new ProviderFailure('not_json', undefined, { expected: 'JSON' })
  }
  if (typeof document !== 'object' || document === null || Array.isArray(document)) throw new ProviderFailure(malformed)
  return document as Record<string, unknown>
}

/**
 * Decides which keys of a JWK Set document (RFC 7517 section 5) may verify access tokens.
 *
 * A set without usable keys is a valid answer: the provider has withdrawn its keys. A document that is not a set is a fault of the
 * provider and says nothing about its keys. The same holds for a set without any JSON object in it, and for a set of more than 100
 * entries, since it is not our choice which keys to drop.
 *
 * Several keys may have the same `kid` (RFC 7517 section 4.5 only says that they should not). A key that appears twice counts once.
 *
 * Throws ProviderFailure `not_json`, `set_malformed`, `set_too_many_keys`.
 */
export function parseKeySet (body: Uint8Array): KeySet {
  const { keys } = parseDocument(body, 'set_malformed')
  if (!Array.isArray(keys)) throw new ProviderFailure('set_malformed')
  if (keys.length > MAX_ENTRIES) throw new ProviderFailure('set_too_many_keys', keys.length)

  const judged = keys.map(usableKey)
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
export function keyIdentity ({ kid, n, e }: UsableKey): string {
  return JSON.stringify([n, e, kid])
}

/** A token is tried against at most this many keys, so that its number of verifications is bounded. */
const MAX_CANDIDATES = 8

const NONE: readonly SigningKey[] = Object.freeze([])

/** The keys of one fetched set, arranged for requests. A ring never changes: the next set gets a new ring. */
export interface KeyRing {
  readonly keys: SigningKeys
  /** The keys that may have signed a token: the first 8 keys of the set with this `kid`, or the first 8 of all if there is no `kid`. */
  candidates (kid: string | undefined): readonly SigningKey[]
  /** Whether this very object is in the set. */
  has (key: SigningKey): boolean
}

/** @param keys the usable keys of a set */
export function createKeyRing (keys: SigningKeys): KeyRing {
  const all = [...keys.values()]
  const members = new Set(all)
  // If a token names no key, any key may have signed it. If a token names a key, only keys with that name may have signed it (RFC 7515
  // section 4.1.4).
  const byKid = new Map<string | undefined, readonly SigningKey[]>([[undefined, Object.freeze(all.slice(0, MAX_CANDIDATES))]])
  for (const key of all) {
    if (key.kid === undefined) continue
    const namesakes = byKid.get(key.kid) ?? NONE
    if (namesakes.length < MAX_CANDIDATES) byKid.set(key.kid, Object.freeze([...namesakes, key]))
  }

  return {
    keys,
    candidates: (kid) => byKid.get(kid) ?? NONE,
    has: (key) => members.has(key)
  }
}

/** Whether two sets hold the same keys in the same order. */
export function isSameSet (older: SigningKeys, newer: SigningKeys): boolean {
  const identities = newer.keys()
  return older.size === newer.size && [...older.keys()].every((identity) => identity === identities.next().value)
}

/** The number of keys that only the newer set has, and the number of keys that only the older set has. */
export function keyChanges (older: SigningKeys, newer: SigningKeys): { added: number, removed: number } {
  let stayed = 0
  for (const identity of newer.keys()) if (older.has(identity)) stayed++
  return { added: newer.size - stayed, removed: older.size - stayed }
}
