import { Refusal } from '../refusal.ts'

/** What a route asks of a token beyond being valid. All that is given must hold; nothing is asked by an empty one. */
export interface Requirement {
  /** Scopes that are all needed. */
  readonly scope?: readonly string[]
  /** Scopes of which any one is enough. */
  readonly anyScope?: readonly string[]
}

/** What is judged: a verified token. */
export interface Grant {
  readonly scopes: readonly string[]
}

/** Any valid token will do. */
export const ANY_TOKEN: Requirement = Object.freeze({})

/** The arguments of `requireScope`: scopes that are all needed, or one object with those of which any one is enough. */
export type RequiredScopes = readonly [string, ...string[]] | readonly [anyOf: { readonly any: readonly string[] }]

const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/**
 * Reads the arguments of `requireScope('a', 'b')` (all of them) and `requireScope({ any: ['a', 'b'] })`.
 * @throws TypeError for anything else, so that a route does not ask for less than its author meant, and for what is no scope (RFC 6749 section 3.3).
 */
export function parseRequiredScopes (...args: RequiredScopes): Requirement {
  const [first] = args
  const isAny = typeof first === 'object' && first !== null && args.length === 1 && Object.keys(first).join() === 'any'
  const scopes: unknown = isAny ? first.any : args
  if (!Array.isArray(scopes) || scopes.length === 0 || !scopes.every(scope => typeof scope === 'string' && SCOPE.test(scope))) {
    throw new TypeError("requireScope takes one or more scopes, as requireScope('a', 'b') for all of them or requireScope({ any: ['a', 'b'] }) for any one")
  }
  return Object.freeze({ [isAny ? 'anyScope' : 'scope']: Object.freeze([...scopes]) })
}

/** @throws Refusal scope_missing */
export function verifyRequirement ({ scopes }: Grant, { scope, anyScope }: Requirement): void {
  const isGranted = (name: string): boolean => scopes.includes(name)
  if (scope && !scope.every(isGranted)) throw new Refusal('scope_missing')
  if (anyScope && !anyScope.some(isGranted)) throw new Refusal('scope_missing')
}

/** Every scope that a requirement names. */
export function scopesOf ({ scope = [], anyScope = [] }: Requirement): readonly string[] {
  return [...scope, ...anyScope]
}

/** What the guards of a route ask for together: each must be met. */
export interface RouteGuard {
  readonly requirements: readonly Requirement[]
}

/** The hooks of a route before its handler: each one function, a list of them, or undefined. */
export interface RouteHooks {
  readonly onRequest?: unknown
  readonly preParsing?: unknown
  readonly preValidation?: unknown
  readonly preHandler?: unknown
}

/**
 * What a route is guarded with: each guard carries its `requirement`. Undefined for a route without a guard of its own: what a
 * plugin adds for all of its routes is not among their hooks.
 */
export function guardOf ({ onRequest, preParsing, preValidation, preHandler }: RouteHooks): RouteGuard | undefined {
  const guards = [onRequest, preParsing, preValidation, preHandler].flat().filter(isGuard)
  return guards.length === 0 ? undefined : { requirements: guards.map(({ requirement }) => requirement) }
}

function isGuard (hook: unknown): hook is { readonly requirement: Requirement } {
  return typeof hook === 'function' && 'requirement' in hook && typeof hook.requirement === 'object'
}

/** The sets of scopes of which a token needs one. A single empty set if no scope is asked for. */
export function scopeAlternatives ({ requirements }: RouteGuard): ReadonlyArray<readonly string[]> {
  let alternatives: ReadonlyArray<readonly string[]> = [[]]
  for (const { scope = [], anyScope } of requirements) {
    const choices = anyScope ? anyScope.map(name => [...scope, name]) : [scope]
    alternatives = alternatives.flatMap(set => choices.map(choice => [...new Set([...set, ...choice])]))
  }
  return alternatives
}
