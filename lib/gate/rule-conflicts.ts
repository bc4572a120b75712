import { quoteSetting } from '../printable.ts'
import { createPathRouter, isSamePath, routerForm, shapeOf } from './path.ts'
import { isTargeted, KNOWN_METHODS, sharedTarget } from './rule.ts'
import type { GateRule } from './rule.ts'

/**
 * Finds rules that hold for the same requests, and rules for paths that the service answers itself.
 * @param nameOf names a rule for people
 * @param tell gets what is wrong with a rule, to be put after its name
 */
export function findRuleConflicts (
  rules: readonly GateRule[],
  ownPaths: readonly string[],
  nameOf: (rule: GateRule) => string,
  tell: (rule: GateRule, problem: string) => void
): void {
  const router = createPathRouter()
  for (const [index, rule] of rules.entries()) {
    const problem = problemOf(rule, rules.slice(0, index))
    if (problem !== undefined) tell(rule, ` (${quoteSetting(rule.path)}) ${problem}`)
  }

  function problemOf (rule: GateRule, before: readonly GateRule[]): string | undefined {
    const path = routerForm(rule.path)
    const own = ownPaths.find(own => path === own || path.startsWith(`${own}/`))
    if (own !== undefined) return `is unreachable: the service itself answers under ${own}`
    const methods = rule.methods ?? [...KNOWN_METHODS]
    const taken = methods.filter(method => !router.add(method, rule.path, undefined))
    const earlier = before.filter(other => isSamePath(other.path, rule.path))
    const rivals = taken.flatMap(method => {
      const other = earlier.find(other => isFor(other, method) && overlapOf(other, rule) !== undefined)
      return other ? [{ method, other }] : []
    })
    const [first] = rivals
    if (first) {
      const names = [...new Set(rivals.map(({ other }) => nameOf(other)))].join(' and ')
      const isCovered = rivals.length === methods.length &&
        rivals.every(({ other }) => shapeOf(other.path) === shapeOf(rule.path)) && !isTargeted(rule.mcp)
      return isCovered
        ? `is unreachable: all its requests belong to ${names}`
        : `overlaps ${names}: both hold for ${first.method} ${rule.path}${overlapOf(first.other, rule)}`
    }
    // Credentials are looked at before the message chooses among the rules, and a token is verified for one audience.
    const other = earlier.find(other => taken.some(method => isFor(other, method)) && isOtherAudience(other, rule))
    return other && `has another audience than ${nameOf(other)}: rules for the messages of one path share it`
  }
}

function isFor ({ methods }: GateRule, method: string): boolean {
  return methods?.includes(method) ?? true
}

/** What two rules for one path and method both hold for, beyond these. Undefined if messages choose between them. */
function overlapOf (a: GateRule, b: GateRule): string | undefined {
  return shapeOf(a.path) === shapeOf(b.path) ? sharedTarget(a.mcp, b.mcp) : ''
}

function isOtherAudience (a: GateRule, b: GateRule): boolean {
  return a.requirement !== undefined && b.requirement !== undefined && a.audience !== b.audience
}
