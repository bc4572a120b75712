import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { createAdmission, nextNonceOf } from '../lib/guard/admission.ts'
import type { Admission, RequestAuth } from '../lib/guard/admission.ts'
import { createGuardParts } from '../lib/guard/create-guard.ts'
import type { GuardEvent, GuardParts } from '../lib/guard/create-guard.ts'
import { ANY_TOKEN, parseRequiredScopes, parseRequirement } from '../lib/guard/requirement.ts'
import type { RequiredScopes, Requirement, RequirementOptions } from '../lib/guard/requirement.ts'
import { kRouteGuard } from '../lib/guard/route-guard.ts'
import type { MayHaveGuard } from '../lib/guard/route-guard.ts'
import type { ReceivedRequest } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'
import { schemeOf } from '../lib/scheme.ts'
import { kStandIns } from '../lib/stand-ins.ts'
import type { MayHaveStandIns } from '../lib/stand-ins.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { NO_TLS_SOCKET, SettingsError } from '../lib/settings/problems.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { HoldfastOptions, IssuerLookup } from '../lib/settings/option-types.ts'
import { ownOptions, settingsFromOptions } from '../lib/settings/options.ts'
import { reportStart, startWarnings } from '../lib/settings/start-report.ts'
import { checkOptions, validateSettings } from '../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../lib/token/access-token-claims.ts'

// The types of the package give `request.user` to those who have only the declarations of this file: what is exported stays in them.
// The package itself is loaded when it is needed.
export type { FastifyJWT } from '@fastify/jwt'
export type { AccessTokenClaims, IssuerLookup, RequestAuth, Requirement, RequirementOptions }

/** A guard of a route. It carries its requirement, for the API description. */
export type GuardHook = onRequestHookHandler & { readonly requirement: Requirement }

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Makes the guard that lets a request pass if it carries a valid access token, and a valid proof if the token is bound.
     * `authenticate` is also such a guard itself, but it is safer to call it: before this plugin has loaded, the call throws, while
     * the bare name is undefined, and an undefined hook leaves the route open.
     */
    authenticate: GuardHook & (() => GuardHook)
    /**
     * Makes the same guard, and the token must also meet all that is given: `scope`, `anyScope`, `claims`, `acr`, `maxAgeSeconds`,
     * `authorizationDetails`. With `optional`, a request without credentials passes too; `request.auth` is then null.
     */
    require (requirement: RequirementOptions): GuardHook
    /** Short for `require({ scope: [...] })`, or with `{ any: [...] }` for `require({ anyScope: [...] })`. */
    requireScope (...scopes: RequiredScopes): GuardHook
    /**
     * Makes a guard for the rules of a gate.
     * @param received the request that is looked at, such as the one that a proxy asks about
     * @param audience takes the place of the configured one
     * @internal
     */
    admissionOf (received: (request: FastifyRequest) => ReceivedRequest, audience: string | undefined): Admission<FastifyRequest>
    /** The parts behind the guard, for health and metrics. @internal */
    guardParts: GuardParts
  }
  interface FastifyRequest {
    auth: RequestAuth | null
    authenticate (): Promise<void>
    require (requirement: RequirementOptions): Promise<void>
    requireScope (...scopes: RequiredScopes): Promise<void>
  }
}

declare module '@fastify/jwt' {
  interface FastifyJWT {
    payload: AccessTokenClaims
    user: AccessTokenClaims
  }
}

const WARM_UP_DELAY_MS = 10

const TWICE = 'Holdfast is registered already, in this scope or around it. Register each one in a scope of its own: app.register(async scope => { await scope.register(holdfast, options) })'

export default fp<HoldfastOptions>(async (app, options) => {
  if (app.hasDecorator('guardParts')) throw new Error(TWICE)
  const given = settingsOf(app, options)
  const settings = given ?? await readOwnSettings(options)
  // Secure servers of HTTP/1.1 and of HTTP/2 are both TLS servers.
  if (settings.CLIENT_CERTIFICATE === 'socket' && !((app.server as unknown) instanceof TlsServer)) throw new SettingsError([NO_TLS_SOCKET])
  const lookUpIssuer = given ? undefined : issuerLookupOf(options)
  logStart(app, settings, lookUpIssuer !== undefined)
  const standIns = (options as MayHaveStandIns)[kStandIns] ?? (app as MayHaveStandIns)[kStandIns]
  if (standIns) app.log.warn('The keys and the clock are those of a test issuer: only for tests')
  const surroundings = standIns?.surroundings ?? processSurroundings
  const parts = await createGuardParts(settings, {
    surroundings,
    transport: standIns?.transport,
    lookUpIssuer,
    onEvent: event => logEvent(app, event),
    metadataMount: given && app.prefix
  })
  const { guard, guardFor, judge, challenges, tally, nonces } = parts
  const { admit, admitOnce } = createAdmission<FastifyRequest>({ guard, judge, refuse })
  app.decorate('guardParts', parts)
  app.decorate('admissionOf', (received, audience) => createAdmission({ guard: audience === undefined ? guard : guardFor(audience), judge, refuse, received }))

  if (!app.hasRequestDecorator('user')) app.decorateRequest('user', null as unknown as AccessTokenClaims)
  app.decorateRequest('auth', null)
  app.decorateRequest('authenticate', function () { return admitOnce(this, ANY_TOKEN) })
  app.decorateRequest('require', function (options) { return admitOnce(this, parseRequirement(options)) })
  app.decorateRequest('requireScope', function (...scopes) { return admitOnce(this, parseRequiredScopes(...scopes)) })

  const anyToken = guardHook(ANY_TOKEN)
  app.decorate('authenticate', Object.assign(function (...args: unknown[]) {
    if (args.length === 0) return anyToken
    if (typeof args[2] !== 'function') throw new TypeError('authenticate takes no arguments; require and requireScope say what a token needs')
    return Reflect.apply(anyToken, app, args)
  }, { requirement: ANY_TOKEN }) as FastifyInstance['authenticate'])
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
  app.addHook('onClose', async () => {
    clearTimeout(warmUp)
    await parts.close()
  })

  function guardHook (requirement: Requirement): GuardHook {
    const hook = (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => admit(request, requirement, done)
    return Object.assign(hook, { requirement }) as GuardHook
  }

  /** Gives a refusal its headers and its log line. Any other error is a fault and becomes a 500. */
  function refuse (request: FastifyRequest, error: Error, requirement: Requirement): Error {
    // Calls of one handler that share a check share its refusal. It is told once.
    if (!(error instanceof Refusal) || error.headers) return error
    const { reason, detail, retryAfterSeconds, issuer = request.auth?.issuer } = error
    tally?.refused(reason, issuer)
    request.log.info({ reason, route: request.routeOptions.url, issuer, ...detail }, 'request refused')
    error.headers = challenges(reason, {
      scheme: schemeOf(request.headers.authorization),
      requirement,
      guard: (request.routeOptions.config as MayHaveGuard)[kRouteGuard],
      nonce: nonces?.current(surroundings.wallMs() / 1000),
      retryAfterSeconds
    })
    return error
  }
}, { name: 'auth', fastify: '5.x' })

const WARNINGS: ReadonlySet<GuardEvent['name']> = new Set(['keys_fetch_failed', 'keys_expired', 'keys_private', 'issuers_unavailable', 'replay_unavailable', 'replay_policy_unknown', 'nonce_secret_random'])

function logEvent (app: FastifyInstance, { name, ...detail }: GuardEvent): void {
  app.log[WARNINGS.has(name) ? 'warn' : 'info']({ event: name, ...detail }, name.replaceAll('_', ' '))
}

function logStart (app: FastifyInstance, settings: Settings, areIssuersAsked: boolean): void {
  for (const warning of startWarnings(settings)) app.log.warn(warning)
  app.log.info({ event: 'settings_in_force', ...reportStart(settings, areIssuersAsked) }, 'settings in force')
}

/** The settings that holdfast.ts has decorated. Options take precedence: an app may keep its own settings under that name. */
function settingsOf (app: FastifyInstance & { settings?: Settings }, options: HoldfastOptions): Settings | undefined {
  return Object.keys(ownOptions(options)).length === 0 ? app.settings : undefined
}

function readOwnSettings (given: HoldfastOptions): Promise<Settings> {
  const options: HoldfastOptions = ownOptions(given)
  const areIssuersAsked = issuerLookupOf(given) !== undefined
  const written = areIssuersAsked ? { ...options, idp: { ...options.idp, issuers: undefined } } : options
  return validateSettings(settingsFromOptions(written), checkOptions, { problems: [], isFileUnread: false, unknownVariables: [], areIssuersAsked })
}

/** The function in the place of the list of issuers, if there is one. */
function issuerLookupOf ({ idp }: HoldfastOptions): IssuerLookup | undefined {
  return typeof idp?.issuers === 'function' ? idp.issuers : undefined
}
