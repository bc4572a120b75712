import type { Admission, AdmissibleRequest } from '../guard/admission.ts'
import type { GuardedRequest } from '../guard/guard.ts'
import { ANY_TOKEN } from '../requirement/requirement.ts'
import type { Requirement } from '../requirement/requirement.ts'
import type { RequestUrl } from '../url/request-url.ts'
import { McpError, readMcpHeaders, readMcpMessages } from './mcp-message.ts'
import type { McpMatch } from './mcp-rules.ts'
import { createRules } from './rules.ts'
import type { GateRule } from './rule.ts'
import type { PathRules } from './rules.ts'

/** A request before the gate: the one that arrived, or the one that a proxy asks about. */
export interface GatedRequest extends GuardedRequest {
  /** Path and query, as the client sent them. */
  readonly target: string
  readonly url: RequestUrl
  readonly place: PathRules<GateRule>
}

/** A request does not pass, whoever sends it. The message is a fixed sentence. */
export class GateError extends Error {
  override readonly name = 'GateError'
  /** 400: its body cannot be judged. 403: the door at which it is asked about has no body. 404: no rule holds for a message in it. */
  readonly statusCode: 400 | 403 | 404

  constructor (statusCode: GateError['statusCode'], message: string) {
    super(message)
    this.statusCode = statusCode
  }
}

export interface ExecutorOptions<Request extends AdmissibleRequest> {
  readonly rules: readonly GateRule[]
  /** @param audience takes the place of the configured one */
  readonly admissionOf: (audience: string | undefined) => Admission<Request>
  /** Learns which rules hold for the messages of a request, one for each, before they are judged. */
  readonly onMatched: (request: Request, matches: ReadonlyArray<McpMatch<GateRule>>) => void
}

/** Reads the body of a request, at most once. Undefined at a door that has none. */
export type ReadBody = (() => Promise<Buffer>) | undefined

/** @param body what was read to be judged. Undefined if the body has no say, and has not been touched. */
export type JudgeDone = (error?: Error, body?: Buffer) => void

/** Decides for every door of the gate: which rules are asked, and whether the request meets them. The doors translate. */
export interface Executor<Request extends AdmissibleRequest> {
  /**
   * Finds the rules for a request. Undefined if there are none.
   * @throws Refusal target_path if the path can be read in two ways
   */
  enter (request: Omit<GatedRequest, 'place'>): GatedRequest | undefined
  /** Lets a request pass that meets its rules. `done` is called once: with a Refusal, a GateError, or what `readBody` rejects with. */
  judge (request: Request, gated: GatedRequest, readBody: ReadBody, done: JudgeDone): void
}

export function createExecutor<Request extends AdmissibleRequest> ({ rules, admissionOf, onMatched }: ExecutorOptions<Request>): Executor<Request> {
  const table = createRules(rules)
  /** Rules with the same audience share a guard. */
  const byAudience = new Map<string | undefined, Admission<Request>>()
  for (const { requirement, audience } of rules) if (requirement && !byAudience.has(audience)) byAudience.set(audience, admissionOf(audience))

  return {
    enter (request) {
      const place = table.choose(request.method, request.url.ownPath)
      return place && { ...request, place }
    },
    judge (request, gated, readBody, done) {
      const { rules: [rule], messages } = gated.place
      if (messages) judgeMessages(request, gated, readBody).then(body => done(undefined, body), done)
      else if (rule.requirement === undefined) done()
      else byAudience.get(rule.audience)!.admit(request, rule.requirement, done)
    }
  }

  /**
   * Credentials are looked at before the body, so that a stranger learns nothing of the rules. A path at which anyone may say something
   * is the exception: there the body says whether they are needed.
   */
  async function judgeMessages (request: Request, { message: { received }, place: { rules, messages } }: GatedRequest, readBody: ReadBody): Promise<Buffer> {
    if (!readBody) throw new GateError(403, 'The body of the request decides, and it is not part of this question.')
    const asking = rules.find(({ requirement }) => requirement)
    const admission = asking && byAudience.get(asking.audience)!
    const isOpen = rules.some(({ requirement }) => !requirement)
    // Each client begins with this message, so its rule says what a stranger is to ask for.
    const first = messages!.find({ method: 'initialize', name: undefined })?.rule.requirement ?? ANY_TOKEN
    if (!isOpen) await admission!.identify(request, first)
    let body: Buffer
    let matches: ReadonlyArray<McpMatch<GateRule>>
    try {
      body = await readBody()
      matches = matchAll(body)
    } catch (error) {
      if (isOpen && admission) await admission.identify(request, first)
      throw error
    }
    onMatched(request, matches)
    const requirements = [...new Set(matches.map(({ rule }) => rule.requirement))].filter((requirement): requirement is Requirement => requirement !== undefined)
    if (requirements.length === 0) return body
    if (isOpen) await admission!.identify(request, requirements[0]!)
    await admission!.judgeAll(request, requirements)
    return body

    function matchAll (body: Buffer): ReadonlyArray<McpMatch<GateRule>> {
      try {
        return readMcpMessages(body, readMcpHeaders(received.rawHeaders)).map(message => {
          const match = messages!.find(message)
          if (!match) throw new GateError(404, 'No rule holds for the message.')
          return match
        })
      } catch (error) {
        throw error instanceof McpError ? new GateError(400, error.message) : error
      }
    }
  }
}
