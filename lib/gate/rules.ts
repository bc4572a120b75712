import { METHODS } from 'node:http'
import createRouter from 'find-my-way'
import { nameThatWasMeant } from '../names.ts'
import { ANY_TOKEN, parseRequirement } from '../guard/requirement.ts'
import type { Requirement, RequirementOptions } from '../guard/requirement.ts'
import { Refusal } from '../refusal.ts'
import type { GateRuleOptions } from './gate-options.ts'
import { escapeNonAscii, readTargetPath } from '../url/path.ts'
import { verifyOneReading } from './path.ts'

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
}

/** Tells what is wrong with a member of a rule, or with the whole rule. */
export type TellRule = (member: string | undefined, problem: string) => void

const REQUIREMENTS = ['scope', 'anyScope', 'claims', 'acr', 'maxAgeSeconds'] as const
const MEMBERS: readonly string[] = ['path', 'methods', 'allow', ...REQUIREMENTS, 'audience', 'upgrade'] satisfies ReadonlyArray<keyof GateRuleOptions>
/** CONNECT never reaches the gate: it names no path. */
const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS.filter(method => method !== 'CONNECT'))

/** Reads one entry of `gate.rules`. Undefined if something is wrong with it, which is then told. It never throws. */
export function parseRule (given: unknown, tellMember: TellRule): GateRule | undefined {
  let isBad = false
  const tell: TellRule = (member, problem) => {
    isBad = true
    tellMember(member, problem)
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    tell(undefined, ' is not usable; expected members such as path and scope')
    return undefined
  }
  const entry = given as Readonly<Record<string, unknown>>
  for (const name of Object.keys(entry).filter(name => !MEMBERS.includes(name))) {
    const meant = nameThatWasMeant(name, MEMBERS)
    tell(name, ` is unknown${meant === undefined ? '' : `; did you mean ${meant}?`}`)
  }
  const { path, audience, upgrade = false } = entry
  const pathProblem = problemOfPath(path)
  if (pathProblem !== undefined) tell(path === undefined ? undefined : 'path', pathProblem)
  const methods = readMethods(entry.methods, tell)
  if (typeof upgrade !== 'boolean') tell('upgrade', ' is not usable; allowed: true, false')
  if (audience !== undefined && (typeof audience !== 'string' || audience === '') && typeof audience !== 'number') tell('audience', ' is not usable; allowed: any non-empty string')
  const requirement = readRequirement(entry, tell)
  if (isBad) return undefined
  return { path: path as string, methods, requirement, audience: audience === undefined ? undefined : String(audience), upgrade: upgrade as boolean }
}

function readMethods (given: unknown, tell: TellRule): readonly string[] | undefined {
  if (given === undefined) return undefined
  const methods = [given].flat()
  const bad = methods.find(method => !KNOWN_METHODS.has(method as string))
  if (methods.length === 0 || bad !== undefined) {
    tell('methods', ' is not usable; allowed: a list of HTTP methods in upper case')
    return undefined
  }
  // RFC 9110 section 9.3.2: HEAD is GET without the body.
  return [...new Set(methods.includes('GET') ? [...methods, 'HEAD'] : methods)] as string[]
}

function readRequirement (entry: Readonly<Record<string, unknown>>, tell: TellRule): Requirement | undefined {
  const asked = REQUIREMENTS.filter(name => entry[name] !== undefined)
  const askers = entry.audience === undefined ? asked : [...asked, 'audience']
  const { allow = 'token' } = entry
  if (allow !== 'token' && allow !== 'anyone') tell('allow', ' is not usable; allowed: anyone, token')
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
      tell(name, ` is not usable: ${(error as TypeError).message.replace(/^require: /, '')}`)
      delete (options as Record<string, unknown>)[name]
    }
  }
  return Object.keys(options).length === 0 ? ANY_TOKEN : parseRequirement(options)
}

/** Parts of a path that the router reads, and that stand for text of the request: a parameter with a regular expression. */
const EXPRESSION = /\((?:[^()]|\([^()]*\))*\)/g

/** Without the `?` of a last parameter that may be missing. */
function withoutOptional (path: string): string {
  return path.endsWith('?') && path.lastIndexOf(':') > path.lastIndexOf('/') ? path.slice(0, -1) : path
}

function problemOfPath (path: unknown): string | undefined {
  if (path === undefined) return ' has no path'
  if (typeof path !== 'string' || !path.startsWith('/')) return ' is not usable; allowed: a path in the syntax of the router, such as /orders/:id or /orders/*'
  const plain = withoutOptional(path.replace(EXPRESSION, ''))
  if (plain.includes('?')) return ' is unreachable: a rule is chosen by the path, and the query is no part of it'
  try {
    verifyOneReading(readTargetPath(escapeNonAscii(plain) ?? '%'))
    createRouter(ROUTER_OPTIONS).on('GET', routerForm(path), noHandler)
    return undefined
  } catch (error) {
    return error instanceof Refusal ? ` is unreachable: such paths are refused before any rule (${error.detail!.cause})` : ' is not usable in the syntax of the router'
  }
}

/** No limit is needed for a parameter: Node limits the whole target. */
const ROUTER_OPTIONS = { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false, useSemicolonDelimiter: false, maxParamLength: Number.MAX_SAFE_INTEGER }

/** Stands for `%`. No path holds it. */
const PERCENT = '\u0001'

/**
 * The router decodes escapes. But a rule is chosen by the normal form of the path, which is also what a proof is compared with. So the
 * router gets paths in normal form without any escape that it knows.
 */
function routerForm (path: string): string {
  const escaped = escapeNonAscii(path)!
  // The normal form of what is outside of expressions. They are kept as they are.
  const expressions = escaped.match(EXPRESSION) ?? []
  return escaped.split(EXPRESSION).map((plain, index) => `${normalForm(plain)}${expressions[index] ?? ''}`).join('')
}

function normalForm (plain: string): string {
  const optional = plain.endsWith('?')
  return `${readTargetPath(optional ? plain.slice(0, -1) : plain).replaceAll('%', PERCENT)}${optional ? '?' : ''}`
}

/** The router wants a handler. Nobody calls it. */
const noHandler = Function.prototype as () => void

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
  const router = createRouter(ROUTER_OPTIONS)
  for (const { index, rule } of rules) {
    const path = routerForm(rule.path)
    const own = ownPaths.find(own => path === own || path.startsWith(`${own}/`))
    if (own !== undefined) {
      conflicts.push({ index, problem: ` is unreachable: the service itself answers under ${own}` })
      continue
    }
    const methods = rule.methods ?? [...KNOWN_METHODS]
    const taken = methods.filter(method => {
      try {
        router.on(method as 'GET', path, noHandler, index)
        return false
      } catch {
        return true
      }
    })
    if (taken.length === 0) continue
    const others = taken.map(method => rules.find(other => other.index < index && isSamePath(other.rule, rule) && (other.rule.methods?.includes(method) ?? true))!)
    const isCovered = taken.length === methods.length && others.every(other => shapeOf(other.rule) === shapeOf(rule))
    const names = [...new Set(others.map(other => nameOf(other.index)))].join(' and ')
    conflicts.push({ index, problem: isCovered ? ` is unreachable: all its requests belong to ${names}` : ` overlaps ${names}: both hold for ${taken[0]} ${rule.path}` })
  }
  return conflicts
}

/** The same for two paths that differ only in the names of their parameters. */
function shapeOf ({ path }: GateRule): string {
  return routerForm(path).replace(/:[A-Za-z0-9_]+/g, ':')
}

function isSamePath (a: GateRule, b: GateRule): boolean {
  const router = createRouter(ROUTER_OPTIONS)
  try {
    router.on('GET', routerForm(a.path), noHandler)
    router.on('GET', routerForm(b.path), noHandler)
    return false
  } catch {
    return true
  }
}

/** Finds the rule for a request: of the rules whose methods fit, the one with the most specific path. Undefined if no rule fits. */
export interface Rules<Rule> {
  /** @param path in normal form, and read in one way only */
  find (method: string, path: string): Rule | undefined
}

/**
 * Makes the table of rules.
 * @param rules rules that do not overlap
 */
export function createRules<Rule extends GateRule> (rules: readonly Rule[]): Rules<Rule> {
  const router = createRouter(ROUTER_OPTIONS)
  for (const rule of rules) {
    for (const method of rule.methods ?? KNOWN_METHODS) router.on(method as 'GET', routerForm(rule.path), noHandler, rule)
  }
  return {
    find: (method, path) => router.find(method as 'GET', path.replaceAll('%', PERCENT))?.store as Rule | undefined
  }
}
