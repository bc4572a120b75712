import { NODE_CRYPTO } from '../../lib/assembly/jwt-tools.ts'
import { readiness } from '../../lib/assembly/readiness.ts'
import { describeResource, resourceWarning } from '../../lib/assembly/resource-metadata.ts'
import { createAdmission, nextNonceOf } from '../../lib/guard/admission.ts'
import { createDecisions } from '../../lib/guard/decisions.ts'
import type { Observed } from '../../lib/guard/observing.ts'
import { createRefuser, type RefusableRequest } from '../../lib/guard/refuser.ts'
import type { RequestAuth } from '../../lib/guard/request-auth.ts'
import { readMessage, receivedFrom, type ReceivedRequest } from '../../lib/guard/message.ts'
import { Refusal, refusalBodies, type RefusalReason } from '../../lib/refusal.ts'
import { ANY_TOKEN, parseRequirement, type RequirementOptions } from '../../lib/guard/requirement/requirement.ts'
import type { HoldfastOptions } from '../../lib/settings/option-types.ts'
import { ownOptions } from '../../lib/settings/options.ts'
import { SettingsError } from '../../lib/base/settings-error.ts'
import { readPluginSettings } from '../../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../../lib/guard/token/access-token-claims.ts'
import { createBaseUrlResolver } from '../../lib/guard/url/base-url.ts'
import { openAudit } from '../../plugins/audit/audit.ts'
import { NO_STORE } from '../../plugins/auth/refusal-headers.ts'
import { createRequestIds } from '../../server/request-ids.ts'
import { runGuard } from '../../server/running-guard.ts'
import { checkRuntime } from '../../server/runtime.ts'
import { kTestDoubles, processSurroundings, type MayHaveTestDoubles } from '../../server/surroundings.ts'
import { receivedOf, type CheckOptions, type FetchRequest, type NodeRequest } from './guard-request.ts'

export * from '../../lib/guard/token/access-token-claims.ts'
export { SettingsError } from '../../lib/base/settings-error.ts'
export type { CheckOptions, FetchRequest, NodeRequest, Observed, RefusalReason, RequestAuth, RequirementOptions }

/** A log with these methods of pino. `console` has them, too. */
export interface GuardLogger {
  /** Writes what happens all the time: a line for each refusal. */
  readonly info: (fields: object, sentence: string) => void
  /** Writes what an operator should look at: an object and a sentence, or only the sentence. */
  readonly warn: (fields: object | string, sentence?: string) => void
  /** Is not used yet. */
  readonly error: (fields: object, sentence: string) => void
  /** Is not used yet. */
  readonly debug: (fields: object, sentence: string) => void
}

/** What `createGuard` takes beside the options of the plugin. */
export interface GuardOptions {
  /** Where log lines go. Without it, warnings go to `console.warn`. */
  readonly logger?: GuardLogger
  /** The scopes that the routes ask for, for `metadata`. */
  readonly scopes?: readonly string[]
  /** Names the route of a request, for the log and the record of decisions: a pattern, never a path that was sent. */
  readonly route?: string | ((request: NodeRequest | FetchRequest) => string | undefined)
}

/** The request may go on. */
export interface AdmittedRequest {
  /** Tells it from a refused one. */
  readonly admitted: true
  /** The verified claims. Null for a request without credentials, if they are optional, and for one only observed. */
  readonly user: AccessTokenClaims | null
  /** How the request proved its sender. Null beside a `user` that is null. */
  readonly auth: RequestAuth | null
  /** Headers for the answer, with names in lower case: a newer nonce, or none. */
  readonly headers: Readonly<Record<string, string>>
  /** What would have been answered, while refusals are only observed. */
  readonly observed?: Observed
}

/** The request is to be answered with this. */
export interface RefusedRequest {
  /** Tells it from an admitted one. */
  readonly admitted: false
  /** The status of the answer. */
  readonly status: number
  /** Why: a stable word. */
  readonly reason: RefusalReason
  /** Headers of the answer, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** JSON. */
  readonly body: string
}

/** What a probe is answered with. */
export interface Readiness {
  /** 200 if the guard can decide. */
  readonly status: 200 | 503
  /** Each check by its name. To be sent as JSON. */
  readonly body: object
}

/** A guard without a framework. */
export interface RequestGuard {
  /**
   * Judges a request. What a client sends never makes it reject. However often one request is checked, its token and
   * proof are judged once.
   * @throws TypeError for a requirement or an option of the wrong type; Error after `close`, or if a predicate throws
   * @example const verdict = await guard.check(req, { scope: 'read:orders' })
   */
  check (
    request: NodeRequest | FetchRequest,
    requirement?: RequirementOptions,
    options?: CheckOptions
  ): Promise<AdmittedRequest | RefusedRequest>
  /**
   * Whether the guard can decide about tokens and proofs, as the answer to a probe.
   * @example const { status, body } = await guard.ready()
   */
  ready (): Promise<Readiness>
  /**
   * The metadata of the protected resource (RFC 9728), to be served as JSON under
   * `/.well-known/oauth-protected-resource`.
   * @throws Error with the status 400 if the request does not say under which address it reached the service
   * @example res.end(JSON.stringify(guard.metadata(req)))
   */
  metadata (request: NodeRequest | FetchRequest, options?: CheckOptions): object
  /**
   * Ends all that the guard keeps open.
   * @example await guard.close()
   */
  close (): Promise<void>
}

/** A request under judgement. */
interface Call extends RefusableRequest {
  readonly id: string
  readonly route: string | undefined
}

const NO_LOGGER: GuardLogger = {
  info () {},
  warn: (...line) => console.warn(...line),
  error () {},
  debug () {}
}

/**
 * Makes the guard without Fastify: for node:http, and for each framework that has its requests or those of the Fetch
 * standard.
 * @param given those of the plugin, and those of GuardOptions
 * @throws SettingsError
 * @example
 * const guard = await createGuard({ idp: { domain: 'tenant.example', audience: 'https://api.example' } })
 * const verdict = await guard.check(req, { scope: 'read:orders' })
 * if (!verdict.admitted) return res.writeHead(verdict.status, verdict.headers).end(verdict.body)
 */
export async function createGuard (given: HoldfastOptions & GuardOptions): Promise<RequestGuard> {
  checkRuntime(process.versions)
  const { logger: log = NO_LOGGER, scopes = [], route, ...options }: typeof given = ownOptions(given)
  verifyOwnOptions({ logger: log, scopes, route })
  const read = await readPluginSettings({}, options, processSurroundings)
  if (read.settings.audit?.to === 'log' && log === NO_LOGGER) {
    throw new SettingsError(['AUDIT (audit) is "log", and there is no logger: no line would be written'])
  }
  const { settings, parts, surroundings: { now }, close } = await runGuard(
    read,
    {
      log,
      doubles: (options as MayHaveTestDoubles)[kTestDoubles],
      jwtTools: NODE_CRYPTO,
      metadataMount: undefined
    }
  )
  const decisions = createDecisions<Call>(({ raw, route }) => ({ method: raw.method!, route, call: undefined }))
  const audit = settings.audit && await openAudit(settings.audit, {
    log,
    decisions,
    originOf: ({ id, raw }) => ({ id, ip: parts.addressOf(raw) })
  }).catch(async error => {
    // A start that fails leaves nothing open.
    await close()
    throw error
  })
  const { admitOnce } = createAdmission<Call>({
    ...parts,
    decisions,
    refuse: createRefuser({ ...parts, decisions, now, challenges: parts.challengesFor() })
  })
  const bodies = refusalBodies(settings.api.errorBody)
  const baseUrlOf = createBaseUrlResolver(settings.server)
  let warning = resourceWarning(settings, '')
  const idOf = createRequestIds(settings.server.trustProxy)
  /** Each request that was checked: its proof passes only once. */
  const calls = new WeakMap<object, Call>()
  let closed: Promise<unknown> | undefined
  parts.start()

  function callOf (request: NodeRequest | FetchRequest, options: CheckOptions | undefined): Call {
    const raw = receivedOf(request, options)
    const known = calls.get(request)
    if (known) return known
    const id = idOf(raw)
    const call: Call = {
      raw,
      id,
      route: typeof route === 'function' ? route(request) : route,
      log: { info: (fields, sentence) => log.info({ reqId: id, ...fields }, sentence) },
      user: null,
      auth: null,
      observed: null
    }
    calls.set(request, call)
    if (audit) audit.meet(call)
    return call
  }

  return {
    async check (request, requirement, options) {
      if (closed) throw new Error('The guard is closed: it judges no more requests')
      const asked = requirement === undefined ? ANY_TOKEN : parseRequirement(requirement)
      const call = callOf(request, options)
      try {
        await admitOnce(call, asked)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const { status, reason, headers } = error
        return {
          admitted: false,
          status,
          reason,
          headers: { ...JSON_UTF8, ...NO_STORE, ...headers, ...nonceFor(call) },
          body: bodies[reason]
        }
      }
      const { user, auth, observed } = call
      return { admitted: true, user, auth, headers: nonceFor(call), ...observed && { observed } }
    },
    ready: async () => readiness(parts, { isClosing: closed !== undefined, audit }),
    metadata (request, options) {
      if (warning !== undefined) log.warn(warning)
      warning = undefined
      const { resource_documentation: _none, ...metadata } = describeResource(
        baseOf(receivedOf(request, options)),
        [...scopes].sort(),
        settings
      )
      return metadata
    },
    async close () {
      closed ??= Promise.all([close(), audit?.close()])
      await closed
    }
  }

  function baseOf (received: ReceivedRequest) {
    try {
      return baseUrlOf(readMessage(receivedFrom(received)))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      // No credentials were asked for here.
      throw Object.assign(new Error(error.message), { status: 400, statusCode: 400, expose: true })
    }
  }
}

const JSON_UTF8 = { 'content-type': 'application/json; charset=utf-8' }

function nonceFor (call: Call): Readonly<Record<string, string>> {
  const nonce = nextNonceOf(call)
  return nonce === undefined ? {} : { 'dpop-nonce': nonce }
}

/** @throws SettingsError */
function verifyOwnOptions ({ logger, scopes, route }: GuardOptions): void {
  const problems: string[] = []
  if (!['info', 'warn', 'error', 'debug'].every(name => typeof logger?.[name as 'info'] === 'function')) {
    problems.push('logger: expected an object with the methods debug, info, warn and error')
  }
  if (!Array.isArray(scopes) || !scopes.every(scope => typeof scope === 'string')) {
    problems.push('scopes: expected a list of scopes')
  }
  if (!['undefined', 'string', 'function'].includes(typeof route)) {
    problems.push('route: expected the pattern of a route, or a function that returns one')
  }
  if (problems.length > 0) throw new SettingsError(problems)
}
