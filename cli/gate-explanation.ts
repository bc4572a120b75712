import { findRule, type FoundRule, type GateRequest } from './explain/rule.ts'
import type { GateSettings } from '../lib/gate/gate-settings.ts'
import { TOOL_CALL, TOOL_LIST } from '../lib/gate/mcp-methods.ts'
import type { ArgumentRule } from '../lib/gate/arguments.ts'
import { isTargeted, type GateRule } from '../lib/gate/rule.ts'
import { createRules } from '../lib/gate/rules.ts'
import type { Requirement } from '../lib/guard/requirement/requirement.ts'
import { indent, title, type Paint } from './show.ts'

interface GateView {
  readonly settings: GateSettings
  /** Where the rules are, in words, by their paths. */
  readonly places: ReadonlyMap<string, string>
  /** The last day on which nothing is refused, if that is not over. */
  readonly observedUntil?: string
  /** The configured ones, if they are known. */
  readonly audience: unknown
}

/** What makes a path one that two programs could read differently. */
const CAUSES: Readonly<Record<string, string>> = {
  double_slash: 'it has two slashes in a row',
  dot_segment: 'it has a dot segment, which is . or .. (also as %2e, or with a ; behind it)',
  slash_escape: 'it has an escaped slash: %2F',
  backslash: 'it has a backslash, plain or as %5C',
  control_character: 'it has white space or a control character, plain or escaped',
  fragment: 'it has a #',
  non_ascii: 'it has a character outside ASCII: a client sends it escaped',
  path_parameter:
    'it has a ; (also as %3B), and without what follows it in the segment, another rule or none would hold, or ' +
    'the segment would be empty, or another rule holds for the path before it',
  session_segment: 'it has a segment like (S(x)), which ASP.NET drops',
  other_spelling:
    'many frameworks take it for the path of another rule, because they decode escapes, take no note of case, of ' +
    'a suffix (.json), or of a slash at the end. If the upstream tells them apart, gate.exactPaths: true lets it pass',
  escape: 'it has a % without two hex digits',
  encoding: 'it has escapes that are not UTF-8'
}

type Section = readonly [title: string, ...lines: readonly string[]]

/** Says which rule holds for a request, what it asks for, and why no other holds. `holds` is false if none does. */
export function explainRule (request: GateRequest, view: GateView, paint: Paint): { text: string, holds: boolean } {
  const { method, target, message } = request
  const found = findRule(request, view.settings)
  const [verdict, ...more] = storyOf(found, request, view, paint)
  const asked = [`${method} ${target}`, ...message ? [[message.method, message.name].filter(Boolean).join(' ')] : []]
  const { observedUntil } = view
  const isEnforced = isEnforcedAtOnce(found, request, view)
  const observing: Section[] = observedUntil === undefined
    ? []
    : [['OBSERVE', isEnforced
        ? `${found.kind === 'rule' ? 'This rule is' : 'The rules beside it are'} enforced at once: observe: false`
        : `Until the end of ${observedUntil} (UTC) nothing is refused for its credentials or for want of a rule.`]]
  const sections: Section[] = [[asked.join(', '), verdict], ...observing, ...more]
  return {
    holds: found.kind === 'rule',
    text: sections.map(([head, ...lines]) => `${title(paint, head)}${indent(lines.join('\n'))}\n`).join('')
  }
}

/** Without a rule it is up to those for the same path, or for a path that the upstream may take for the same. */
function isEnforcedAtOnce (found: FoundRule, { method }: GateRequest, { settings }: GateView): boolean {
  if (found.kind === 'rule') return !found.rule.observe
  if (found.kind !== 'none') return false
  const { path, pathRules } = found
  return pathRules?.rules.every(({ observe }) => !observe) ??
    createRules(settings.rules, settings).isNearEnforced(method, path)
}

type Story = readonly [verdict: string, ...more: readonly Section[]]

function storyOf (found: FoundRule, request: GateRequest, view: GateView, paint: Paint): Story {
  const { rules, ownPrefix } = view.settings
  const none = (verdict: string, why: string, ...more: readonly Section[]): Story => [
    paint('red', verdict),
    ['Why', why],
    ...more
  ]
  switch (found.kind) {
    case 'refused': {
      const closer = rules.find(({ path }) => path === found.detail.rule)
      return none(
        'Refused before any rule: 400, or 403 if a proxy asks.',
        `Two programs could read this path differently: ${CAUSES[String(found.detail.cause)]}.`,
        ...closer ? [['The other rule', `${nameOf(closer, view)}: ${formOf(closer)}`] as const] : []
      )
    }
    case 'own':
      return none(
        'No rule is used: Holdfast answers this itself.',
        `${found.own} is a path of its own, and goes before the ` +
          `upstream's.${ownPrefix === '' ? ' gate.ownPrefix moves /health, /metrics and /docs.' : ''}`
      )
    case 'message':
      return none(
        'The message in the body decides.',
        'Say which one, such as --mcp tools/list, or --mcp tools/call NAME. A body that cannot be judged is 400, ' +
          'or 403 if a proxy asks.',
        ...others(found.path, request, view, paint)
      )
    case 'none':
      return none(
        'No rule holds: 404, or 403 if a proxy ' +
          `asks.${found.pathRules ? ' Where a rule of this path asks for a token, a request without one is 401.' : ''}`,
        found.pathRules
          ? 'No rule of this path is for this message, and nothing passes without one.'
          : rules.length === 0
            ? 'There are no rules, and nothing passes without one.'
            : 'No rule has both this path and this method, and nothing passes without one.',
        ...others(found.path, request, view, paint)
      )
    case 'rule':
      return [
        `${paint('green', `${nameOf(found.rule, view)} holds`)}: ${formOf(found.rule)}`,
        ['It asks for', ...demandsOf(found.rule, view)],
        ...others(found.path, request, view, paint, found.rule)
      ]
  }
}

function nameOf (rule: GateRule, { settings, places }: GateView): string {
  const path = `gate.rules[${settings.rules.indexOf(rule)}]`
  if (places.has(path)) return `${path} (${places.get(path)})`
  return places.has('gate.rules') ? path : 'The rule for an upstream without rules'
}

function formOf ({ path, methods, mcp }: GateRule): string {
  const listed = mcp?.onlyCallable ? ' (tools that the caller may call)' : mcp?.onlyRuled ? ' (tools with a rule)' : ''
  const messages = mcp?.tools
    ? `, ${TOOL_CALL} of ${mcp.tools.join(', ')}`
    : mcp?.methods
      ? `, messages ${mcp.methods.map(method => method === TOOL_LIST ? method + listed : method).join(', ')}`
      : mcp
        ? ', messages'
        : ''
  return `path ${path}, ${methods === undefined ? 'all methods' : `methods ${methods.join(', ')}`}${messages}`
}

const hasMethod = ({ methods }: GateRule, method: string) => methods === undefined || methods.includes(method)

/** Asked of the table itself, with nothing else in it. */
const hasPath = (rule: GateRule, path: string) =>
  createRules([{ ...rule, methods: ['GET'] }]).find('GET', path) !== undefined

function demandsOf ({ requirement, audiences, mcp }: GateRule, view: GateView): string[] {
  const said = (mcp?.arguments ?? []).map(describeArgument)
  if (requirement === undefined) return ['nothing: no token is looked at (allow: anyone)', ...said]
  const names = [audiences ?? view.audience ?? []].flat()
  const token = `a valid token${names.length === 0 ? '' : ` for the audience ${names.join(' or ')}`}`
  const lines = [token, ...describeRequirement(requirement)]
  const asked = requirement.optional
    ? ['nothing of a request without credentials', ...lines.map(line => `else ${line}`)]
    : lines
  return [...asked, ...said]
}

function describeArgument ({ name, allowed, startsWith, claim }: ArgumentRule): string {
  const what = claim === undefined
    ? startsWith === undefined
      ? allowed!.map(value => JSON.stringify(value)).join(' or ')
      : `begins with ${JSON.stringify(startsWith)}`
    : `the caller's claim ${claim}`
  return `the argument ${name}: ${what}`
}

function describeRequirement ({ scope, anyScope, claims = [], acr, maxAgeSeconds }: Requirement): string[] {
  const lines = claims.map(({ name, allowed }) => `the claim ${name}: ${allowed!.join(' or ')}`)
  if (scope) lines.push(`the scope ${scope.join(' and ')}`)
  if (anyScope) lines.push(`the scope ${anyScope.join(' or ')}`)
  if (acr) lines.push(`a login of the kind ${acr.join(' or ')}`)
  if (maxAgeSeconds !== undefined) lines.push(`a login at most ${maxAgeSeconds} seconds old`)
  return lines
}

/** The rules that do not hold, each with the reason. */
function others (
  path: string,
  { method, message }: GateRequest,
  view: GateView,
  paint: Paint,
  rule?: GateRule
): Section[] {
  const lines = view.settings.rules.filter(other => other !== rule).map(other => {
    const misses = [
      ...hasPath(other, path) ? [] : ['another path'],
      ...hasMethod(other, method) ? [] : [`not ${method}`],
      ...message && isTargeted(other.mcp) && !createRules([other]).find('POST', path)?.matchMessage?.(message)
        ? ['another message']
        : []
    ]
    return `${nameOf(other, view)}: ${formOf(other)}\n ` +
      ` ${paint('dim', misses.length === 0 ? 'less specific' : misses.join(', and '))}`
  })
  return lines.length === 0 ? [] : [[rule ? 'The other rules' : 'The rules', ...lines]]
}
