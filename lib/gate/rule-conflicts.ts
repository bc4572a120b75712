import { quoteSetting } from '../printable.ts'
import { isTargeted, sharedTarget } from './mcp-rules.ts'
import { createPathRouter, isSamePath, routerForm, shapeOf } from './path.ts'
import { KNOWN_METHODS } from './rule.ts'
import type { GateRule } from './rule.ts'

export interface RuleConflict {
  readonly index: number
  readonly problem: string
}

interface IndexedRule {
  /** The position in the list of the settings. */
  readonly index: number
  readonly rule: GateRule
}

/**
 * Finds rules that hold for the same requests, and rules for paths that the service answers itself.
 * @param nameOf names a rule for people, by its index
 */
export function findRuleConflicts (rules: readonly IndexedRule[], ownPaths: readonly string[], nameOf: (index: number) => string): RuleConflict[] {
  const conflicts: RuleConflict[] = []
  const router = createPathRouter<number>()
  for (const { index, rule } of rules) {
    const path = routerForm(rule.path)
    const own = ownPaths.find(own => path === own || path.startsWith(`${own}/`))
    if (own !== undefined) {
      conflicts.push({ index, problem: ` (${quoteSetting(rule.path)}) is unreachable: the service itself answers under ${own}` })
      continue
    }
    const methods = rule.methods ?? [...KNOWN_METHODS]
    const taken = methods.filter(method => !router.add(method, rule.path, index))
    const earlier = rules.filter(other => other.index < index && isSamePath(other.rule.path, rule.path))
    const rivals = taken.flatMap(method => {
      const other = earlier.find(other => (other.rule.methods?.includes(method) ?? true) && overlapOf(other.rule, rule) !== undefined)
      return other ? [{ method, other }] : []
    })
    const names = [...new Set(rivals.map(({ other }) => nameOf(other.index)))].join(' and ')
    const [first] = rivals
    if (first) {
      const isCovered = rivals.length === methods.length && rivals.every(({ other }) => shapeOf(other.rule.path) === shapeOf(rule.path)) && !isTargeted(rule.mcp)
      conflicts.push({ index, problem: isCovered ? ` (${quoteSetting(rule.path)}) is unreachable: all its requests belong to ${names}` : ` (${quoteSetting(rule.path)}) overlaps ${names}: both hold for ${first.method} ${rule.path}${overlapOf(first.other.rule, rule)}` })
      continue
    }
    // Credentials are looked at before the message chooses among the rules, and a token is verified for one audience.
    const other = earlier.find(other => taken.some(method => other.rule.methods?.includes(method) ?? true) && isOtherAudience(other.rule, rule))
    if (other) conflicts.push({ index, problem: ` (${quoteSetting(rule.path)}) has another audience than ${nameOf(other.index)}: rules for the messages of one path share it` })
  }
  return conflicts
}

/** What two rules for one path and method both hold for, beyond these. Undefined if messages choose between them. */
function overlapOf (a: GateRule, b: GateRule): string | undefined {
  return shapeOf(a.path) === shapeOf(b.path) ? sharedTarget(a.mcp, b.mcp) : ''
}

function isOtherAudience (a: GateRule, b: GateRule): boolean {
  return a.requirement !== undefined && b.requirement !== undefined && a.audience !== b.audience
}
