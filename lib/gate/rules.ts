import { Refusal } from '../refusal.ts'
import { TOOL_CALL } from './mcp-message.ts'
import type { McpMessage } from './mcp-message.ts'
import { isTargeted } from './mcp-rules.ts'
import { createPathRouter, shapeOf, verifyOneReading, withoutParameters } from './path.ts'
import { KNOWN_METHODS, MESSAGE_METHOD } from './rule.ts'
import type { GateRule } from './rule.ts'

/** A rule that was found for a message, with the method and the tool by which it was found, as it names them. */
export interface McpMatch {
  readonly rule: GateRule
  /** Undefined if the rule is for the path alone. */
  readonly method: string | undefined
  /** Undefined if the rule names no tools. */
  readonly tool: string | undefined
}

/** What names rules for people and for logs: the method and the tool of each, as the rules have them. */
export function nameMatches (matches: readonly McpMatch[]): string {
  return [...new Set(matches.map(({ method = 'any', tool }) => tool === undefined ? method : `${method} ${tool}`))].join(', ')
}

/** The rules for one path and method: a single one, or those among which messages of the Model Context Protocol choose. */
export interface PathRules {
  readonly rules: readonly [GateRule, ...GateRule[]]
  /** Undefined if the body has no say. Then there is one rule. */
  readonly matchMessage: MessageMatcher | undefined
}

/** Finds the rules for a request: of the rules with its method, those with the most specific path. Undefined if there are none. */
export interface Rules {
  /** @param path in normal form, and read in one way only */
  find (method: string, path: string): PathRules | undefined
  /**
   * The same for a path that a client has sent.
   * @param path in normal form
   * @throws Refusal target_path if two parties could read it differently, and would not both find these rules
   */
  choose (method: string, path: string): PathRules | undefined
}

/**
 * Makes the table of rules.
 * @throws TypeError if they overlap
 */
export function createRules (rules: readonly GateRule[]): Rules {
  const places = new Map<string, { method: string, rules: [GateRule, ...GateRule[]] }>()
  for (const rule of rules) {
    for (const method of rule.methods ?? KNOWN_METHODS) {
      const key = `${method} ${shapeOf(rule.path)}`
      const place = places.get(key)
      if (place) place.rules.push(rule)
      else places.set(key, { method, rules: [rule] })
    }
  }
  const router = createPathRouter<PathRules>()
  for (const { method, rules } of places.values()) {
    const matchMessage = method === MESSAGE_METHOD && rules.some(({ mcp }) => mcp) ? createMessageMatcher(rules) : undefined
    if (!router.add(method, rules[0].path, { rules, matchMessage })) throw new TypeError(`rules for ${method} ${rules[0].path} overlap`)
  }
  const { find } = router
  return {
    find,
    choose (method, path) {
      verifyOneReading(path)
      const found = find(method, path)
      if (withoutParameters(path).some(reading => find(method, reading) !== found)) throw new Refusal('target_path', { detail: { cause: 'path_parameter' } })
      return found
    }
  }
}

type MessageMatcher = (message: McpMessage) => McpMatch | undefined

/**
 * Finds the closest rule for a message: a named tool goes before a pattern, of two patterns the longer, that before a method, and that
 * before the path alone.
 * @param rules rules for one path that name nothing twice
 */
export function createMessageMatcher (rules: readonly GateRule[]): MessageMatcher {
  const tools = rules.flatMap(rule => (rule.mcp?.tools ?? []).map(tool => ({ rule, method: TOOL_CALL, tool })))
  const byTool = new Map(tools.map(match => [match.tool, match]))
  const patterns = tools.filter(({ tool }) => tool.endsWith('*')).sort((a, b) => b.tool.length - a.tool.length)
  const byMethod = new Map(rules.flatMap(rule => (rule.mcp?.methods ?? []).map(method => [method, { rule, method, tool: undefined }])))
  const [alone] = rules.filter(({ mcp }) => !isTargeted(mcp)).map(rule => ({ rule, method: undefined, tool: undefined }))

  return ({ method, name = '' }) => {
    if (method === undefined) return alone
    const ofTool = method === TOOL_CALL ? byTool.get(name) ?? patterns.find(({ tool }) => name.startsWith(tool.slice(0, -1))) : undefined
    return ofTool ?? byMethod.get(method) ?? alone
  }
}
