import { isJsonObject } from '../jose/jws.ts'
import { importPublicJwk, isForAlg, isForVerifying, isPrivateJwk, readPublicJwk } from '../jose/public-key.ts'
import type { PublicJwk } from '../jose/public-key.ts'
import { ALGORITHMS } from '../jose/signature.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseDocument } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'

/** A key of the provider that may verify access tokens. */
export interface UsableKey {
  readonly kid: string | undefined
  readonly material: PublicJwk
  readonly algs: readonly JwsAlg[]
}

/** Why an entry of a set is passed over. The words are stable, for logs. docs/operating.md explains each. */
export const UNUSABLE_KEYS = Object.freeze([
  'not_a_key', 'key_type', 'key_use', 'algorithm', 'key_id', 'private_key', 'modulus', 'exponent', 'curve', 'point'
] as const)

export type UnusableKey = (typeof UNUSABLE_KEYS)[number]

/**
 * Decides whether one entry of a JWK Set may verify access tokens, and by which algorithms (RFC 7517 section 4, RFC 7518 section 6,
 * RFC 8037 section 2, RFC 9964). The entry must be of the type and curve of an accepted algorithm. An RSA key must have an odd modulus of 2048
 * to 4096 bits and an odd exponent of at least 3 and at most 32 bits. It must not be reserved for encryption, for another algorithm
 * or for signing only. An entry with private members is passed over, because anyone can sign with it.
 *
 * Returns the key, or the word that says why not. Never throws.
 * @param accepted the accepted algorithms of tokens
 */
export function usableKey (jwk: unknown, accepted: readonly JwsAlg[] = ['RS256']): UsableKey | UnusableKey {
  if (!isJsonObject(jwk)) return 'not_a_key'
  const { kty, kid, crv } = jwk
  const ofType = accepted.filter(name => ALGORITHMS[name].kty === kty)
  if (ofType.length === 0) return 'key_type'
  if (!isForVerifying(jwk)) return 'key_use'
  const ofAlg = ofType.filter(name => isForAlg(jwk, name))
  if (ofAlg.length === 0) return 'algorithm'
  if (kid !== undefined && typeof kid !== 'string') return 'key_id'
  if (isPrivateJwk(jwk)) return 'private_key'
  // Only proofs may use Ed448.
  const algs = ofAlg.filter(name => crv !== 'Ed448' && (ALGORITHMS[name].crvs.length === 0 || ALGORITHMS[name].crvs.includes(crv as string)))
  if (algs.length === 0) return 'curve'
  const material = readPublicJwk(jwk, ALGORITHMS[algs[0]!], { allowsLeadingZeros: true })
  if (typeof material === 'string') return material
  return importPublicJwk(material) ? { kid, material, algs } : 'point'
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
