import { ownPathsOf, type GateSettings } from '../../lib/gate/gate-settings.ts'
import type { McpMessage } from '../../lib/gate/mcp-message.ts'
import { originForm } from '../../lib/gate/path.ts'
import type { GateRule } from '../../lib/gate/rule.ts'
import { createRules, type PathRules } from '../../lib/gate/rules.ts'
import { Refusal, type RefusalDetail } from '../../lib/refusal.ts'
import { readTargetPath } from '../../lib/guard/url/request-url.ts'

/** A request to a gate, as far as its rules go by it. */
export interface GateRequest {
  readonly method: string
  /** As a client would send it. */
  readonly target: string
  /** The message of the Model Context Protocol that the body would hold, if one is known. */
  readonly message?: McpMessage
}

/** What a gate does with a request before it looks at credentials. */
export type FoundRule =
  /** Two programs could read the path differently. */
  | { readonly kind: 'refused', readonly detail: RefusalDetail }
  /** It is for the gate itself. */
  | { readonly kind: 'own', readonly own: string }
  /** The path has rules for messages, and which message it is decides. */
  | { readonly kind: 'message', readonly path: string, readonly pathRules: PathRules }
  /** `pathRules`: those of the path, which are for other messages. */
  | { readonly kind: 'none', readonly path: string, readonly pathRules: PathRules | undefined }
  | { readonly kind: 'rule', readonly path: string, readonly pathRules: PathRules, readonly rule: GateRule }

/** Finds the rule that holds for a request, by the functions of the gate itself. */
export function findRule (
  { method, target, message }: GateRequest,
  { rules, exactPaths, upstream, ownPrefix }: GateSettings
): FoundRule {
  let path: string
  let pathRules: PathRules | undefined
  try {
    path = readTargetPath(originForm(target))
    pathRules = createRules(rules, { exactPaths }).choose(method, path)
  } catch (error) {
    if (error instanceof Refusal) return { kind: 'refused', detail: error.detail! }
    throw error
  }
  const own = upstream === undefined
    ? undefined
    : ownPathsOf(ownPrefix).find(own => path === own || path.startsWith(`${own}/`))
  if (own !== undefined) return { kind: 'own', own }
  if (pathRules?.matchMessage && !message) return { kind: 'message', path, pathRules }
  const rule = pathRules?.matchMessage ? pathRules.matchMessage(message!)?.rule : pathRules?.rules[0]
  return rule ? { kind: 'rule', path, pathRules: pathRules!, rule } : { kind: 'none', path, pathRules }
}
