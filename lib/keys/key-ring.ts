import type { SigningKey, SigningKeys } from './fetch-key-set.ts'

/** A token without `kid` is tried against no more keys than this, so that it costs a bounded number of verifications. */
const MAX_CANDIDATES = 8

const NONE: readonly SigningKey[] = Object.freeze([])

/** The keys of one fetched set, laid out for the request path. Never changes: the next set is another ring. */
export interface KeyRing {
  readonly keys: SigningKeys
  /** The keys that may have signed a token with this `kid`: at most one, or without `kid` the first 8 of the set. */
  candidates (kid: string | undefined): readonly SigningKey[]
  /** Whether this very object is in the set. */
  has (key: SigningKey): boolean
}

/** @param keys the usable keys of a set, no two of them with the same `kid` */
export function createKeyRing (keys: SigningKeys): KeyRing {
  const all = [...keys.values()]
  const members = new Set(all)
  const byKid = new Map<string | undefined, readonly SigningKey[]>()
  for (const key of all) byKid.set(key.kid, Object.freeze([key]))
  // A token that names no key may be signed with any of them, one that names a key only with that (RFC 7515 section 4.1.4).
  byKid.set(undefined, Object.freeze(all.slice(0, MAX_CANDIDATES)))

  return {
    keys,
    candidates: (kid) => byKid.get(kid) ?? NONE,
    has: (key) => members.has(key)
  }
}

/** How many keys the newer set has that the older had not, and the other way round. */
export function keyChanges (older: SigningKeys, newer: SigningKeys): { added: number, removed: number } {
  let stayed = 0
  for (const identity of newer.keys()) if (older.has(identity)) stayed++
  return { added: newer.size - stayed, removed: older.size - stayed }
}
