import { carriesCredentials, type Admission, type AdmissibleRequest } from '../guard/admission.ts'
import type { GuardedRequest } from '../guard/guard.ts'
import { enforce } from '../guard/observing.ts'
import { isJsonObject, type JsonObject } from '../base/json.ts'
import { ANY_TOKEN, type Requirement } from '../guard/requirement/requirement.ts'
import { plainWord, printable } from '../base/printable.ts'
import type { RefusalDetail } from '../refusal.ts'
import type { RequestUrl } from '../guard/url/request-url.ts'
import { doesFit, pickArguments, type AskedArgument } from './arguments.ts'
import { GateError } from './gate-error.ts'
import { MESSAGE_BOUNDS, readJson } from './json-text.ts'
import { isResponse, readHint, readMcpMessages, type McpMessage } from './mcp-message.ts'
import { createBodyTurns } from './message-body.ts'
import { FIRST_METHODS, TOOL_CALL, TOOL_LIST } from './mcp-methods.ts'
import { RPC_CODES } from './rpc-error.ts'
import { audienceKey, type GateRule } from './rule.ts'
import { createRules, NO_RULES, type McpMatch, type PathRules, type RulesOptions, type ToolList } from './rules.ts'
import type { ListCut } from './tool-list.ts'

/** A request before the gate: the one that arrived, or the one that a proxy asks about. */
export interface OriginalRequest extends GuardedRequest {
  /** Path and query, as the client sent them. */
  readonly target: string
  readonly url: RequestUrl
}

/** A request for which there are rules. */
interface GatedRequest extends OriginalRequest {
  readonly pathRules: PathRules
}

/** What the executor has found for a request. */
export interface Findings {
  gated: GatedRequest | null
  /** The rules for its messages of the Model Context Protocol, one for each. */
  mcpMatches: readonly McpMatch[] | null
  /**
   * The JSON of the request in the body, empty if it holds none: a batch, a response, or what could not be read. From
   * when the body is read on, answers are of the form that clients of that protocol understand.
   */
  mcpRequest: Buffer | null
  /** What is taken out of lists of tools in the answer. */
  listCut: ListCut | null
}

/** A request on its way through the gate. */
export type ExecutedRequest = AdmissibleRequest & Findings

/** The time limit of a request that has passed: that of its rule. Of several messages, the longest. */
export function timeoutSecondsOf (
  { gated, mcpMatches }: Pick<Findings, 'gated' | 'mcpMatches'>,
  ofGate: number
): number {
  const rules = mcpMatches?.map(({ rule }) => rule) ?? [gated!.pathRules.rules[0]]
  return rules.reduce((longest, { timeoutSeconds = ofGate }) => Math.max(longest, timeoutSeconds), 0)
}

interface ExecutorOptions<Request extends ExecutedRequest> extends RulesOptions {
  readonly rules: readonly GateRule[]
  /** @param audiences take the place of the configured ones */
  readonly admissionOf: (audiences: readonly string[] | undefined) => Admission<Request>
  /** Called for each request whose messages decide, when they have been judged. */
  readonly onMessagesJudged: (request: Request, hasPassed: boolean) => void
  /** Whether refusals of this request are only observed. */
  readonly isObserved: (request: Request) => boolean
  /** Lets a request that the gate refuses pass as anonymous. */
  readonly passRefused: (request: Request, error: GateError) => void
}

/** What differs from door to door. */
export interface Door {
  /**
   * Reads the request.
   * @throws Refusal, GateError
   */
  readonly readOriginal: () => OriginalRequest
  /** Reads its body, at most once. Absent if the door has none. */
  readonly readBody: (() => Promise<Buffer>) | undefined
}

/** @param body what was read to be judged, or undefined if the body has no say: then it has not been read. */
type ExecutorDone = (error?: Error, body?: Buffer) => void

/**
 * Decides for every door of the gate: which rules hold for a request, and whether it meets them. The doors translate.
 * `done` is called once: with a Refusal, a GateError, or what the door throws.
 */
type Executor<Request extends ExecutedRequest> = (request: Request, door: Door, done: ExecutorDone) => void

export function createExecutor<Request extends ExecutedRequest> (
  { rules, exactPaths, admissionOf, onMessagesJudged, isObserved, passRefused }: ExecutorOptions<Request>
): Executor<Request> {
  const turnOf = createBodyTurns()
  const table = createRules(rules, { exactPaths })
  const admissions = new Map<GateRule, Admission<Request>>()
  for (const rule of rules) {
    if (!rule.requirement) continue
    // Rules with the same audiences share a guard.
    const sharer = [...admissions.keys()].find(other => audienceKey(other) === audienceKey(rule))
    admissions.set(rule, sharer ? admissions.get(sharer)! : admissionOf(rule.audiences))
  }

  return (request, { readOriginal, readBody }, done) => {
    let gated: GatedRequest
    let original: OriginalRequest | undefined
    try {
      original = readOriginal()
      const { message, method, target, url } = original
      const pathRules = table.choose(method, url.ownPath)
      if (!pathRules) {
        const detail = detailOf({ method, url })
        const error = new GateError(404, 'No rule holds for the original request.', { detail })
        if (!isObserved(request) || table.isNearEnforced(method, url.ownPath)) throw error
        passRefused(request, error)
      }
      gated = request.gated = { message, method, target, url, pathRules: pathRules ?? NO_RULES }
    } catch (error) {
      // Its record names the method of the client, not that of a proxy that asks.
      if (original) request.gated = { ...original, pathRules: NO_RULES }
      return done(error as Error)
    }
    const { rules: [rule], matchMessage } = gated.pathRules
    enforce(request, isEnforced(gated.pathRules.rules))
    if (matchMessage) return judgeMessages(request, gated, readBody).then(body => judged(undefined, body), judged)
    if (!isObserved(request)) request.listCut = cutFor(request, table.listOfStream(gated.method, gated.url.ownPath))
    if (rule.requirement === undefined) done()
    else admissions.get(rule)!.admit(request, rule.requirement, done)

    function judged (error?: Error, body?: Buffer) {
      onMessagesJudged(request, error === undefined)
      done(error, body)
    }
  }

  /**
   * Credentials are looked at before the body, so that a client without them learns nothing of the rules. A path at
   * which anyone may say something is the exception: there the body says whether they are needed. So is one with rules
   * that are enforced beside others that are only observed: the body says which of them hold.
   */
  async function judgeMessages (
    request: Request,
    { message, pathRules }: GatedRequest,
    readBody: Door['readBody']
  ) {
    if (!readBody) {
      throw new GateError(403, 'The body of the request decides, and it is not part of this authorization request.')
    }
    const isGuest = !carriesCredentials(message)
    const asks = ({ requirement }: GateRule) => requirement !== undefined && !(isGuest && requirement.optional)
    const asking = pathRules.rules.find(asks)
    const admission = asking && admissions.get(asking)!
    const isMixed = isObserved(request) && pathRules.rules.some(({ observe }) => !observe)
    const isOpen = isMixed || !pathRules.rules.every(asks)
    const { rawHeaders } = message.received
    const hint = () => hintFor(pathRules, rawHeaders)
    if (!isOpen && !await admission!.identify(request, hint)) return undefined
    request.mcpRequest = NONE
    let body: Buffer
    let matches: readonly McpMatch[]
    let asked: readonly AskedArgument[]
    try {
      body = await readBody()
      await turnOf(body)
      const found = findRules(request, pathRules, body, rawHeaders)
      if (found.ruled.some(({ rule }) => !rule.observe)) enforce(request, true)
      if (found.error) throw found.error
      matches = request.mcpMatches = found.ruled
      asked = found.asked
    } catch (error) {
      // It is refused whoever asks: that is one decision, and no second one about credentials.
      if ((error as Partial<GateError>).reason !== 'no_rule' && isObserved(request)) throw error
      const isNobody = isOpen && admission && !await admission.identify(request, hint)
      if (!isObserved(request)) throw error
      if (!isNobody) passRefused(request, error as GateError)
      return body!
    }
    if (!isObserved(request) && matches.some(({ method }) => method === TOOL_LIST)) {
      request.listCut = cutFor(request, pathRules.list)
    }
    const fits = (claims: JsonObject) => verifyArguments(request, asked, claims)
    const requirements = [...new Set(matches.flatMap(({ rule }) => asks(rule) ? rule.requirement! : []))]
    if (requirements.length > 0) {
      if (isOpen && !await admission!.identify(request, () => requirements[0]!)) return body
      await admission!.judgeAll(request, requirements, fits)
    } else fits({})
    return body
  }

  /**
   * Whether the arguments of its calls are what the rules ask for. False if the request passes all the same.
   * @throws GateError 403
   */
  function verifyArguments (request: Request, asked: readonly AskedArgument[], claims: JsonObject) {
    const unfit = asked.find(argument => !doesFit(argument, claims))
    if (!unfit) return true
    const error = new GateError(403, 'An argument of the call is not one that its rule allows.', {
      reason: 'argument_refused',
      rpcCode: RPC_CODES.refused,
      headers: { 'cache-control': 'no-store' },
      detail: { argument: unfit.rule.name }
    })
    if (!isObserved(request)) throw error
    passRefused(request, error)
    return false
  }

  /** A caller that the guard of a rule has not identified may call no tool of it, unless the rule needs no caller. */
  function cutFor (request: Request, list: ToolList | undefined): ListCut | null {
    if (!list) return null
    const { ruleOf, isOfCaller } = list
    const mayCall = (rule: GateRule) =>
      rule.requirement === undefined || admissions.get(rule)!.meets(request, rule.requirement)
    return {
      isOfCaller,
      isShown: name => {
        const rule = ruleOf(name)
        return rule !== undefined && (!isOfCaller || mayCall(rule))
      }
    }
  }
}

const NONE = Buffer.alloc(0)

const isEnforced = (rules: readonly GateRule[]) => rules.every(({ observe }) => !observe)

/**
 * Finds the rule for each message of a body. What the JSON holds takes several times the memory of its bytes, and is
 * not kept for longer. `error` is that of the first message without a rule.
 * @throws GateError 400
 */
function findRules (
  request: Findings,
  { matchMessage, list }: PathRules,
  body: Buffer,
  rawHeaders: readonly string[]
) {
  const read = readJson(body, MESSAGE_BOUNDS)
  const { json } = read
  if (isJsonObject(json) && (Object.hasOwn(json, 'method') || !isResponse(json))) request.mcpRequest = body
  const ruled: McpMatch[] = []
  const asked: AskedArgument[] = []
  let error: GateError | undefined
  for (const message of readMcpMessages(read, rawHeaders, list !== undefined)) {
    const match = matchMessage!(message)
    if (match) {
      ruled.push(match)
      asked.push(...pickArguments(match.rule.mcp?.arguments ?? [], message.args))
    } else error ??= unruledMessage(message, request.gated!)
  }
  return { ruled, asked, error }
}

function unruledMessage (message: McpMessage, request: OriginalRequest): GateError {
  const detail = detailOf(request, message)
  if (message.name === undefined) {
    const rpcCode = RPC_CODES.methodNotFound
    return new GateError(404, 'No rule holds for the method of the message.', { rpcCode, detail })
  }
  return new GateError(404, 'No rule holds for what the message names.', { rpcCode: RPC_CODES.invalidParams, detail })
}

/** What lacks a rule, for the log: of a message only plain words. */
function detailOf ({ method, url }: Pick<OriginalRequest, 'method' | 'url'>, message?: McpMessage): RefusalDetail {
  const called = plainWord(message?.method)
  const tool = called === TOOL_CALL ? plainWord(message!.name) : undefined
  return {
    method,
    path: printable(url.ownPath.replace(/[^\w./~%-]/g, encodeURIComponent)),
    ...called !== undefined && { mcp: tool === undefined ? called : `${called} ${tool}` }
  }
}

/**
 * What a client without credentials is to ask for: what its headers name, else what each client begins with. The
 * headers never decide.
 */
function hintFor ({ matchMessage }: PathRules, rawHeaders: readonly string[]): Requirement {
  const begins = FIRST_METHODS.map(method => ({ method, name: undefined }))
  const matches = [readHint(rawHeaders), ...begins].map(hint =>
    hint.method === undefined ? undefined : matchMessage!(hint)
  )
  return matches.find(match => match?.rule.requirement)?.rule.requirement ?? ANY_TOKEN
}
