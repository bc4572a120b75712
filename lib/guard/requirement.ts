import { Refusal } from '../refusal.ts'

/**
 * What a route asks of a token beyond being valid. The token must meet every member that is given. An empty requirement asks for
 * nothing.
 */
export interface Requirement {
  /** The token needs all of these scopes. */
  readonly scope?: readonly string[]
  /** The token needs any one of these scopes. */
  readonly anyScope?: readonly string[]
}

/** The object that is judged: a verified token. */
export interface Grant {
  readonly scopes: readonly string[]
}

/** Any valid token passes. */
export const ANY_TOKEN: Requirement = Object.freeze({})

/** The arguments of `requireScope`: scopes that are all needed, or one object with scopes of which any one is enough. */
export type RequiredScopes = readonly [string, ...string[]] | readonly [anyOf: { readonly any: readonly string[] }]

const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/**
 * Reads the arguments of `requireScope('a', 'b')` (all of them) and `requireScope({ any: ['a', 'b'] })`.
 * @throws TypeError for any other form, so that a route never asks for less than its author meant, and for a text that is not a
 * scope (RFC 6749 section 3.3)
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

/** What the guards of a route ask for together: the token must meet each of them. */
export interface RouteGuard {
  readonly requirements: readonly Requirement[]
}

/** The hooks of a route before its handler: each is one function, a list of functions, or undefined. */
export interface RouteHooks {
  readonly onRequest?: unknown
  readonly preParsing?: unknown
  readonly preValidation?: unknown
  readonly preHandler?: unknown
}

/**
 * The requirements that guard a route: each guard carries its `requirement`. Undefined for a route without a guard of its own. A
 * hook that a plugin adds for all of its routes is not among the route's hooks, so it does not count here.
 */
export function guardOf ({ onRequest, preParsing, preValidation, preHandler }: RouteHooks): RouteGuard | undefined {
  const guards = [onRequest, preParsing, preValidation, preHandler].flat().filter(isGuard)
  return guards.length === 0 ? undefined : { requirements: guards.map(({ requirement }) => requirement) }
}

function isGuard (hook: unknown): hook is { readonly requirement: Requirement } {
  return typeof hook === 'function' && 'requirement' in hook && typeof hook.requirement === 'object'
}

/** The sets of scopes of which a token needs one. One empty set if no scope is asked for. */
export function scopeAlternatives ({ requirements }: RouteGuard): ReadonlyArray<readonly string[]> {
  let alternatives: ReadonlyArray<readonly string[]> = [[]]
  for (const { scope = [], anyScope } of requirements) {
    const choices = anyScope ? anyScope.map(name => [...scope, name]) : [scope]
    alternatives = alternatives.flatMap(set => choices.map(choice => [...new Set([...set, ...choice])]))
  }
  return alternatives
}
