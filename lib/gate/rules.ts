import createRouter from 'find-my-way'
import { Refusal } from '../refusal.ts'
import { createMcpRules } from './mcp-rules.ts'
import type { McpRules } from './mcp-rules.ts'
import { verifyOneReading, withoutParameters } from './path.ts'
import { KNOWN_METHODS, MESSAGE_METHOD } from './rule.ts'
import type { GateRule } from './rule.ts'
import { forRouter, noHandler, ROUTER_OPTIONS, routerForm, shapeOf } from './rule-path.ts'

/** The rules for one path and method: a single one, or those among which messages of the Model Context Protocol choose. */
export interface PathRules<Rule> {
  readonly rules: readonly [Rule, ...Rule[]]
  /** Undefined if the body has no say. Then there is one rule. */
  readonly messages: McpRules<Rule> | undefined
}

/** Finds the rules for a request: of the rules whose methods fit, those with the most specific path. Undefined if no rule fits. */
export interface Rules<Rule> {
  /** @param path in normal form, and read in one way only */
  find (method: string, path: string): PathRules<Rule> | undefined
  /**
   * The same for a path that a client has sent.
   * @param path in normal form
   * @throws Refusal target_path if two parties could read it differently, and would not both find these rules
   */
  choose (method: string, path: string): PathRules<Rule> | undefined
}

/**
 * Makes the table of rules.
 * @param rules rules that do not overlap
 */
export function createRules<Rule extends GateRule> (rules: readonly Rule[]): Rules<Rule> {
  const router = createRouter(ROUTER_OPTIONS)
  const places = new Map<string, { rules: [Rule, ...Rule[]], messages: McpRules<Rule> | undefined }>()
  for (const rule of rules) {
    for (const method of rule.methods ?? KNOWN_METHODS) {
      const key = `${method} ${shapeOf(rule.path)}`
      const place = places.get(key)
      if (place) {
        place.rules.push(rule)
        continue
      }
      const made = { rules: [rule] as [Rule], messages: undefined }
      places.set(key, made)
      router.on(method as 'GET', routerForm(rule.path), noHandler, made)
    }
  }
  for (const [key, place] of places) {
    if (key.startsWith(`${MESSAGE_METHOD} `) && place.rules.some(({ mcp }) => mcp)) place.messages = createMcpRules(place.rules)
  }
  const find = (method: string, path: string): PathRules<Rule> | undefined => router.find(method as 'GET', forRouter(path))?.store as PathRules<Rule> | undefined
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
