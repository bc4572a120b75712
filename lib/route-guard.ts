import type { ScopeRequirement } from './token/scopes.ts'

/** What the guards of a route ask for together, beyond a valid access token. */
export interface RouteGuard {
  /** Each must be met; none where any valid token passes. */
  readonly requirements: readonly ScopeRequirement[]
}

/**
 * Reads what a route is guarded with from its own hooks: a guard carries `requirement`, null where any valid token passes.
 * Undefined for a route without a guard. A guard that a plugin adds for all of its routes is not among a route's own hooks.
 */
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
