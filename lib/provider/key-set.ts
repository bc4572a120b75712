import { importPublicJwk, JWK_FAULTS, readPublicJwk } from '../jose/public-key.ts'
import type { JwkFault, PublicJwk } from '../jose/public-key.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseDocument } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'

/** A key of the provider that may verify access tokens. */
export interface UsableKey {
  readonly kid: string | undefined
  readonly material: PublicJwk
  readonly algs: readonly JwsAlg[]
}

/**
 * Decides whether one entry of a JWK Set may verify access tokens, and by which of the accepted algorithms. Returns the key, or the fault of
 * the algorithm that came furthest. Never throws.
 */
export function usableKey (jwk: unknown, accepted: readonly JwsAlg[] = ['RS256']): UsableKey | JwkFault {
  const verdicts = accepted.map(alg => readPublicJwk(jwk, alg, 'set'))
  const material = verdicts.find(verdict => typeof verdict !== 'string')
  if (material === undefined) return JWK_FAULTS[Math.max(...verdicts.map(fault => JWK_FAULTS.indexOf(fault as JwkFault)))]!
  const { kid } = jwk as { readonly kid?: string }
  return importPublicJwk(material) ? { kid, material, algs: accepted.filter((_alg, at) => typeof verdicts[at] !== 'string') } : 'point'
}

/** The limit is far above what a provider publishes. It is low enough that all entries are judged in a few milliseconds. */
const MAX_ENTRIES = 100

/** The number of entries of a set that were passed over, by reason. */
export type PassedOver = Readonly<Partial<Record<JwkFault, number>>>

export interface KeySet {
  readonly usable: readonly UsableKey[]
  readonly passedOver: PassedOver
}

/**
 * Decides which keys of a JWK Set document (RFC 7517 section 5) may verify access tokens. `accepted` are the algorithms of tokens.
 *
 * A set without usable keys is a valid answer: the provider has withdrawn its keys. A document that is no set, a set without any JSON object
 * in it, and one of more than 100 entries, of which we must not choose, are faults of the provider and say nothing about its keys.
 *
 * Several keys may have the same `kid` (RFC 7517 section 4.5 only says that they should not). A key that appears twice counts once.
 * @throws ProviderFailure `not_json`, `set_malformed`, `set_too_many_keys`
 */
export function parseKeySet (body: Uint8Array, accepted?: readonly JwsAlg[]): KeySet {
  const { keys } = parseDocument(body, 'set_malformed')
  if (!Array.isArray(keys)) throw new ProviderFailure('set_malformed')
  if (keys.length > MAX_ENTRIES) throw new ProviderFailure('set_too_many_keys', keys.length)

  const judged = keys.map(key => usableKey(key, accepted))
  if (keys.length > 0 && judged.every((verdict) => verdict === 'not_a_key')) throw new ProviderFailure('set_malformed')
  const passedOver: Partial<Record<JwkFault, number>> = {}
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
