import type { ScopeRequirement } from '../token/scopes.ts'

/** What the guards of a route ask for together, beyond a valid access token. */
export interface RouteGuard {
  /** Each must be met; none where any valid token passes. */
  readonly requirements: readonly ScopeRequirement[]
}

/** The hooks of a route before its handler: each one function, a list of them, or undefined. */
export interface RouteHooks {
  readonly onRequest?: unknown
  readonly preParsing?: unknown
  readonly preValidation?: unknown
  readonly preHandler?: unknown
}

/** What a route is guarded with. Undefined for a route without a guard of its own: what a plugin adds for all of its routes is not among their hooks. */
export function guardOf ({ onRequest, preParsing, preValidation, preHandler }: RouteHooks): RouteGuard | undefined {
  return readRouteGuard([onRequest, preParsing, preValidation, preHandler].flat())
}

/** The guards among hooks: a guard carries `requirement`, null if any valid token passes. Undefined if there is none. */
export function readRouteGuard (hooks: readonly unknown[]): RouteGuard | undefined {
  const guards = hooks.filter(isGuard)
  if (guards.length === 0) return undefined
  return { requirements: guards.map(({ requirement }) => requirement).filter(requirement => requirement !== null) }
}

/** The sets of scopes of which a token needs one. A single empty set where any valid token passes. */
export function scopeAlternatives ({ requirements }: RouteGuard): ReadonlyArray<readonly string[]> {
  let alternatives: ReadonlyArray<readonly string[]> = [[]]
  for (const { scopes, any } of requirements) {
    const choices = any ? scopes.map(scope => [scope]) : [scopes]
    alternatives = alternatives.flatMap(set => choices.map(choice => [...new Set([...set, ...choice])]))
  }
  return alternatives
}

/** Every scope that the guards name. */
export function scopesOf ({ requirements }: RouteGuard): readonly string[] {
  return requirements.flatMap(({ scopes }) => scopes)
}

function isGuard (hook: unknown): hook is { readonly requirement: ScopeRequirement | null } {
  return typeof hook === 'function' && 'requirement' in hook && hook.requirement !== undefined
}
