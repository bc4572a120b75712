/** Scopes that bring others along: each scope with those that it implies. */
export type ScopeImplications = Readonly<Record<string, readonly string[]>>

/** Returns all other scopes that grant a scope: a token with any one of these counts as having it. */
export type ScopeGranters = (scope: string) => readonly string[]

const NONE: readonly string[] = []

/**
 * Makes the function that finds who grants a scope, transitively. There must be no circle. The granters of a scope are worked out when
 * it is first asked for, and kept: routes ask for few scopes, and all pairs of a long chain would be too many.
 */
export function createScopeGranters (implications: ScopeImplications): ScopeGranters {
  const direct = new Map<string, string[]>()
  for (const [granter, scopes] of Object.entries(implications)) {
    for (const scope of scopes) direct.set(scope, direct.get(scope) ?? []).get(scope)!.push(granter)
  }
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
  // A set hands out what is added to it meanwhile.
  for (const granter of found) for (const further of direct.get(granter) ?? NONE) found.add(further)
  return [...found]
}

interface Step {
  readonly scope: string
  readonly implied: Iterator<string>
}

/** The first circle, as the scopes on it with the first one repeated at the end. Undefined if there is none. Each link is followed once. */
export function findScopeCircle (implications: ScopeImplications): readonly string[] | undefined {
  const direct = new Map(Object.entries(implications))
  const cleared = new Set<string>()
  // It has the scopes of `path`. A chain may be longer than the call stack, so it is walked without recursion.
  const onPath = new Set<string>()
  const path: Step[] = []
  const enter = (scope: string): void => {
    onPath.add(scope)
    path.push({ scope, implied: (direct.get(scope) ?? NONE).values() })
  }
  for (const start of direct.keys()) {
    if (!cleared.has(start)) enter(start)
    for (let step = path.at(-1); step; step = path.at(-1)) {
      const { value: next, done } = step.implied.next()
      if (done) {
        onPath.delete(step.scope)
        cleared.add(step.scope)
        path.pop()
      } else if (onPath.has(next)) {
        const scopes = path.map(({ scope }) => scope)
        return [...scopes.slice(scopes.indexOf(next)), next]
      } else if (!cleared.has(next)) enter(next)
    }
  }
  return undefined
}
