import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { createAdmission, nextNonceOf, verifiedTokenOf } from '../lib/guard/admission.ts'
import type { Admission } from '../lib/guard/admission.ts'
import type { Decisions } from '../lib/guard/decisions.ts'
import type { GuardState } from '../lib/metrics/catalog.ts'
import type { GuardTally } from '../lib/metrics/tallies.ts'
import type { Challenges } from '../lib/guard/challenge.ts'
import type { GuardedRequest } from '../lib/guard/guard.ts'
import type { RequestAuth } from '../lib/guard/request-auth.ts'
import { createGuardParts } from '../lib/assembly/create-guard.ts'
import { describeEvent } from '../lib/assembly/guard-events.ts'
import type { GuardEvent } from '../lib/assembly/guard-events.ts'
import { kJwtTools } from '../lib/assembly/jwt-tools.ts'
import type { MayHaveJwtTools } from '../lib/assembly/jwt-tools.ts'
import type { RevocationParts } from '../lib/assembly/create-revocation.ts'
import { ANY_TOKEN, parseRequiredScopes, parseRequirement } from '../lib/requirement/requirement.ts'
import type { RequiredScopes, Requirement, RequirementOptions } from '../lib/requirement/requirement.ts'
import { kRouteGuard } from '../lib/requirement/route-guard.ts'
import type { MayHaveGuard } from '../lib/requirement/route-guard.ts'
import { Refusal } from '../lib/refusal.ts'
import { schemeOf } from '../lib/credentials.ts'
import { isUserOfPassport } from '../server/request-user.ts'
import { checkRuntime } from '../server/runtime.ts'
import { putRefusalHeaders } from '../server/refusal-headers.ts'
import { kTestDoubles, processSurroundings } from '../server/surroundings.ts'
import type { MayHaveTestDoubles } from '../server/surroundings.ts'
import { NO_TLS_SOCKET, SettingsError } from '../lib/settings/problems.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { HoldfastOptions, IssuerLookup } from '../lib/settings/option-types.ts'
import { ownOptions, settingsFromOptions, takeIssuerLookup, withTrustOf } from '../lib/settings/options.ts'
import type { AppFunctions } from '../lib/settings/options.ts'
import { replayPromise, reportStart, startWarnings } from '../lib/settings/start-report.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../lib/token/access-token-claims.ts'

export type { AccessTokenClaims, IssuerLookup, RequestAuth, Requirement, RequirementOptions }

/**
 * A guard of a route: a hook for onRequest, or for a later phase before the handler. It says nothing of the kind of
 * server, logger or schema, so it fits into every app.
 */
export interface GuardHook {
  (request: { readonly raw: object }, reply: object, done: (error?: Error) => void): void
  /** What the route asks for, for the API description. */
  readonly requirement: Requirement
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Makes the guard that lets a request pass if it carries a valid access token, and a valid proof if the token is
     * bound. `authenticate` is also such a guard itself, but it is safer to call it: before this plugin has loaded, the
     * call throws, while the bare name is undefined, and an undefined hook leaves the route open.
     * @example app.get('/me', { onRequest: app.authenticate() }, request => request.user.sub)
     */
    authenticate: GuardHook & (() => GuardHook)
    /**
     * Makes the same guard, and the token must also meet all that is given: `scope`, `anyScope`, `claims`, `acr`,
     * `maxAgeSeconds`, `authorizationDetails`. With `optional`, a request without credentials passes too;
     * `request.auth` is then null.
     * @example
     * const onRequest = app.require({ scope: 'pay', maxAgeSeconds: 300 })
     * app.post('/payments', { onRequest }, request => request.user.sub)
     */
    require (requirement: RequirementOptions): GuardHook
    /**
     * Short for `require({ scope: [...] })`, or with `{ any: [...] }` for `require({ anyScope: [...] })`.
     * @example
     * const onRequest = app.requireScope({ any: ['read:orders', 'admin'] })
     * app.get('/orders', { onRequest }, request => request.user.sub)
     */
    requireScope (...scopes: RequiredScopes): GuardHook
    /**
     * Makes a guard for the rules of a gate.
     * @param guarded the request that is judged, such as that of the client in forward auth
     * @param audience replaces the configured one
     * @internal
     */
    admissionOf (
      guarded: (request: FastifyRequest) => GuardedRequest,
      audience: string | undefined
    ): Admission<FastifyRequest>
    /** The settings that the guard was built from. @internal */
    guardSettings: Settings
    /** The state of the parts behind the guard, for health and metrics. @internal */
    guardState: GuardState
    /** Counts what the guard does. Undefined if metrics are off. @internal */
    guardTally: GuardTally | undefined
    /** Where each decision of the guard is known. @internal */
    guardDecisions: Decisions<FastifyRequest>
    /** Receives revocations. Undefined if nothing can be revoked. @internal */
    guardRevocation: RevocationParts | undefined
  }
  interface FastifyRequest {
    /**
     * How the request proved its sender. Null until its token and proof have passed, and if they are refused. `user` is
     * then null too.
     */
    auth: RequestAuth | null
    /**
     * Does in a handler what the guard `app.authenticate()` does before it. Rejects with a `Refusal`. However often a
     * handler asks, token and proof are checked once.
     * @example
     * app.get('/me', async request => {
     *   await request.authenticate()
     *   return request.user.sub
     * })
     */
    authenticate (): Promise<void>
    /**
     * Does in a handler what the guard `app.require(requirement)` does before it. Rejects with a `Refusal`.
     * @example await request.require({ claims: { 'realm_access.roles': 'editor' } })
     */
    require (requirement: RequirementOptions): Promise<void>
    /**
     * Short for `require({ scope: [...] })`, or with `{ any: [...] }` for `require({ anyScope: [...] })`.
     * @example if (request.method === 'DELETE') await request.requireScope('admin')
     */
    requireScope (...scopes: RequiredScopes): Promise<void>
    /** @internal */
    [kReply]: FastifyReply | null
  }
}

/**
 * Gives `request.user` its type. An app may declare that member itself, or its @fastify/jwt does. Two declarations of
 * one member must be equal, but a member may replace an inherited one. So this one is inherited, and it gives way to
 * any type as soon as the member is no longer read-only, which means that it is the app's.
 */
export interface DefaultUser {
  /** The verified claims of the access token. Null until token and proof have passed. */
  readonly user: IsSame<Pick<{ [Member in keyof FastifyRequest]: Member }, 'user'>, ReadOnlyUser> extends true
    ? AccessTokenClaims
    : unknown
}

interface ReadOnlyUser {
  readonly user: 'user'
}
type IsSame<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false

declare module 'fastify' {
  interface FastifyRequest extends DefaultUser {}
}

/**
 * An @fastify/jwt of the app declares `request.user` by this member. Most apps have none.
 * @ts-ignore */
declare module '@fastify/jwt' {
  /** As above. */
  interface DefaultJwtUser {
    /** The verified claims of the access token. */
    readonly user: IsSame<Pick<{ [Member in keyof FastifyJWT]: Member }, 'user'>, ReadOnlyUser> extends true
      ? AccessTokenClaims
      : unknown
  }
  interface FastifyJWT extends DefaultJwtUser {}
}

const kReply = Symbol('holdfast.reply')

const WARM_UP_DELAY_MS = 10

const AWAITED =
  'A guard of the app was awaited, and that checks no request. Name the guard in the route, as { onRequest: ' +
  'app.authenticate() }, or in a handler await request.authenticate()'

const TWICE = 'Holdfast is registered already, in this scope or around it. Register each one in a scope of its own: ' +
  'app.register(async scope => { await scope.register(holdfast, options) })'

export default fp<HoldfastOptions>(async (app, options) => {
  if (app.hasDecorator('guardState')) throw new Error(TWICE)
  checkRuntime(process.versions)
  const given = settingsOf(app, options)
  const { settings, ...functions }: OwnSettings = given ? { settings: given } : await readOwnSettings(app, options)
  // Secure servers of HTTP/1.1 and of HTTP/2 are both TLS servers.
  if (settings.server.clientCertificate === 'socket' && !((app.server as unknown) instanceof TlsServer)) {
    throw new SettingsError([NO_TLS_SOCKET])
  }
  logStart(app, settings, functions.lookUpIssuer !== undefined)
  const doubles = (options as MayHaveTestDoubles)[kTestDoubles] ?? (app as MayHaveTestDoubles)[kTestDoubles]
  if (doubles) app.log.warn('The keys and the clock are those of a test issuer: only for tests')
  const surroundings = doubles?.surroundings ?? processSurroundings
  const certificates = settings.server.clientCertificate === 'off' ? doubles?.readCertificate : undefined
  const guardSettings = certificates
    ? { ...settings, server: { ...settings.server, clientCertificate: 'client-cert' as const } }
    : settings
  const parts = await createGuardParts(guardSettings, {
    surroundings,
    jwtTools: (app as MayHaveJwtTools)[kJwtTools],
    transport: doubles?.transport,
    readCertificate: certificates,
    ...functions,
    onEvent: event => logEvent(app, event),
    metadataMount: given && app.prefix,
    mount: app.prefix
  })
  const {
    guard,
    guardFor,
    judge,
    signals,
    challengesFor,
    tally,
    nonces,
    revocation,
    issuers,
    replay,
    verified,
    clientKeys
  } = parts
  // Without revocation nothing ends by itself.
  const onAdmitted = revocation && ((request: FastifyRequest): void => app.endWithToken!(request))
  const decisions: Decisions<FastifyRequest> = {
    listener: undefined,
    routeOf: ({ method, routeOptions: { url: route } }) => ({ method, route, call: undefined })
  }
  const refuse = refuser(challengesFor())
  const { admit, admitOnce } = createAdmission<FastifyRequest>({ guard, judge, signals, decisions, refuse, onAdmitted })
  app.decorate('guardDecisions', decisions)
  app.decorate('guardSettings', guardSettings)
  app.decorate('guardState', { issuers, replay, verified, clientKeys, revocation })
  app.decorate('guardTally', tally)
  app.decorate('guardRevocation', revocation)
  app.decorate('admissionOf', (guarded, audience) =>
    audience === undefined
      ? createAdmission({ guard, judge, signals, decisions, refuse, guarded })
      : createAdmission({
        guard: guardFor(audience),
        judge,
        signals,
        decisions,
        refuse: refuser(challengesFor(audience)),
        guarded
      }))

  app.decorateRequest(kReply, null)
  // A guard in a handler has no reply at hand.
  app.addHook('onRequest', (request, reply, done) => {
    request[kReply] = reply
    done()
  })
  if (isUserOfPassport(app)) keepUser(app)
  if (!app.hasRequestDecorator('user')) app.decorateRequest('user', null as unknown as AccessTokenClaims)
  app.decorateRequest('auth', null)
  app.decorateRequest('authenticate', function () {
    return admitOnce(this, ANY_TOKEN)
  })
  app.decorateRequest('require', function (options) {
    return admitOnce(this, parseRequirement(options))
  })
  app.decorateRequest('requireScope', function (...scopes) {
    return admitOnce(this, parseRequiredScopes(...scopes))
  })

  const anyToken = guardHook(ANY_TOKEN)
  app.decorate(
    'authenticate',
    asGuard(function (...args: unknown[]) {
      if (args.length === 0) return anyToken
      if (typeof args[2] !== 'function') {
        throw new TypeError('authenticate takes no arguments; require and requireScope say what a token needs')
      }
      return Reflect.apply(anyToken, app, args)
    }, ANY_TOKEN) as FastifyInstance['authenticate']
  )
  app.decorate('require', options => guardHook(parseRequirement(options)))
  app.decorate('requireScope', (...scopes) => guardHook(parseRequiredScopes(...scopes)))

  if (nonces) {
    app.addHook('onSend', (request, reply, payload, done) => {
      const nonce = nextNonceOf(request)
      if (nonce !== undefined) reply.header('dpop-nonce', nonce)
      done(null, payload)
    })
  }
  let warmUp: NodeJS.Timeout
  app.addHook('onReady', async () => {
    // The first fetch loads packages, which would delay the first requests.
    warmUp = setTimeout(() => parts.start(), WARM_UP_DELAY_MS).unref()
  })
  if (revocation) doubles?.revocations.add(revocation.revocations)
  app.addHook('onClose', async () => {
    clearTimeout(warmUp)
    if (revocation) doubles?.revocations.delete(revocation.revocations)
    await parts.close()
  })

  function guardHook (requirement: Requirement): GuardHook {
    return asGuard(
      (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void) =>
        admit(request, requirement, done),
      requirement
    ) as GuardHook
  }

  /**
   * Makes the function that gives a refusal its headers and its log line. Any other error is a fault and becomes a 500.
   */
  function refuser (challenges: Challenges) {
    /**
     * Each refusal with its headers. The calls of one handler share a check and its refusal, which is logged and
     * counted once.
     */
    const prepared = new WeakMap<Refusal, Refusal>()

    return function refuse (request: FastifyRequest, error: Error, requirement: Requirement): Error {
      if (!(error instanceof Refusal)) {
        decisions.listener?.refused(request, { reason: 'fault', status: 500 })
        return error
      }
      const known = prepared.get(error)
      if (known) return stand(request, known)
      const { reason, detail, retryAfterSeconds, issuer } = error
      tally?.refused(reason, issuer)
      request.log.info({ reason, route: decisions.routeOf(request).route, issuer, ...detail }, 'request refused')
      const headers = challenges(reason, {
        scheme: schemeOf(request.headers.authorization),
        requirement,
        guard: (request.routeOptions.config as MayHaveGuard)[kRouteGuard],
        nonce: nonces?.current(surroundings.now()),
        retryAfterSeconds
      })
      const refusal = error.with({ headers })
      prepared.set(error, refusal)
      decisions.listener?.refused(request, { reason, status: error.statusCode })
      return stand(request, refusal)
    }
  }
}, { name: 'holdfast-auth', fastify: '>=5 <7' })

/**
 * A session of @fastify/passport names its user before the handler. In a request with a token, the caller is the
 * token's, until the handler.
 */
function keepUser (app: FastifyInstance): void {
  const keep = (request: FastifyRequest, _reply: FastifyReply, done: () => void): void => {
    const token = verifiedTokenOf(request)
    if (token) (request as { user: unknown }).user = token.claims
    done()
  }
  app.addHook('preValidation', keep)
  app.addHook('preHandler', keep)
  // The route may have hooks of its own.
  app.addHook('onRoute', route => {
    route.preHandler = [route.preHandler ?? [], keep].flat()
  })
}

/** Fastify sends the headers of an error with its own answer only. */
function stand ({ [kReply]: reply }: FastifyRequest, refusal: Refusal): Refusal {
  if (reply) putRefusalHeaders(reply, refusal.headers!)
  return refusal
}

/**
 * Makes a function a guard: it carries its requirement, and it cannot be awaited. `await app.authenticate()` makes a
 * guard and checks nothing. Without a `then` of its own, a hook or handler with that line would let every request pass.
 */
function asGuard (hook: (...args: never[]) => unknown, requirement: Requirement): object {
  const then = (_resolve: unknown, reject: (error: Error) => void): void => reject(new TypeError(AWAITED))
  return Object.defineProperty(Object.assign(hook, { requirement }), 'then', { value: then })
}

function logEvent (app: FastifyInstance, event: GuardEvent): void {
  const { name, ...detail } = event
  const { level, sentence } = describeEvent(event)
  app.log[level]({ event: name, ...detail }, sentence)
}

function logStart (app: FastifyInstance, settings: Settings, areIssuersAsked: boolean): void {
  for (const warning of startWarnings(settings)) app.log.warn(warning)
  app.log.info({ event: 'settings_in_force', ...reportStart(settings, areIssuersAsked) }, 'settings in force')
  const promise = replayPromise(settings)
  if (promise !== undefined) app.log.info({ event: 'replay_promise' }, promise)
}

/**
 * The settings that holdfast.ts has decorated. Options take precedence: an app may have its own settings under that
 * name.
 */
function settingsOf (app: FastifyInstance & { settings?: Settings }, options: HoldfastOptions): Settings | undefined {
  return Object.keys(ownOptions(options)).length === 0 ? app.settings : undefined
}

interface OwnSettings extends AppFunctions {
  readonly settings: Settings
}

async function readOwnSettings (app: FastifyInstance, given: HoldfastOptions): Promise<OwnSettings> {
  const { written, ...lookup } = takeIssuerLookup(ownOptions(given))
  const { options, trustPeer } = withTrustOf(app, settingsFromOptions(written))
  const functions = { ...lookup, trustPeer }
  return { ...functions, settings: await validateSettings(options, processSurroundings, functions) }
}
