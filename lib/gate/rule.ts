import { METHODS } from 'node:http'
import { isJsonObject } from '../jose/jws.ts'
import { quoteSetting } from '../printable.ts'
import { ANY_TOKEN, parseRequirement } from '../requirement/requirement.ts'
import type { Requirement, RequirementOptions } from '../requirement/requirement.ts'
import { nameThatWasMeant } from '../suggestion.ts'
import type { GateRuleOptions } from './gate-options.ts'
import { isTargeted, parseMcp } from './mcp-rules.ts'
import type { McpTarget } from './mcp-rules.ts'
import { problemOfPath } from './rule-path.ts'

/** One rule of the gate: the requests that it is for, and what they need. */
export interface GateRule {
  /** As it was written, in the syntax of the router. */
  readonly path: string
  /** Undefined means all methods. */
  readonly methods: readonly string[] | undefined
  /** What the token must meet. Undefined if anyone passes: then no token is looked at. */
  readonly requirement: Requirement | undefined
  /** Takes the place of the configured audience. */
  readonly audience: string | undefined
  /** Whether a connection may become another protocol, such as WebSocket. */
  readonly upgrade: boolean
  /** The messages of the Model Context Protocol that it is for. Undefined if the body is not read for it. */
  readonly mcp: McpTarget | undefined
}

/** Tells what is wrong with a member of a rule, or with the whole rule. */
export type TellRule = (member: string | undefined, problem: string) => void

const REQUIREMENTS = ['scope', 'anyScope', 'claims', 'acr', 'maxAgeSeconds'] as const
const MEMBERS: readonly string[] = ['path', 'methods', 'allow', ...REQUIREMENTS, 'audience', 'upgrade', 'mcp'] satisfies ReadonlyArray<keyof GateRuleOptions>
/** CONNECT never passes the gate: it names no path, and what follows it would be for no rule. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS.filter(method => method !== 'CONNECT'))

/** Reads one entry of `gate.rules`. Undefined if something is wrong with it, which is then reported. It never throws. */
export function parseRule (given: unknown, tellMember: TellRule): GateRule | undefined {
  let isBad = false
  const tell: TellRule = (member, problem) => {
    isBad = true
    tellMember(member, problem)
  }
  if (!isJsonObject(given)) {
    tell(undefined, ` is ${quoteSetting(given)}; allowed: an object with members such as path and scope`)
    return undefined
  }
  for (const name of Object.keys(given).filter(name => !MEMBERS.includes(name))) {
    const meant = nameThatWasMeant(name, MEMBERS)
    tell(name, ` is unknown; ${meant === undefined ? `allowed: ${MEMBERS.join(', ')}` : `did you mean ${meant}?`}`)
  }
  const { path, audience, upgrade = false } = given
  const pathProblem = problemOfPath(path)
  if (pathProblem !== undefined) tell(path === undefined ? undefined : 'path', pathProblem)
  const mcp = given.mcp === undefined ? undefined : parseMcp(given.mcp, tell)
  const methods = readMethods(given.methods, tell) ?? (isTargeted(mcp) ? MESSAGE_METHODS : undefined)
  if (isTargeted(mcp) && !isSameList(methods!, MESSAGE_METHODS)) tell('methods', ` is ${quoteSetting(given.methods)}, but only POST carries the messages that mcp names`)
  if (typeof upgrade !== 'boolean') tell('upgrade', ` is ${quoteSetting(upgrade)}; allowed: true, false`)
  if (audience !== undefined && (typeof audience !== 'string' || audience === '') && typeof audience !== 'number') tell('audience', ` is ${quoteSetting(audience)}; allowed: any non-empty string`)
  const requirement = readRequirement(given, tell)
  if (isBad) return undefined
  return { path: path as string, methods, requirement, audience: audience === undefined ? undefined : String(audience), upgrade: upgrade as boolean, mcp }
}

/** The only method whose requests carry messages of the Model Context Protocol. */
export const MESSAGE_METHOD = 'POST'
const MESSAGE_METHODS: readonly string[] = [MESSAGE_METHOD]

const isSameList = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((entry, index) => entry === b[index])

function readMethods (given: unknown, tell: TellRule): readonly string[] | undefined {
  if (given === undefined) return undefined
  const methods = [given].flat()
  const bad = methods.find(method => !KNOWN_METHODS.has(method as string))
  if (methods.length === 0 || bad !== undefined) {
    tell('methods', ` is ${quoteSetting(given)}; allowed: a list of HTTP methods in upper case`)
    return undefined
  }
  // RFC 9110 section 9.3.2: HEAD is GET without the body.
  return [...new Set(methods.includes('GET') ? [...methods, 'HEAD'] : methods)] as string[]
}

function readRequirement (entry: Readonly<Record<string, unknown>>, tell: TellRule): Requirement | undefined {
  const asked = REQUIREMENTS.filter(name => entry[name] !== undefined)
  const askers = entry.audience === undefined ? asked : [...asked, 'audience']
  const { allow = 'token' } = entry
  if (allow !== 'token' && allow !== 'anyone') tell('allow', ` is ${quoteSetting(allow)}; allowed: anyone, token`)
  if (allow === 'anyone') {
    if (askers.length > 0) tell('allow', ` is anyone, and that contradicts ${askers.join(' and ')}`)
    return undefined
  }
  const options = Object.fromEntries(asked.map(name => [name, entry[name]])) as RequirementOptions
  // One requirement is read at a time, so that each problem names its member.
  for (const name of asked) {
    try {
      parseRequirement({ [name]: options[name] } as RequirementOptions)
    } catch (error) {
      tell(name, ` is ${quoteSetting(options[name])}: ${(error as TypeError).message.replace(/^require: /, '')}`)
      delete (options as Record<string, unknown>)[name]
    }
  }
  return Object.keys(options).length === 0 ? ANY_TOKEN : parseRequirement(options)
}
