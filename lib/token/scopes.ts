import type { JsonObject } from '../jws.ts'
import { Refusal } from '../refusal.ts'

export type ScopeClaim = 'scope' | 'scp' | 'permissions'

/** What a route needs: all of the scopes, or any one of them. */
export interface ScopeRequirement {
  readonly scopes: readonly string[]
  readonly any: boolean
}

/**
 * The scopes that a token grants: the whole words of the configured claims, each a string with spaces between
 * (RFC 6749 section 3.3) or an array of strings, in the token's order and without repeats. A claim of another type grants nothing.
 */
export function readScopes (claims: JsonObject, names: readonly ScopeClaim[]): readonly string[] {
  const scopes = new Set<string>()
  for (const name of names) {
    const value = claims[name]
    if (typeof value === 'string') addAll(scopes, value.split(' '))
    else if (Array.isArray(value) && value.every(entry => typeof entry === 'string')) addAll(scopes, value)
  }
  scopes.delete('')
  return Object.freeze([...scopes])
}

function addAll (scopes: Set<string>, words: readonly string[]): void {
  for (const word of words) scopes.add(word)
}

/**
 * Reads the arguments of `requireScope('a', 'b')` (all of them) and `requireScope({ any: ['a', 'b'] })`.
 * @throws TypeError for an empty or malformed requirement, which would guard nothing (RFC 6749 section 3.3).
 */
export function parseScopeRequirement (first: string | { readonly any: readonly string[] }, ...rest: readonly string[]): ScopeRequirement {
  const any = typeof first === 'object'
  const scopes = any ? [...first.any] : [first, ...rest]
  const isScope = (scope: unknown): boolean => typeof scope === 'string' && /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope)
  if (scopes.length === 0 || !scopes.every(isScope)) throw new TypeError('requireScope needs one or more scopes')
  return Object.freeze({ scopes: Object.freeze(scopes), any })
}

/** @throws Refusal scope_missing unless the granted scopes meet the requirement. */
export function verifyScopes (granted: readonly string[], { scopes, any }: ScopeRequirement): void {
  const isGranted = (scope: string): boolean => granted.includes(scope)
  if (!(any ? scopes.some(isGranted) : scopes.every(isGranted))) throw new Refusal('scope_missing')
}
