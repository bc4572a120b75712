import type { Admission, AdmissibleRequest } from '../guard/admission.ts'
import type { GuardedRequest } from '../guard/guard.ts'
import { ANY_TOKEN } from '../requirement/requirement.ts'
import type { RequestUrl } from '../url/request-url.ts'
import { GateError } from './gate-error.ts'
import { readMcpMessages } from './mcp-message.ts'
import type { GateRule } from './rule.ts'
import { createRules } from './rules.ts'
import type { McpMatch, PathRules, RulesOptions } from './rules.ts'

/** A request before the gate: the one that arrived, or the one that a proxy asks about. */
export interface OriginalRequest extends GuardedRequest {
  /** Path and query, as the client sent them. */
  readonly target: string
  readonly url: RequestUrl
}

/** A request for which there are rules. */
export interface GatedRequest extends OriginalRequest {
  readonly place: PathRules
}

/** A request on its way through the gate, and what the executor has found for it. */
export interface ExecutedRequest extends AdmissibleRequest {
  gated: GatedRequest | null
  /** The rules for its messages of the Model Context Protocol, one for each. */
  mcpMatches: readonly McpMatch[] | null
}

/** The time limit of a request that has passed: that of its rule. Of several messages, the longest. */
export function timeoutSecondsOf ({ gated, mcpMatches }: Pick<ExecutedRequest, 'gated' | 'mcpMatches'>, ofGate: number): number {
  const rules = mcpMatches?.map(({ rule }) => rule) ?? [gated!.place.rules[0]]
  return rules.reduce((longest, { timeoutSeconds = ofGate }) => Math.max(longest, timeoutSeconds), 0)
}

export interface ExecutorOptions<Request extends ExecutedRequest> extends RulesOptions {
  readonly rules: readonly GateRule[]
  /** @param audience takes the place of the configured one */
  readonly admissionOf: (audience: string | undefined) => Admission<Request>
  /** Called for each request whose messages decide, when they have been judged. */
  readonly onMessagesJudged: (request: Request, gated: GatedRequest, hasPassed: boolean) => void
}

/** What differs from door to door. */
export interface Door {
  /**
   * Reads the request.
   * @throws Refusal, GateError
   */
  readonly readOriginal: () => OriginalRequest
  /** Reads its body, at most once. Undefined if the door has none. */
  readonly readBody: (() => Promise<Buffer>) | undefined
}

/** @param body what was read to be judged. Undefined if the body has no say: then it has not been read. */
export type ExecutorDone = (error?: Error, body?: Buffer) => void

/**
 * Decides for every door of the gate: which rules hold for a request, and whether it meets them. The doors translate.
 * `done` is called once: with a Refusal, a GateError, or what the door throws.
 */
export type Executor<Request extends ExecutedRequest> = (request: Request, door: Door, done: ExecutorDone) => void

export function createExecutor<Request extends ExecutedRequest> ({ rules, exactPaths, admissionOf, onMessagesJudged }: ExecutorOptions<Request>): Executor<Request> {
  const table = createRules(rules, { exactPaths })
  /** Rules with the same audience share a guard. */
  const byAudience = new Map<string | undefined, Admission<Request>>()
  for (const { requirement, audience } of rules) if (requirement && !byAudience.has(audience)) byAudience.set(audience, admissionOf(audience))

  return (request, { readOriginal, readBody }, done) => {
    let gated: GatedRequest
    try {
      const original = readOriginal()
      const place = table.choose(original.method, original.url.ownPath)
      if (!place) throw new GateError(404, 'No rule holds for the original request.')
      gated = request.gated = { ...original, place }
    } catch (error) {
      return done(error as Error)
    }
    const { rules: [rule], matchMessage } = gated.place
    if (matchMessage) judgeMessages(request, gated, readBody).then(body => judged(undefined, body), judged)
    else if (rule.requirement === undefined) done()
    else byAudience.get(rule.audience)!.admit(request, rule.requirement, done)

    function judged (error?: Error, body?: Buffer): void {
      onMessagesJudged(request, gated, error === undefined)
      done(error, body)
    }
  }

  /**
   * Credentials are looked at before the body, so that a stranger learns nothing of the rules. A path at which anyone may say something
   * is the exception: there the body says whether they are needed.
   */
  async function judgeMessages (request: Request, { message, place: { rules, matchMessage } }: GatedRequest, readBody: Door['readBody']): Promise<Buffer> {
    if (!readBody) throw new GateError(403, 'The body of the request decides, and it is not part of this authorization request.')
    const asking = rules.find(({ requirement }) => requirement)
    const admission = asking && byAudience.get(asking.audience)!
    const isOpen = rules.some(({ requirement }) => !requirement)
    // Each client begins with this message, so its rule says what a stranger is to ask for.
    const first = matchMessage!({ method: 'initialize', name: undefined })?.rule.requirement ?? ANY_TOKEN
    if (!isOpen) await admission!.identify(request, first)
    let body: Buffer
    try {
      body = await readBody()
      request.mcpMatches = readMcpMessages(body, message.received.rawHeaders).map(message => {
        const match = matchMessage!(message)
        if (!match) throw new GateError(404, 'No rule holds for the message.')
        return match
      })
    } catch (error) {
      if (isOpen && admission) await admission.identify(request, first)
      throw error
    }
    const requirements = [...new Set(request.mcpMatches.map(({ rule }) => rule.requirement))].filter(requirement => requirement !== undefined)
    if (requirements.length === 0) return body
    if (isOpen) await admission!.identify(request, requirements[0]!)
    await admission!.judgeAll(request, requirements)
    return body
  }
}
