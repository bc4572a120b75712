/** Each scope with the scopes that it implies. */
export type ScopeImplications = Readonly<Record<string, readonly string[]>>

/** Returns all other scopes that grant a scope: a token with any one of these counts as having it. */
export type ScopeGranters = (scope: string) => readonly string[]

const NONE: readonly string[] = []

/**
 * Makes the function that finds all granters of a scope, transitively. There must be no circle. The granters of a scope
 * are worked out when it is first asked for, and kept: routes ask for few scopes, and all pairs of a long chain would
 * be too many.
 */
export function createScopeGranters (implications: ScopeImplications): ScopeGranters {
  const direct = directGranters(implications)
  const known = new Map<string, readonly string[]>()

  return scope => {
    if (!direct.has(scope)) return NONE
    const granters = known.get(scope) ?? reachable(scope, direct)
    known.set(scope, granters)
    return granters
  }
}

function reachable (scope: string, direct: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const found = new Set(direct.get(scope))
  // The loop also visits what is added to the set meanwhile.
  for (const granter of found) for (const further of direct.get(granter) ?? NONE) found.add(further)
  return [...found]
}

/**
 * The first circle, as the scopes on it with the first one repeated at the end. Undefined if there is none. Each link
 * is followed once.
 */
export function findScopeCircle (implications: ScopeImplications): readonly string[] | undefined {
  const granters = directGranters(implications)
  const implied = new Map(Object.entries(implications))
  // How many of the scopes that a scope implies may still lead to a circle.
  const open = new Map([...implied].map(([scope, scopes]) => [scope, scopes.length]))
  const cleared = [...new Set([...granters.keys(), ...open.keys()])].filter(scope => !open.get(scope))
  // The loop also visits what is added to the list meanwhile.
  for (const scope of cleared) {
    for (const granter of granters.get(scope) ?? NONE) {
      const left = open.get(granter)! - 1
      open.set(granter, left)
      if (left === 0) cleared.push(granter)
    }
  }
  const isOpen = (scope: string): boolean => open.get(scope)! > 0
  const path = new Set<string>()
  let scope = [...open.keys()].find(isOpen)
  if (scope === undefined) return undefined
  // Every open scope implies another one, so the path comes back to one that is on it.
  for (; !path.has(scope); scope = implied.get(scope)!.find(isOpen)!) path.add(scope)
  const scopes = [...path]
  return [...scopes.slice(scopes.indexOf(scope)), scope]
}

/** The scopes that imply a scope directly, by scope. */
function directGranters (implications: ScopeImplications): ReadonlyMap<string, readonly string[]> {
  const direct = new Map<string, string[]>()
  for (const [granter, scopes] of Object.entries(implications)) {
    for (const scope of scopes) direct.set(scope, direct.get(scope) ?? []).get(scope)!.push(granter)
  }
  return direct
}
