/** Scopes that bring others along: each scope with those that it implies. */
export type ScopeImplications = Readonly<Record<string, readonly string[]>>

/**
 * Each implied scope with all other scopes that grant it. If a token has any one of these, it counts as having the implied scope.
 */
export type ScopeGranters = ReadonlyMap<string, readonly string[]>

/** Works out who grants what, transitively. There must be no circle. */
export function findGranters (implications: ScopeImplications): ScopeGranters {
  const granters = new Map<string, Set<string>>()
  const direct = new Map(Object.entries(implications))
  const visit = (granter: string, scope: string): void => {
    for (const implied of direct.get(scope) ?? []) {
      const known = granters.get(implied) ?? new Set()
      if (known.has(granter)) continue
      granters.set(implied, known.add(granter))
      visit(granter, implied)
    }
  }
  for (const granter of direct.keys()) visit(granter, granter)
  return new Map([...granters].map(([scope, names]) => [scope, [...names]]))
}

/** The first circle, as the scopes on it with the first one repeated at the end. Undefined if there is none. */
export function findScopeCircle (implications: ScopeImplications): readonly string[] | undefined {
  const direct = new Map(Object.entries(implications))
  const cleared = new Set<string>()
  const walk = (path: readonly string[]): readonly string[] | undefined => {
    const scope = path.at(-1)!
    const start = path.indexOf(scope)
    if (start < path.length - 1) return path.slice(start)
    if (cleared.has(scope)) return undefined
    for (const implied of direct.get(scope) ?? []) {
      const circle = walk([...path, implied])
      if (circle) return circle
    }
    cleared.add(scope)
    return undefined
  }
  for (const scope of direct.keys()) {
    const circle = walk([scope])
    if (circle) return circle
  }
  return undefined
}
