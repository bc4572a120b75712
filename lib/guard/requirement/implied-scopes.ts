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
    // Routes may name any number of scopes while they run: only those of the settings are kept.
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
 * The first circle, as the scopes on it with the first one repeated at the end, or undefined if there is none. Each
 * link is followed once.
 */
export function findScopeCircle (implications: ScopeImplications): readonly string[] | undefined {
  // What is left to follow. The empty text is no scope, and stands before all of them.
  const links = new Map(Object.entries({ ...implications, '': Object.keys(implications) }).map(([scope, implied]) =>
    [scope, implied.values()]
  ))
  const path = ['']
  const onPath = new Set<string>()
  for (let scope: string | undefined = ''; scope !== undefined; scope = path.at(-1)) {
    const next = links.get(scope)?.next().value
    if (next === undefined) {
      onPath.delete(scope)
      path.pop()
    } else {
      if (onPath.has(next)) return [...path.slice(path.indexOf(next)), next]
      onPath.add(next)
      path.push(next)
    }
  }
  return undefined
}

/** The scopes that imply a scope directly, by scope. */
function directGranters (implications: ScopeImplications): ReadonlyMap<string, readonly string[]> {
  const direct = new Map<string, string[]>()
  for (const [granter, scopes] of Object.entries(implications)) {
    for (const scope of scopes) direct.set(scope, direct.get(scope) ?? []).get(scope)!.push(granter)
  }
  return direct
}
