import { quoteSetting } from '../base/printable.ts'
import { createPathRouter, isSamePath, routerForm, shapeOf } from './rule-path.ts'
import { audienceKey, KNOWN_METHODS, sharedTarget, type GateRule } from './rule.ts'

/**
 * Tells of rules that hold for the same requests, and of rules for paths that the service answers itself.
 * @param rules each with its path in the settings
 * @param nameOf names such a path for people
 * @param tell gets such a path, and what is wrong with its rule, to be put after its name
 */
export function tellRuleConflicts (
  rules: ReadonlyMap<GateRule, string>,
  ownPaths: readonly string[],
  nameOf: (path: string) => string,
  tell: (path: string, problem: string) => void
): void {
  const router = createPathRouter<undefined>()
  for (const [rule, path] of rules) {
    // A router for each two of a thousand rules would take half a minute, and most rules share their path with none.
    const sharers = isNew(rule) ? new Map<GateRule, string>() : rules
    const problem = problemOf(rule, sharers)
    if (problem !== undefined) tell(path, ` (${quoteSetting(rule.path)}) ${problem}`)
  }

  function isNew (rule: GateRule) {
    return [...new Set(methodsOf(rule))].map(method => router.add(method, rule.path, undefined)).every(Boolean)
  }

  function problemOf (rule: GateRule, sharers: ReadonlyMap<GateRule, string>) {
    const path = routerForm(rule.path)
    const own = ownPaths.find(own => path === own || path.startsWith(`${own}/`))
    if (own !== undefined) return `is unreachable: the service itself answers under ${own}`
    for (const [other, otherPath] of sharers) {
      // Of two rules, the later one is told.
      if (other === rule) break
      const method = methodsOf(rule).find(method => methodsOf(other).includes(method))
      if (method === undefined || !isSamePath(other.path, rule.path)) continue
      const shared = sharedWith(other, rule)
      if (shared !== undefined) return `overlaps ${nameOf(otherPath)}: both hold for ${method} ${rule.path}${shared}`
      // Credentials are looked at before the message chooses among the rules, and a token is verified for one audience.
      if (isOtherAudience(other, rule)) {
        return `has another audience than ${nameOf(otherPath)}: rules for the messages of one path share it`
      }
    }
    return undefined
  }
}

/** A rule for all methods is known best by GET. */
function methodsOf ({ methods = ['GET', ...KNOWN_METHODS] }: GateRule): readonly string[] {
  return methods
}

/** What two rules for one path and method both hold for, beyond these, or undefined if messages choose between them. */
function sharedWith (a: GateRule, b: GateRule): string | undefined {
  return shapeOf(a.path) === shapeOf(b.path) ? sharedTarget(a.mcp, b.mcp) : ''
}

function isOtherAudience (a: GateRule, b: GateRule): boolean {
  return a.requirement !== undefined && b.requirement !== undefined && audienceKey(a) !== audienceKey(b)
}
