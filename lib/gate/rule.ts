import { METHODS } from 'node:http'
import { isJsonObject } from '../base/json.ts'
import { quoteSetting } from '../base/printable.ts'
import {
  ANY_TOKEN,
  parseRequirement,
  type Requirement,
  type RequirementOptions
} from '../guard/requirement/requirement.ts'
import { parseArguments, type ArgumentRule } from './arguments.ts'
import { TOOL_CALL, TOOL_LIST } from './mcp-methods.ts'
import { problemOfPath } from './rule-path.ts'

/**
 * The messages of the Model Context Protocol that a rule is for. Without both members they are all those that no other
 * rule names.
 */
interface McpTarget {
  /** Methods of the protocol. Undefined beside `tools`, which are for `tools/call` only. */
  readonly methods: readonly string[] | undefined
  /** Names of tools, with `*` at the end for all that begin so. */
  readonly tools: readonly string[] | undefined
  /** What calls of these tools must say. It does not choose the rule. */
  readonly arguments?: readonly ArgumentRule[]
  /** Whether the answer to `tools/list` holds only tools that a rule of the path names. */
  readonly onlyRuled: boolean
  /** Whether it holds only those that the token of the caller may call now. */
  readonly onlyCallable?: boolean
}

/** One rule of the gate: the requests that it is for, and what they need. */
export interface GateRule {
  /** As it was written, in the syntax of the router. */
  readonly path: string
  /** Undefined means all methods. */
  readonly methods: readonly string[] | undefined
  /** What the token must meet, or undefined if anyone passes: then no token is looked at. */
  readonly requirement: Requirement | undefined
  /** Take the place of the configured ones. */
  readonly audiences: readonly string[] | undefined
  /** Takes the place of that of the gate. */
  readonly timeoutSeconds: number | undefined
  /** Whether a connection may become another protocol, such as WebSocket. */
  readonly upgrade: boolean
  /** Whether its refusals are only observed while others are. */
  readonly observe: boolean
  /** The messages of the Model Context Protocol that it is for, or undefined if the body is not read for it. */
  readonly mcp: McpTarget | undefined
}

/** Rules with the same key are for the same audiences. */
export function audienceKey ({ audiences }: Pick<GateRule, 'audiences'>): string | undefined {
  return audiences && JSON.stringify(audiences)
}

/** What its schema says of an entry, and what takes down the rest. */
interface JudgedRule {
  /** Whether a member, or the rule with any member, has been refused. */
  isRefused (member?: string): boolean
  /** Tells what is wrong with a member, or with the whole rule. */
  tell (member: string | undefined, problem: string): void
}

const REQUIREMENTS = ['scope', 'anyScope', 'claims', 'acr', 'maxAgeSeconds', 'optional'] as const
/** CONNECT never passes the gate: it names no path, and what follows it would be for no rule. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS.filter(method => method !== 'CONNECT'))

/**
 * Reads one entry of `gate.rules`. Returns undefined if something is wrong with it, which is then reported. It never
 * throws.
 */
export function parseRule (entry: unknown, { isRefused, tell: tellMember }: JudgedRule): GateRule | undefined {
  if (!isJsonObject(entry)) return undefined
  let isBad = isRefused()
  const tell: JudgedRule['tell'] = (member, problem) => {
    isBad = true
    tellMember(member, problem)
  }
  const { path, audience, timeoutSeconds, upgrade = false, observe = true } = entry
  const pathProblem = problemOfPath(path)
  if (pathProblem !== undefined) tell(path === undefined ? undefined : 'path', pathProblem)
  const mcp = isRefused('mcp') ? undefined : readMcp(entry.mcp as McpTarget | undefined, entry.allow === 'anyone', tell)
  const methods = entry.methods === undefined || isRefused('methods')
    ? undefined
    : withHead(entry.methods as readonly string[])
  if (isTargeted(mcp) && methods && methods.join() !== MESSAGE_METHOD) {
    tell('methods', ` is ${quoteSetting(entry.methods)}, but only POST carries the messages that mcp names`)
  }
  const requirement = readRequirement(entry, tell)
  if (isBad) return undefined
  return {
    path: path as string,
    methods: methods ?? (isTargeted(mcp) ? [MESSAGE_METHOD] : undefined),
    requirement,
    audiences: audience as readonly string[] | undefined,
    timeoutSeconds: timeoutSeconds as number | undefined,
    upgrade: upgrade as boolean,
    observe: observe as boolean,
    mcp
  }
}

/** What holds for a request that passes without a rule, because the lack of one is only observed. */
export const UNRULED: GateRule = {
  path: '',
  methods: undefined,
  requirement: undefined,
  audiences: undefined,
  timeoutSeconds: undefined,
  upgrade: true,
  observe: true,
  mcp: undefined
}

/** The only method whose requests carry messages of the Model Context Protocol. */
export const MESSAGE_METHOD = 'POST'

// RFC 9110 section 9.3.2: HEAD is GET without the body.
function withHead (methods: readonly string[]): readonly string[] {
  return [...new Set(methods.includes('GET') ? [...methods, 'HEAD'] : methods)]
}

function readRequirement (entry: Readonly<Record<string, unknown>>, tell: JudgedRule['tell']): Requirement | undefined {
  const asked = REQUIREMENTS.filter(name => entry[name] !== undefined && entry[name] !== false)
  const askers = entry.audience === undefined ? asked : [...asked, 'audience']
  if (entry.allow === 'anyone') {
    if (askers.length > 0) tell('allow', ` is anyone, and that contradicts ${askers.join(' and ')}`)
    return undefined
  }
  let requirement = ANY_TOKEN
  // One member is read at a time, so that each problem names its own.
  for (const name of asked) {
    try {
      requirement = { ...requirement, ...parseRequirement({ [name]: entry[name] } as RequirementOptions) }
    } catch (error) {
      tell(name, ` is ${quoteSetting(entry[name])}: ${(error as TypeError).message.replace(/^require: /, '')}`)
    }
  }
  return requirement
}

/**
 * Reads `mcp` of a rule. What is wrong with it, `tell` gets.
 * @param isOpen whether anyone passes
 */
function readMcp (given: McpTarget | undefined, isOpen: boolean, tell: JudgedRule['tell']): McpTarget | undefined {
  if (!given) return undefined
  const { methods, tools } = given
  const lists = LISTS.filter(name => given[name])
  for (const name of lists) {
    if (methods?.includes(TOOL_LIST)) continue
    tell(`mcp.${name}`, ` is true, which is for the answers to ${TOOL_LIST}, and mcp.methods does not name it`)
  }
  if (lists.length > 1) {
    tell('mcp.onlyCallable', ' is true, and so is mcp.onlyRuled: one of them says what the list holds')
  }
  const other = tools && methods?.find(method => method !== TOOL_CALL)
  if (other !== undefined) {
    tell(
      'mcp.tools',
      ` is ${quoteSetting(tools)}, which is for ${TOOL_CALL} only, and that contradicts mcp.methods, ` +
        `which names ${quoteSetting(other)}`
    )
  }
  return { ...given, methods: tools ? undefined : methods, arguments: readArguments(given, isOpen, tell) }
}

/** Both say what the answers to `tools/list` hold. */
export const LISTS = ['onlyRuled', 'onlyCallable'] as const

function readArguments (
  { arguments: given, tools }: McpTarget,
  isOpen: boolean,
  tell: JudgedRule['tell']
): readonly ArgumentRule[] | undefined {
  if (given === undefined) return undefined
  const told = (problem: string) => tell('mcp.arguments', problem)
  if (tools === undefined) told(' is for the calls of tools, and mcp.tools names none')
  try {
    const rules = parseArguments(given)
    if (isOpen && rules.some(({ claim }) => claim !== undefined)) {
      told(' asks for a claim, and with allow: anyone no caller has one')
    }
    return rules
  } catch (error) {
    told(` is ${quoteSetting(given)}: ${(error as TypeError).message}`)
    return undefined
  }
}

/** Whether a rule is for some messages only. All others of its path are for the rules without such a target. */
export function isTargeted (target: McpTarget | undefined): boolean {
  return (target?.methods ?? target?.tools) !== undefined
}

/** What two rules for one path both name, for people, or undefined if no message could belong to both. */
export function sharedTarget (a: McpTarget | undefined, b: McpTarget | undefined): string | undefined {
  if (!isTargeted(a) || !isTargeted(b)) return isTargeted(a) || isTargeted(b) ? undefined : ''
  const method = a!.methods?.find(method => b!.methods?.includes(method))
  if (method !== undefined) return `, ${method}`
  const tool = a!.tools?.find(tool => b!.tools?.includes(tool))
  return tool === undefined ? undefined : `, ${TOOL_CALL} ${tool}`
}
