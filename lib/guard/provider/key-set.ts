import { importPublicJwk, JWK_FAULTS, readPublicJwk, type JwkFault } from '../jose/public-key.ts'
import type { SigningKey } from '../jose/signed-jwt.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseDocument } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'

/** A key of the provider that may verify access tokens. */
export type UsableKey = Omit<SigningKey, 'pem'>

/**
 * Decides whether one entry of a JWK Set may verify access tokens, and by which of the accepted algorithms. Returns the
 * key, or the fault of the algorithm that came furthest. Never throws.
 */
export function usableKey (jwk: unknown, accepted: readonly JwsAlg[] = ['RS256']): UsableKey | JwkFault {
  const verdicts = accepted.map(alg => readPublicJwk(jwk, alg, 'set'))
  const material = verdicts.find(verdict => typeof verdict !== 'string')
  if (material === undefined) {
    return JWK_FAULTS[Math.max(...verdicts.map(fault => JWK_FAULTS.indexOf(fault as JwkFault)))]!
  }
  const key = importPublicJwk(material)
  const { kid } = jwk as { readonly kid?: string }
  return key ? { kid, key, algs: accepted.filter((_alg, at) => typeof verdicts[at] !== 'string') } : 'point'
}

/** Whether two entries say the same: the same key, under the same name, for the same algorithms. */
export function isSameKey (one: UsableKey, other: UsableKey): boolean {
  return one.kid === other.kid && String(one.algs) === String(other.algs) && one.key.equals(other.key)
}

/**
 * The limit is far above what a provider publishes. It is low enough that all entries are judged in a few milliseconds.
 */
const MAX_ENTRIES = 100

/** The number of entries of a set that were passed over, by reason. */
export type PassedOver = Readonly<Partial<Record<JwkFault, number>>>

/**
 * Decides which keys of a JWK Set document (RFC 7517 section 5) may verify access tokens. `accepted` are the algorithms
 * of tokens.
 *
 * A set without usable keys is a valid answer: the provider has withdrawn its keys. A document that is no set, a set
 * without any JSON object in it, and one of more than 100 entries, of which we must not choose, are faults of the
 * provider and say nothing about its keys.
 *
 * Several keys may have the same `kid` (RFC 7517 section 4.5 only says that they should not). A key that appears twice
 * counts once.
 * @throws ProviderFailure `not_json`, `set_malformed`, `set_too_many_keys`
 */
export function parseKeySet (
  body: Uint8Array,
  accepted?: readonly JwsAlg[]
): { readonly usable: readonly UsableKey[], readonly passedOver: PassedOver } {
  const { keys } = parseDocument(body, 'set_malformed')
  if (!Array.isArray(keys)) throw new ProviderFailure('set_malformed')
  if (keys.length > MAX_ENTRIES) throw new ProviderFailure('set_too_many_keys', keys.length)

  const judged = keys.map(key => usableKey(key, accepted))
  if (keys.length > 0 && judged.every(verdict => verdict === 'not_a_key')) throw new ProviderFailure('set_malformed')
  const passedOver: Partial<Record<JwkFault, number>> = {}
  const usable: UsableKey[] = []
  for (const verdict of judged) {
    if (typeof verdict === 'string') passedOver[verdict] = (passedOver[verdict] ?? 0) + 1
    else if (!usable.some(key => isSameKey(key, verdict))) usable.push(verdict)
  }
  return { usable, passedOver }
}

/** A set that was fetched. It never changes. */
export interface KeySet {
  /** Its usable keys. */
  readonly keys: readonly SigningKey[]
  readonly passedOver: PassedOver
}

/** A token is tried against at most this many keys, so that its number of verifications is bounded. */
const MAX_CANDIDATES = 8
/**
 * A signature on these curves takes ten times as long as on P-256. A forged token that names no key may cost five times
 * an accepted one.
 */
const MAX_SLOW_CANDIDATES = 4
const SLOW_ALGS: readonly JwsAlg[] = ['ES384', 'ES512']

/**
 * The keys of a set that may have signed a token by an algorithm: the first 8 of those with its `kid`. If a token names
 * no key, any key may have signed it (RFC 7515 section 4.1.4): the first 8 (ES384, ES512: the first 4).
 */
export function candidatesIn (
  { keys }: KeySet,
  kid: string | undefined,
  alg: JwsAlg
): readonly SigningKey[] {
  return keys
    .filter(key => (kid === undefined || key.kid === kid) && key.algs.includes(alg))
    .slice(0, kid === undefined && SLOW_ALGS.includes(alg) ? MAX_SLOW_CANDIDATES : MAX_CANDIDATES)
}
