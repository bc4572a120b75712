import fastifyEnv from '@fastify/env'
// Its types give `request.user` to those who have only the declarations of this file.
import '@fastify/jwt'
import type { FastifyInstance, FastifyReply, FastifyRequest, RegisterOptions, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { schemeOf } from '../lib/scheme.ts'
import type { Scheme } from '../lib/scheme.ts'
import type { Identity } from '../lib/guard/guard.ts'
import { createGuardParts } from '../lib/guard/create-guard.ts'
import type { GuardEvent, GuardParts } from '../lib/guard/create-guard.ts'
import { ANY_TOKEN, parseRequiredScopes, verifyRequirement } from '../lib/guard/requirement.ts'
import type { RequiredScopes, Requirement } from '../lib/guard/requirement.ts'
import { Refusal } from '../lib/refusal.ts'
import { kStandIns } from '../lib/stand-ins.ts'
import type { MayHaveStandIns } from '../lib/stand-ins.ts'
import { processSurroundings } from '../server/surroundings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { HoldfastOptions } from '../lib/settings/option-types.ts'
import { settingsFromOptions } from '../lib/settings/options.ts'
import type { SettingValues } from '../lib/settings/specs.ts'
import { reportStart, startWarnings } from '../lib/settings/start-report.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../lib/token/access-token-claims.ts'

export type { AccessTokenClaims, Requirement }

/** How a request proved its sender. */
export interface RequestAuth {
  readonly scheme: Scheme
  readonly scopes: readonly string[]
  /** RFC 7638 thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
  /** The issuer of the token, as the settings name it. */
  readonly issuer: string
  /** When the token expires, in Unix seconds. */
  readonly expiresAt: number
}

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
    /** Makes the same guard, and the token must also carry all of the scopes, or any one of `{ any: [...] }`. */
    requireScope (...scopes: RequiredScopes): GuardHook
    /** The parts behind the guard, for health and metrics. @internal */
    guardParts: GuardParts
  }
  interface FastifyRequest {
    auth: RequestAuth | null
    authenticate (): Promise<void>
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

const kNextNonce = Symbol('holdfast.nextNonce')
const kAttempt = Symbol('holdfast.attempt')

interface GuardedRequest extends FastifyRequest {
  [kNextNonce]?: string | undefined
  /** The check of this request that a handler has started and that has not ended yet. */
  [kAttempt]?: Promise<void> | undefined
}

const TWICE = 'Holdfast is registered already, in this scope or around it. Register each one in a scope of its own: app.register(async scope => { await scope.register(holdfast, options) })'

export default fp<HoldfastOptions>(async (app, options) => {
  if (app.hasDecorator('guardParts')) throw new Error(TWICE)
  const given = settingsOf(app, options)
  const settings = given ?? await readOwnSettings(app, options)
  logStart(app, settings)
  const standIns = (options as MayHaveStandIns)[kStandIns] ?? (app as MayHaveStandIns)[kStandIns]
  if (standIns) app.log.warn('The keys and the clock are those of a test issuer: only for tests')
  const surroundings = standIns?.surroundings ?? processSurroundings
  const parts = await createGuardParts(settings, {
    surroundings,
    transport: standIns?.transport,
    onEvent: event => logEvent(app, event),
    metadataMount: given && app.prefix
  })
  const { guard, challenges, tally } = parts
  app.decorate('guardParts', parts)

  if (!app.hasRequestDecorator('user')) app.decorateRequest('user', null as unknown as AccessTokenClaims)
  app.decorateRequest('auth', null)
  app.decorateRequest('authenticate', function (this: FastifyRequest) {
    return attempt(this, ANY_TOKEN)
  })
  app.decorateRequest('requireScope', function (this: FastifyRequest, ...scopes: RequiredScopes) {
    const requirement = parseRequiredScopes(...scopes)
    return attempt(this, requirement).then(() => {
      const refusal = lackOf(this, requirement)
      if (refusal) throw refusal
    })
  })
  const anyToken = guardHook((request, done) => authenticate(request, ANY_TOKEN, done), ANY_TOKEN)
  app.decorate('authenticate', Object.assign(function (...args: unknown[]) {
    if (args.length === 0) return anyToken
    if (typeof args[2] !== 'function') throw new TypeError('authenticate takes no arguments; requireScope takes scopes')
    return Reflect.apply(anyToken, app, args)
  }, { requirement: ANY_TOKEN }) as FastifyInstance['authenticate'])
  app.decorate('requireScope', (...scopes: RequiredScopes) => {
    const requirement = parseRequiredScopes(...scopes)
    return guardHook((request, done) => {
      authenticate(request, requirement, error => {
        const refusal = error ?? lackOf(request, requirement)
        if (refusal) return done(refusal)
        done()
      })
    }, requirement)
  })

  if (parts.nonces) {
    app.addHook('onSend', (request: GuardedRequest, reply, payload, done) => {
      const nonce = request[kNextNonce]
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

  function authenticate (request: GuardedRequest, requirement: Requirement, done: Done): void {
    // A proof passes only once, so a request that has passed is not checked again.
    if (request.auth) return done()
    guard(request.raw, (error, identity) => {
      if (!identity) return done(refuse(request, error!, requirement))
      admit(request, identity)
      done()
    })
  }

  /**
   * Checks a request for its handler. A handler may ask several times at once, but the proof of a request passes only once, so all
   * calls share one check.
   */
  function attempt (request: GuardedRequest, requirement: Requirement): Promise<void> {
    if (request[kAttempt]) return request[kAttempt]
    const running = new Promise<void>((resolve, reject) => {
      authenticate(request, requirement, error => error ? reject(error) : resolve())
    })
    const over = (): void => { request[kAttempt] = undefined }
    request[kAttempt] = running
    running.then(over, over)
    return running
  }

  /** Returns the refusal of an admitted request whose token lacks a scope. */
  function lackOf (request: FastifyRequest, requirement: Requirement): Error | undefined {
    try {
      verifyRequirement(request.auth!, requirement)
      return undefined
    } catch (error) {
      return refuse(request, error as Error, requirement)
    }
  }

  /** Gives a refusal its headers and its log line. Any other error is a fault and becomes a 500. */
  function refuse (request: FastifyRequest, error: Error, requirement: Requirement): Error {
    if (!(error instanceof Refusal)) return error
    const { reason, detail, retryAfterSeconds } = error
    tally?.refused(reason)
    request.log.info({ reason, route: request.routeOptions.url, ...detail }, 'request refused')
    error.headers = challenges(reason, {
      scheme: schemeOf(request.headers.authorization),
      requirement,
      nonce: parts.nonces?.current(surroundings.wallMs() / 1000),
      retryAfterSeconds
    })
    return error
  }
}, { name: 'auth', fastify: '5.x' })

const WARNINGS: ReadonlySet<GuardEvent['name']> = new Set(['keys_fetch_failed', 'keys_expired', 'replay_unavailable', 'replay_policy_unknown', 'nonce_secret_random'])

function logEvent (app: FastifyInstance, { name, ...detail }: GuardEvent): void {
  app.log[WARNINGS.has(name) ? 'warn' : 'info']({ event: name, ...detail }, name.replaceAll('_', ' '))
}

function logStart (app: FastifyInstance, settings: Settings): void {
  for (const warning of startWarnings(settings)) app.log.warn(warning)
  app.log.info({ event: 'settings_in_force', ...reportStart(settings) }, 'settings in force')
}

type Done = (error?: Error) => void

/** Only this function gives a request an identity. Nothing undecided is ever written to a request. */
function admit (request: GuardedRequest, { claims, scheme, scopes, binding, issuer, expiresAt, nextNonce }: Identity): void {
  request.user = claims
  request.auth = { scheme, scopes, jkt: binding.jkt, issuer, expiresAt }
  if (nextNonce !== undefined) request[kNextNonce] = nextNonce
}

function guardHook (run: (request: FastifyRequest, done: Done) => void, requirement: Requirement): GuardHook {
  return Object.assign((request: FastifyRequest, _reply: FastifyReply, done: Done) => run(request, done), { requirement }) as GuardHook
}

/** The settings that holdfast.ts has decorated. Options take precedence: an app may keep its own settings under that name. */
function settingsOf (app: FastifyInstance & { settings?: Settings }, options: HoldfastOptions): Settings | undefined {
  return Object.keys(optionsOf(options)).length === 0 ? app.settings : undefined
}

/** Every option that is not Fastify's own is one of ours, so a misspelt section stops the start. */
function optionsOf (given: HoldfastOptions & RegisterOptions): HoldfastOptions {
  const { prefix: _prefix, logLevel: _logLevel, logSerializers: _logSerializers, ...options } = given
  return options
}

function readOwnSettings (app: FastifyInstance, given: HoldfastOptions): Promise<Settings> {
  return validateSettings(settingsFromOptions(optionsOf(given)), async options => {
    let values: SettingValues
    // The plugin is registered in its own scope, so that the app can use `getEnvs` for its own variables.
    await app.register(async scope => {
      await scope.register(fastifyEnv, { ...options, confKey: 'holdfastSettings' })
      values = scope.getDecorator<SettingValues>('holdfastSettings')
    })
    return values!
  })
}
