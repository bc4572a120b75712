import { refusePath } from '../guard/url/request-url.ts'
import { createLenientRouter, specificityOf } from './lenient-path.ts'
import type { McpMessage } from './mcp-message.ts'
import { TOOL_CALL } from './mcp-methods.ts'
import { beforeSemicolon, verifyOneReading, withoutParameters } from './path.ts'
import { isTargeted, KNOWN_METHODS, LISTS, MESSAGE_METHOD, UNRULED, type GateRule } from './rule.ts'
import { createPathRouter, isWide, shapeOf } from './rule-path.ts'

/** A rule that was found for a message, with the method and the tool by which it was found, as it names them. */
export interface McpMatch {
  readonly rule: GateRule
  /** Absent if the rule is for the path alone. */
  readonly method: string | undefined
  /** Absent if the rule names no tools. */
  readonly tool: string | undefined
}

/** What names rules for people and for logs: the method and the tool of each, as the rules have them. */
export function nameMatches (matches: readonly McpMatch[]): string {
  return [...new Set(matches.map(({ method = 'any', tool }) => tool === undefined ? method : `${method} ${tool}`))]
    .join(', ')
}

/**
 * The rules for one path and method: a single one, or those among which messages of the Model Context Protocol choose.
 */
export interface PathRules {
  readonly rules: readonly [GateRule, ...GateRule[]]
  /** Absent if the body has no say. Then there is one rule. */
  readonly matchMessage: MessageMatcher | undefined
  /** Undefined unless something is taken out of the answers to `tools/list`. */
  readonly list: ToolList | undefined
  /** How specific their path is. */
  readonly specificity: string
  /** Whether another path may be more specific where theirs fits, and the upstream may read it so. */
  readonly isWide: boolean
}

/** The rules of a request that has none, and passes all the same. */
export const NO_RULES: PathRules = {
  rules: [UNRULED],
  matchMessage: undefined,
  list: undefined,
  specificity: '',
  isWide: false
}

/** Which tools the answers to `tools/list` of a path hold: those with a rule, and maybe only those of the caller. */
export interface ToolList {
  readonly isOfCaller: boolean
  readonly ruleOf: (tool: string) => GateRule | undefined
}

export interface RulesOptions {
  /**
   * Whether the upstream tells paths apart that differ in case, in escapes, in a suffix or in a slash at the end.
   * Default: false
   */
  readonly exactPaths?: boolean
}

/**
 * Makes the table of rules. Of the rules with the method of a request, those with the most specific path hold for it.
 * What it finds is undefined if there are none.
 * @throws TypeError if they overlap
 */
export function createRules (rules: readonly GateRule[], { exactPaths = false }: RulesOptions = {}) {
  const byPath = new Map<string, { method: string, rules: [GateRule, ...GateRule[]] }>()
  for (const rule of rules) {
    for (const method of rule.methods ?? KNOWN_METHODS) {
      const key = `${method} ${shapeOf(rule.path)}`
      const pathRules = byPath.get(key)
      if (pathRules) pathRules.rules.push(rule)
      else byPath.set(key, { method, rules: [rule] })
    }
  }
  const router = createPathRouter<PathRules>()
  const lenient = createLenientRouter<PathRules>()
  for (const { method, rules } of byPath.values()) {
    const { path } = rules[0]
    const specificity = specificityOf(path)
    const matchMessage = method === MESSAGE_METHOD && rules.some(({ mcp }) => mcp)
      ? createMessageMatcher(rules)
      : undefined
    const cutter = rules.find(({ mcp }) => LISTS.some(name => mcp?.[name]))
    const list = cutter && {
      isOfCaller: cutter.mcp!.onlyCallable === true,
      ruleOf: (name: string) => matchMessage!({ method: TOOL_CALL, name })?.rule
    }
    const pathRules = {
      rules,
      matchMessage,
      list,
      specificity,
      isWide: !exactPaths && isWide(path)
    }
    if (!router.add(method, path, pathRules)) throw new TypeError(`rules for ${method} ${path} overlap`)
    lenient.add(method, path, pathRules)
  }
  const { find } = router
  const areListsCut = rules.some(({ mcp }) => LISTS.some(name => mcp?.[name]))
  return {
    /** The path is in normal form, and read in one way only. */
    find,
    /**
     * The tools in a stream of events that this request opens: it may repeat answers to messages for this path.
     */
    listOfStream: (method: string, path: string) =>
      areListsCut && method === 'GET' ? find(MESSAGE_METHOD, path)?.list : undefined,
    /**
     * What `find` gives, for a path that a client has sent.
     * @param path in normal form
     * @throws Refusal target_path if two parties could read it differently, and would not both find these rules
     */
    choose (method: string, path: string): PathRules | undefined {
      verifyOneReading(path)
      const found = find(method, path)
      const others = withoutParameters(path)
      const begun = beforeSemicolon(path)
      const isOther = others.some(reading => find(method, reading) !== found) ||
        begun.some(reading => ![found, undefined].includes(find(method, reading)))
      if (isOther) refusePath('path_parameter')
      if (found?.isWide) { for (const reading of [path, ...others, ...begun]) verifyNoCloser(method, reading, found) }
      return found
    },
    /** Whether a path without rules may be read as one whose rules are enforced although others are only observed. */
    isNearEnforced: (method: string, path: string) =>
      !exactPaths && [path, ...withoutParameters(path), ...beforeSemicolon(path)].some(reading =>
        lenient.find(method, reading).some(({ rules }) => rules.some(({ observe }) => !observe))
      )
  }

  /**
   * Many frameworks serve `/MCP` and `/mcp/` as `/mcp`. There the rule of a wider path would open what a closer one
   * guards.
   */
  function verifyNoCloser (method: string, path: string, chosen: PathRules) {
    const closer = lenient.find(method, path).find(({ specificity }) => specificity > chosen.specificity)
    if (closer) refusePath('other_spelling', { rule: closer.rules[0].path })
  }
}

/**
 * The rules for wider paths, by the path of rules for messages: messages to a neighbour of that path belong to them.
 */
export function findWiderRules (rules: readonly GateRule[]): ReadonlyMap<string, readonly string[]> {
  const takes = ({ methods }: GateRule) => methods?.includes(MESSAGE_METHOD) ?? true
  const found = new Map(rules.filter(({ mcp }) => mcp).map(({ path }) => [path, [] as string[]]))
  for (const path of new Set(rules.filter(takes).map(({ path }) => path))) {
    const router = createPathRouter<true>()
    router.add(MESSAGE_METHOD, path, true)
    for (const [than, wider] of found) {
      if (router.find(MESSAGE_METHOD, than) && specificityOf(than) > specificityOf(path)) wider.push(path)
    }
  }
  return new Map([...found].filter(([, wider]) => wider.length > 0))
}

type MessageMatcher = (message: McpMessage) => McpMatch | undefined

/**
 * Finds the closest rule for a message: a named tool goes before a pattern, of two patterns the longer, that before a
 * method, and that before the path alone.
 * @param rules rules for one path that name nothing twice
 */
export function createMessageMatcher (rules: readonly GateRule[]): MessageMatcher {
  const tools = rules.flatMap(rule => (rule.mcp?.tools ?? []).map(tool => ({ rule, method: TOOL_CALL, tool })))
  const byTool = new Map(tools.map(match => [match.tool, match]))
  const patterns = tools.filter(({ tool }) => tool.endsWith('*')).sort((a, b) => b.tool.length - a.tool.length)
  const byMethod = new Map(
    rules.flatMap(rule => (rule.mcp?.methods ?? []).map(method => [method, { rule, method, tool: undefined }]))
  )
  const [alone] = rules.filter(({ mcp }) => !isTargeted(mcp)).map(rule => ({
    rule,
    method: undefined,
    tool: undefined
  }))

  return ({ method, name = '' }) => {
    if (method === undefined) return alone
    const ofTool = method === TOOL_CALL
      ? byTool.get(name) ?? patterns.find(({ tool }) => name.startsWith(tool.slice(0, -1)))
      : undefined
    return ofTool ?? byMethod.get(method) ?? alone
  }
}
