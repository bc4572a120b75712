import type { JsonObject } from '../jose/jws.ts'

export type ScopeClaim = 'scope' | 'scp' | 'permissions'

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
