import { JWS_ALGS } from '../jose/signature.ts'
import type { JwsAlg } from '../jose/signature.ts'

/** A key of the provider. It is the same object for as long as the key stays in the set unchanged, so caches may refer to it. */
export interface SigningKey {
  readonly kid: string | undefined
  /** SPKI in PEM. */
  readonly pem: string
  /** The algorithms that the key may verify. No other is ever tried with it. */
  readonly algs: readonly JwsAlg[]
}

/** The usable keys of one fetched set, by identity. */
export type SigningKeys = ReadonlyMap<string, SigningKey>

/** A token is tried against at most this many keys, so that its number of verifications is bounded. */
const MAX_CANDIDATES = 8
/** A signature on these curves takes ten times as long as on P-256. A forged token may cost five times an accepted one. */
const MAX_SLOW_CANDIDATES = 4
const SLOW_ALGS: readonly JwsAlg[] = ['ES384', 'ES512']

const NONE: readonly SigningKey[] = Object.freeze([])

/** The usable keys of one fetched set, arranged for requests. A ring never changes: the next set gets a new ring. */
export function createKeyRing (keys: SigningKeys) {
  const all = [...keys.values()]
  const members = new Set(all)
  const byAlg = new Map<JwsAlg, ReadonlyMap<string | undefined, readonly SigningKey[]>>()
  for (const alg of JWS_ALGS) {
    const able = all.filter(({ algs }) => algs.includes(alg))
    if (able.length > 0) byAlg.set(alg, keysByKid(able, SLOW_ALGS.includes(alg) ? MAX_SLOW_CANDIDATES : MAX_CANDIDATES))
  }

  return {
    keys,
    /**
     * The keys that may have signed a token by this algorithm: the first 8 (ES384, ES512: the first 4) of those with this `kid`, or of all
     * if there is no `kid`.
     */
    candidates: (kid: string | undefined, alg: JwsAlg): readonly SigningKey[] => byAlg.get(alg)?.get(kid) ?? NONE,
    /** Whether this very object is in the set. */
    has: (key: SigningKey): boolean => members.has(key)
  }
}

/**
 * If a token names no key, any key may have signed it. If a token names a key, only keys with that name may have signed it (RFC 7515
 * section 4.1.4).
 */
function keysByKid (keys: readonly SigningKey[], max: number): ReadonlyMap<string | undefined, readonly SigningKey[]> {
  const byKid = new Map<string | undefined, readonly SigningKey[]>([[undefined, Object.freeze(keys.slice(0, max))]])
  for (const key of keys) {
    if (key.kid === undefined) continue
    const namesakes = byKid.get(key.kid) ?? NONE
    if (namesakes.length < max) byKid.set(key.kid, Object.freeze([...namesakes, key]))
  }
  return byKid
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
