import { importPublicJwk, JWK_FAULTS, readPublicJwk } from '../jose/public-key.ts'
import type { JwkFault, PublicJwk } from '../jose/public-key.ts'
import type { SigningKey } from '../jose/signed-jwt.ts'
import { JWS_ALGS } from '../jose/signature.ts'
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
 * Decides whether one entry of a JWK Set may verify access tokens, and by which of the accepted algorithms. Returns the
 * key, or the fault of the algorithm that came furthest. Never throws.
 */
export function usableKey (jwk: unknown, accepted: readonly JwsAlg[] = ['RS256']): UsableKey | JwkFault {
  const verdicts = accepted.map(alg => readPublicJwk(jwk, alg, 'set'))
  const material = verdicts.find(verdict => typeof verdict !== 'string')
  if (material === undefined) {
    return JWK_FAULTS[Math.max(...verdicts.map(fault => JWK_FAULTS.indexOf(fault as JwkFault)))]!
  }
  const { kid } = jwk as { readonly kid?: string }
  return importPublicJwk(material)
    ? { kid, material, algs: accepted.filter((_alg, at) => typeof verdicts[at] !== 'string') }
    : 'point'
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
 * counts once: each is listed under its identity. A number that is written in two ways makes two keys.
 * @throws ProviderFailure `not_json`, `set_malformed`, `set_too_many_keys`
 */
export function parseKeySet (
  body: Uint8Array,
  accepted?: readonly JwsAlg[]
): { readonly usable: ReadonlyMap<string, UsableKey>, readonly passedOver: PassedOver } {
  const { keys } = parseDocument(body, 'set_malformed')
  if (!Array.isArray(keys)) throw new ProviderFailure('set_malformed')
  if (keys.length > MAX_ENTRIES) throw new ProviderFailure('set_too_many_keys', keys.length)

  const judged = keys.map(key => usableKey(key, accepted))
  if (keys.length > 0 && judged.every(verdict => verdict === 'not_a_key')) throw new ProviderFailure('set_malformed')
  const passedOver: Partial<Record<JwkFault, number>> = {}
  const usable = new Map<string, UsableKey>()
  for (const verdict of judged) {
    if (typeof verdict === 'string') passedOver[verdict] = (passedOver[verdict] ?? 0) + 1
    else usable.set(JSON.stringify([verdict.material, verdict.algs, verdict.kid]), verdict)
  }
  return { usable, passedOver }
}

/** The usable keys of one set, by identity. */
export type SigningKeys = ReadonlyMap<string, SigningKey>

/** A set that was fetched. */
export interface KeySet {
  readonly keys: SigningKeys
  readonly passedOver: PassedOver
}

/** A token is tried against at most this many keys, so that its number of verifications is bounded. */
const MAX_CANDIDATES = 8
/**
 * A signature on these curves takes ten times as long as on P-256. A forged token may cost five times an accepted one.
 */
const MAX_SLOW_CANDIDATES = 4
const SLOW_ALGS: readonly JwsAlg[] = ['ES384', 'ES512']

/** A set, arranged for requests. It never changes: the next set gets a new one. */
export interface KeyRing extends KeySet {
  /** The objects of its keys: another object is no member, whatever it says. */
  readonly members: ReadonlySet<SigningKey>
  /**
   * The keys that may have signed a token by an algorithm: the first 8 (ES384, ES512: the first 4) of those with a
   * `kid`, or of all for a token without one.
   */
  readonly byAlg: ReadonlyMap<JwsAlg, ReadonlyMap<string | undefined, readonly SigningKey[]>>
}

/** Arranges a set. */
export function createKeyRing ({ keys, passedOver }: KeySet): KeyRing {
  const all = [...keys.values()]
  const byAlg = new Map<JwsAlg, ReadonlyMap<string | undefined, readonly SigningKey[]>>()
  for (const alg of JWS_ALGS) {
    const able = all.filter(({ algs }) => algs.includes(alg))
    if (able.length > 0) byAlg.set(alg, keysByKid(able, SLOW_ALGS.includes(alg) ? MAX_SLOW_CANDIDATES : MAX_CANDIDATES))
  }
  return { keys, passedOver, members: new Set(all), byAlg }
}

export const NO_KEYS: readonly SigningKey[] = Object.freeze([])

/** The keys of a set that may have signed a token with this `kid`, or without one, by this algorithm. */
export function candidatesIn ({ byAlg }: KeyRing, kid: string | undefined, alg: JwsAlg): readonly SigningKey[] {
  return byAlg.get(alg)?.get(kid) ?? NO_KEYS
}

/** If a token names no key, any key may have signed it, else only the keys with that name (RFC 7515 section 4.1.4). */
function keysByKid (keys: readonly SigningKey[], max: number): ReadonlyMap<string | undefined, readonly SigningKey[]> {
  const byKid = new Map<string | undefined, readonly SigningKey[]>([[undefined, Object.freeze(keys.slice(0, max))]])
  for (const key of keys) {
    if (key.kid === undefined) continue
    const namesakes = byKid.get(key.kid) ?? []
    if (namesakes.length < max) byKid.set(key.kid, Object.freeze([...namesakes, key]))
  }
  return byKid
}

/** The number of keys that only the newer set has, and the number of keys that only the older set has. */
export function keyChanges (older: SigningKeys, newer: SigningKeys): { added: number, removed: number } {
  let stayed = 0
  for (const identity of newer.keys()) if (older.has(identity)) stayed++
  return { added: newer.size - stayed, removed: older.size - stayed }
}
