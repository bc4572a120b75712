import { ADVICE } from './explain/advice.ts'
import { readHeaders, type CapturedRequest } from './explain/captured-request.ts'
import type { ExplainedRefusal, Explanation } from './explain/explain.ts'
import { findRule } from './explain/rule.ts'
import { doesFit, pickArguments, type AskedArgument } from '../lib/gate/arguments.ts'
import { GateError, type GateReason } from '../lib/gate/gate-error.ts'
import type { GateSettings } from '../lib/gate/gate-settings.ts'
import { MESSAGE_BOUNDS, readJson } from '../lib/gate/json-text.ts'
import { readMcpMessages, type McpMessage } from '../lib/gate/mcp-message.ts'
import type { PathRules } from '../lib/gate/rules.ts'
import type { JsonObject } from '../lib/base/json.ts'
import { REFUSALS, type RefusalReason } from '../lib/refusal.ts'
import type { Requirement } from '../lib/guard/requirement/requirement.ts'

/** A refusal of the guard, or of the door of a gate. */
interface ToldRefusal extends Omit<ExplainedRefusal, 'reason' | 'status'> {
  readonly reason: RefusalReason | GateReason
  readonly status: number
}

export interface ToldExplanation extends Omit<Explanation, 'refusal'> {
  readonly refusal: ToldRefusal | undefined
}

/** What the rules of a gate say of a request. */
export type GateJudgement =
  | { readonly kind: 'open', readonly asked?: readonly AskedArgument[] }
  /** `asked`: the arguments of its calls, which are judged last. */
  | {
    readonly kind: 'guarded',
    readonly requirements: readonly Requirement[],
    readonly asked?: readonly AskedArgument[]
  }
  /** Its message decides, and the capture does not hold it. */
  | { readonly kind: 'unjudged' }
  /** `isFirst`: before the credentials are looked at. */
  | { readonly kind: 'refused', readonly refusal: ToldRefusal, readonly isFirst: boolean }

/**
 * Judges a captured request by the rules, with the functions of the gate itself.
 * @param body undefined if the capture does not hold it
 */
export function judgeAtGate (request: CapturedRequest, body: string | undefined, gate: GateSettings): GateJudgement {
  const { method } = request
  const found = findRule(request, gate)
  switch (found.kind) {
    case 'refused':
      return {
        kind: 'refused',
        isFirst: true,
        refusal: {
          ...REFUSALS.target_path,
          ...ADVICE.target_path,
          reason: 'target_path',
          status: 400,
          detail: found.detail
        }
      }
    case 'own':
      return { kind: 'open' }
    case 'none':
      return { kind: 'refused', isFirst: true, refusal: noRule(`${method} ${found.path}`) }
    case 'rule':
      return found.rule.requirement
        ? { kind: 'guarded', requirements: [found.rule.requirement] }
        : { kind: 'open' }
    case 'message':
      return body === undefined ? { kind: 'unjudged' } : judgeMessages(request, body, found.pathRules)
  }
}

/** The audiences that a token for a captured request is for, if its rules have their own. */
export function audiencesAt (request: CapturedRequest, gate: GateSettings): readonly string[] | undefined {
  const found = findRule(request, gate)
  return 'pathRules' in found ? found.pathRules?.rules.find(({ requirement }) => requirement)?.audiences : undefined
}

function judgeMessages (
  request: CapturedRequest,
  body: string,
  { rules, matchMessage, list }: PathRules
): GateJudgement {
  const { rawHeaders } = readHeaders(request)
  // Who asks for credentials looks at them first.
  const isFirst = !rules.some(({ requirement }) => requirement)
  let messages: readonly McpMessage[]
  try {
    messages = readMcpMessages(readJson(Buffer.from(body), MESSAGE_BOUNDS), rawHeaders, list !== undefined)
  } catch (error) {
    if (!(error instanceof GateError)) throw error
    return { kind: 'refused', isFirst, refusal: unreadable(error.message) }
  }
  const requirements = new Set<Requirement>()
  const asked: AskedArgument[] = []
  for (const message of messages) {
    const match = matchMessage!(message)
    if (!match) {
      const name = [message.method ?? 'a response', message.name].filter(Boolean).join(' ')
      return { kind: 'refused', isFirst, refusal: noRule(`the message ${name}`) }
    }
    if (match.rule.requirement) requirements.add(match.rule.requirement)
    asked.push(...pickArguments(match.rule.mcp?.arguments ?? [], message.args))
  }
  return requirements.size === 0 ? { kind: 'open', asked } : { kind: 'guarded', requirements: [...requirements], asked }
}

/** What is wrong with the arguments of its calls, where nothing else is. @param claims of the token, if it is known */
export function judgeArguments (asked: readonly AskedArgument[], claims: JsonObject = {}): ToldRefusal | undefined {
  const unfit = asked.find(argument => !doesFit(argument, claims))
  return unfit && {
    ...ofGate,
    reason: 'argument_refused',
    status: 403,
    description: 'An argument of the call is not one that its rule allows.',
    meaning: `The rule of the tool asks for the argument ${unfit.rule.name}, and the call has another one or none.`,
    cause: 'The value differs, if only by a character or its type (7, "7"); or the token lacks the claim that it ' +
      'must be.',
    cure: 'Send an argument that fits. holdfast gate --explain POST PATH --mcp tools/call NAME says what the rule ' +
      'asks for.'
  }
}

const ofGate = { error: null, detail: undefined }

function noRule (what: string): ToldRefusal {
  return {
    ...ofGate,
    reason: 'no_rule',
    status: 404,
    description: 'No rule holds for the request.',
    meaning: `No rule of the gate is for ${what}, and nothing passes without one. A proxy that asks gets 403.`,
    cause: 'The rule is missing, is for other methods or messages, or its path is written in another way.',
    cure: 'Write the rule. holdfast gate --explain METHOD PATH says which rules there are, and why none holds.'
  }
}

function unreadable (description: string): ToldRefusal {
  return {
    ...ofGate,
    reason: 'message_refused',
    status: 400,
    description,
    meaning: 'The body of the request decides here, and it is no message that all programs read alike.',
    cause: 'The client sends another content type, or something else than one JSON-RPC message.',
    cure: 'Send one message of the Model Context Protocol as application/json, and headers that say the same.'
  }
}
