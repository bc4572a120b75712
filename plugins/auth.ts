import fastifyEnv from '@fastify/env'
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
import { processSurroundings } from '../server/surroundings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { settingsFromObject } from '../lib/settings/sources.ts'
import type { SettingValues } from '../lib/settings/specs.ts'
import { reportStart, startWarnings } from '../lib/settings/start-report.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../lib/token/jwt-checks.ts'

export type { AccessTokenClaims, Requirement }

/** How a request proved who sends it. */
export interface RequestAuth {
  readonly scheme: Scheme
  readonly scopes: readonly string[]
  /** RFC 7638 thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
  /** The issuer of the token, as the settings have it. */
  readonly issuer: string
  /** When the token expires, in Unix seconds. */
  readonly expiresAt: number
}

/** A guard of a route. What it asks for stands on it, for the API description. */
export type GuardHook = onRequestHookHandler & { readonly requirement: Requirement }

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Makes the guard that lets a request pass if it carries a valid access token, with a valid proof if the token is bound. It is such a
     * guard itself too; but before this plugin has loaded, calling it throws, while the bare name would be undefined, and so no guard at all.
     */
    authenticate: GuardHook & (() => GuardHook)
    /** The same, and the token must carry all of the scopes, or any one of `{ any: [...] }`. */
    requireScope (...scopes: RequiredScopes): GuardHook
    /** The parts behind the guard, for health and metrics. */
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

/** Options in the form of the configuration file; none are needed where the app has the settings of Holdfast. */
export interface AuthOptions {
  readonly idp?: object
  readonly dpop?: object
  readonly server?: object
}

const WARM_UP_DELAY_MS = 10

const kNextNonce = Symbol('holdfast.nextNonce')
const kAttempt = Symbol('holdfast.attempt')

interface GuardedRequest extends FastifyRequest {
  [kNextNonce]?: string | undefined
  /** The attempt of a handler that has not ended yet. */
  [kAttempt]?: Promise<void> | undefined
}

export default fp<AuthOptions>(async (app, options) => {
  const given = settingsOf(app, options)
  const settings = given ?? await readOwnSettings(app, options)
  logStart(app, settings)
  const parts = await createGuardParts(settings, {
    surroundings: processSurroundings,
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
    // What the first fetch loads would hold up the first requests.
    warmUp = setTimeout(() => parts.start(), WARM_UP_DELAY_MS).unref()
  })
  app.addHook('onClose', async () => {
    clearTimeout(warmUp)
    await parts.close()
  })

  function authenticate (request: GuardedRequest, requirement: Requirement, done: Done): void {
    // A proof passes once, so a request that has passed is not asked again.
    if (request.auth) return done()
    guard(request.raw, (error, identity) => {
      if (!identity) return done(refuse(request, error!, requirement))
      admit(request, identity)
      done()
    })
  }

  /** For handlers, which may ask several times at once: the proof of a request passes once. */
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

  /** The refusal of an admitted request whose token lacks a scope. */
  function lackOf (request: FastifyRequest, requirement: Requirement): Error | undefined {
    try {
      verifyRequirement(request.auth!, requirement)
      return undefined
    } catch (error) {
      return refuse(request, error as Error, requirement)
    }
  }

  /** Gives a refusal its headers and its line in the log. Any other error is a fault, and becomes a 500. */
  function refuse (request: FastifyRequest, error: Error, requirement: Requirement): Error {
    if (!(error instanceof Refusal)) return error
    const { reason, detail, retryAfterSeconds } = error
    tally?.refused(reason)
    request.log.info({ reason, ...detail }, 'request refused')
    error.headers = challenges(reason, {
      scheme: schemeOf(request.headers.authorization),
      requirement,
      nonce: parts.nonces?.current(Date.now() / 1000),
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

/** The one place where a request is given an identity: nothing undecided ever stands on it. */
function admit (request: GuardedRequest, { claims, scheme, scopes, binding, issuer, expiresAt, nextNonce }: Identity): void {
  request.user = claims
  request.auth = { scheme, scopes, jkt: binding.jkt, issuer, expiresAt }
  if (nextNonce !== undefined) request[kNextNonce] = nextNonce
}

function guardHook (run: (request: FastifyRequest, done: Done) => void, requirement: Requirement): GuardHook {
  return Object.assign((request: FastifyRequest, _reply: FastifyReply, done: Done) => run(request, done), { requirement }) as GuardHook
}

/** What holdfast.ts has put there. Options go before it: an app may keep settings of its own under that name. */
function settingsOf (app: FastifyInstance & { settings?: Settings }, { idp, dpop, server }: AuthOptions): Settings | undefined {
  return idp ?? dpop ?? server ? undefined : app.settings
}

function readOwnSettings (app: FastifyInstance, given: AuthOptions): Promise<Settings> {
  // What is not Fastify's own is ours, so that a misspelt section stops the start.
  const { prefix: _prefix, logLevel: _logLevel, logSerializers: _logSerializers, ...sections } = given as AuthOptions & RegisterOptions
  return validateSettings(settingsFromObject(sections), async options => {
    let values: SettingValues
    // In a scope of its own: `getEnvs` of the app stays free for the variables of the app.
    await app.register(async scope => {
      await scope.register(fastifyEnv, { ...options, confKey: 'holdfastSettings' })
      values = scope.getDecorator<SettingValues>('holdfastSettings')
    })
    return values!
  })
}
