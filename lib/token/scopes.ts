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

/** The arguments of `requireScope`: scopes that are all needed, or one object with those of which any one is enough. */
export type RequiredScopes = readonly [string, ...string[]] | readonly [anyOf: { readonly any: readonly string[] }]

const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/**
 * Reads the arguments of `requireScope('a', 'b')` (all of them) and `requireScope({ any: ['a', 'b'] })`.
 * @throws TypeError for anything else, so that a route does not ask for less than its author meant, and for what is no scope (RFC 6749 section 3.3).
 */
export function parseScopeRequirement (...args: RequiredScopes): ScopeRequirement {
  const [first] = args
  const any = typeof first === 'object' && first !== null && args.length === 1 && Object.keys(first).join() === 'any'
  const scopes: unknown = any ? first.any : args
  if (!Array.isArray(scopes) || scopes.length === 0 || !scopes.every(scope => typeof scope === 'string' && SCOPE.test(scope))) {
    throw new TypeError("requireScope takes one or more scopes, as requireScope('a', 'b') for all of them or requireScope({ any: ['a', 'b'] }) for any one")
  }
  return Object.freeze({ scopes: Object.freeze([...scopes]), any })
}

/** @throws Refusal scope_missing unless the granted scopes meet the requirement. */
export function verifyScopes (granted: readonly string[], { scopes, any }: ScopeRequirement): void {
  const isGranted = (scope: string): boolean => granted.includes(scope)
  if (!(any ? scopes.some(isGranted) : scopes.every(isGranted))) throw new Refusal('scope_missing')
}
