import type { Requirement } from './requirement.ts'

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

/** Every scope that a requirement names. */
export function scopesOf ({ scope = [], anyScope = [] }: Requirement): readonly string[] {
  return [...scope, ...anyScope]
}

/** Whether a request without credentials passes: each guard must let it pass. */
export function isOptional ({ requirements }: RouteGuard): boolean {
  return requirements.every(({ optional }) => optional)
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

/**
 * What a requirement asks for beyond scopes, one phrase for each thing, for people. Names and values stand between back-quotes.
 */
export function phrasesOf ({ acr, maxAgeSeconds, claims = [], authorizationDetails = [] }: Requirement): string[] {
  return [
    ...(acr ? [`a login with the acr ${anyOf(acr)}`] : []),
    ...(maxAgeSeconds === undefined ? [] : [`a login at most ${maxAgeSeconds} seconds ago`]),
    ...claims.map(({ name, allowed }) => `the claim ${quoted(name)} with ${allowed ? anyOf(allowed) : 'a value that the route accepts'}`),
    ...authorizationDetails.map(({ type, check }) => `an authorization detail of the type ${quoted(type)}${check ? ' that the route accepts' : ''}`)
  ]
}

function anyOf (values: readonly unknown[]): string {
  return values.map(quoted).join(' or ')
}

function quoted (value: unknown): string {
  return `\`${String(value).replaceAll('`', "'")}\``
}

/** A requirement as JSON, for programs. A predicate is the word `predicate`. */
export function requirementJson ({ claims, authorizationDetails, ...plain }: Requirement): object {
  return {
    ...plain,
    ...(claims && { claims: Object.fromEntries(claims.map(({ name, allowed }) => [name, allowed ?? 'predicate'])) }),
    ...(authorizationDetails && { authorizationDetails: authorizationDetails.map(({ type, check }) => ({ type, ...(check && { check: 'predicate' }) })) })
  }
}
