import { isJsonObject } from '../jose/jws.ts'
import { quoteSetting } from '../printable.ts'
import { TOOL_CALL } from './mcp-message.ts'

/** The messages of the Model Context Protocol that a rule is for. Without both members they are all those that no other rule names. */
export interface McpTarget {
  /** Methods of the protocol. Undefined beside `tools`, which are for `tools/call` only. */
  readonly methods: readonly string[] | undefined
  /** Names of tools, with `*` at the end for all that begin so. */
  readonly tools: readonly string[] | undefined
}

/** Says what is wrong with a member of a rule. */
type Tell = (member: string, problem: string) => void

const MEMBERS: readonly string[] = ['methods', 'tools']

/** Reads `mcp` of a rule, which is given. Undefined if something is wrong with it, which `tell` then gets. */
export function parseMcp (given: unknown, tell: Tell): McpTarget | undefined {
  if (!isJsonObject(given)) {
    tell('mcp', ` is ${quoteSetting(given)}; allowed: a section with methods or tools, or an empty one, {}`)
    return undefined
  }
  for (const name of Object.keys(given).filter(name => !MEMBERS.includes(name))) tell(`mcp.${name}`, ` is unknown; allowed: ${MEMBERS.join(', ')}`)
  const methods = readNames('mcp.methods', given['methods'], 'a list of methods such as tools/list, without *', name => !/[\s*]/.test(name), tell)
  const tools = readNames('mcp.tools', given['tools'], 'a list of names of tools, with * at the end for all that begin so', name => !name.slice(0, -1).includes('*'), tell)
  if (tools === undefined) return { methods, tools }
  const other = methods?.find(method => method !== TOOL_CALL)
  if (other !== undefined) tell('mcp.tools', ` is ${quoteSetting(given['tools'])}, which is for ${TOOL_CALL} only, and that contradicts mcp.methods, which names ${quoteSetting(other)}`)
  return { methods: undefined, tools }
}

function readNames (member: string, given: unknown, allowed: string, isAllowed: (name: string) => boolean, tell: Tell): readonly string[] | undefined {
  if (given === undefined) return undefined
  const names: unknown[] = [given].flat()
  if (names.length === 0 || !names.every(name => typeof name === 'string' && name !== '' && isAllowed(name))) {
    tell(member, ` is ${quoteSetting(given)}; allowed: ${allowed}`)
    return undefined
  }
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice !== undefined) tell(member, ` is ${quoteSetting(given)}, which names ${quoteSetting(twice)} twice`)
  return names as string[]
}

/** Whether a rule is for some messages only. All others of its path are for the rules without such a target. */
export function isTargeted (target: McpTarget | undefined): boolean {
  return (target?.methods ?? target?.tools) !== undefined
}

/** What two rules for one path both name, for people. Undefined if no message could belong to both. */
export function sharedTarget (a: McpTarget | undefined, b: McpTarget | undefined): string | undefined {
  if (!isTargeted(a) || !isTargeted(b)) return isTargeted(a) || isTargeted(b) ? undefined : ''
  const method = a!.methods?.find(method => b!.methods?.includes(method))
  if (method !== undefined) return `, ${method}`
  const tool = a!.tools?.find(tool => b!.tools?.includes(tool))
  return tool === undefined ? undefined : `, ${TOOL_CALL} ${tool}`
}
