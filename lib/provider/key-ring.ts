import type { SigningKey, SigningKeys } from './fetch-key-set.ts'

/** A token is tried against no more keys than this, so that it costs a bounded number of verifications. */
const MAX_CANDIDATES = 8

const NONE: readonly SigningKey[] = Object.freeze([])

/** The keys of one fetched set, laid out for the request path. Never changes: the next set is another ring. */
export interface KeyRing {
  readonly keys: SigningKeys
  /** The keys that may have signed a token: the first 8 of the set that have this `kid`, or without `kid` the first 8 of all. */
  candidates (kid: string | undefined): readonly SigningKey[]
  /** Whether this very object is in the set. */
  has (key: SigningKey): boolean
}

/** @param keys the usable keys of a set */
export function createKeyRing (keys: SigningKeys): KeyRing {
  const all = [...keys.values()]
  const members = new Set(all)
  // A token that names no key may be signed with any of them, one that names a key only with such (RFC 7515 section 4.1.4).
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

/** How many keys the newer set has that the older had not, and the other way round. */
export function keyChanges (older: SigningKeys, newer: SigningKeys): { added: number, removed: number } {
  let stayed = 0
  for (const identity of newer.keys()) if (older.has(identity)) stayed++
  return { added: newer.size - stayed, removed: older.size - stayed }
}
