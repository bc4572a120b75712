import fastifyEnv from '@fastify/env'
import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { schemeOf } from '../lib/credentials.ts'
import type { Scheme } from '../lib/credentials.ts'
import type { Identity } from '../lib/guard.ts'
import { createGuardParts } from '../lib/guard-parts.ts'
import type { GuardEvent, GuardParts } from '../lib/guard-parts.ts'
import { Refusal } from '../lib/refusal.ts'
import { hasScheme } from '../lib/settings/formats.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { settingsFromObject } from '../lib/settings/sources.ts'
import type { SettingValues } from '../lib/settings/specs.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../lib/token/access-token.ts'
import { parseScopeRequirement, verifyScopes } from '../lib/token/scopes.ts'
import type { ScopeRequirement } from '../lib/token/scopes.ts'

export type { AccessTokenClaims, ScopeRequirement }

/** How a request proved who sends it. */
export interface RequestAuth {
  readonly scheme: Scheme
  readonly scopes: readonly string[]
  /** RFC 7638 thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
}

type RequiredScopes = readonly [first: string | { readonly any: readonly string[] }, ...rest: string[]]

/** A guard of a route. What it asks for stands on it, for the API description. */
export type GuardHook = onRequestHookHandler & { readonly requirement?: ScopeRequirement | null }

declare module 'fastify' {
  interface FastifyInstance {
    /** Lets a request pass that carries a valid access token, with a valid proof where the token is bound. */
    authenticate: GuardHook
    /** The same, and the token must carry all of the scopes, or any of `{ any: [...] }`. */
    requireScope (...scopes: RequiredScopes): GuardHook
    /** The parts behind the guard, for health and metrics. */
    guardParts: GuardParts
  }
  interface FastifyRequest {
    auth: RequestAuth | null
    authenticate (): Promise<void>
    requireScope (...scopes: RequiredScopes): Promise<void>
    holdfastJwtVerify (options: undefined, done: (error: Error | null) => void): void
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

const kCandidate = Symbol('holdfast.candidate')
const kNextNonce = Symbol('holdfast.nextNonce')
const kAttempt = Symbol('holdfast.attempt')

interface Carrier extends FastifyRequest {
  /** The token and key of the signature that is being verified. */
  [kCandidate]?: { readonly token: string, readonly pem: string }
  [kNextNonce]?: string | undefined
  /** The attempt of a handler that has not ended yet. */
  [kAttempt]?: Promise<void> | undefined
}

export default fp<AuthOptions>(async (app, options) => {
  const given = settingsOf(app, options)
  const settings = given ?? await readOwnSettings(app, options)
  if (settings.IDP_DOMAIN !== undefined && hasScheme(settings.IDP_DOMAIN)) {
    app.log.warn('IDP_DOMAIN carries a scheme, so every token will be refused: write the host alone, without https://')
  }
  const parts = await createGuardParts<Carrier>(settings, {
    verifySignature,
    onEvent: event => logEvent(app, event),
    metadataMount: given && app.prefix
  })
  const { guard, challenges, tally } = parts
  app.decorate('guardParts', parts)

  await app.register(fastifyJwt, {
    // A name of its own: the plain verifier checks a signature alone, and must not be taken for the guard.
    namespace: 'holdfast',
    // Verifies only; the key is the candidate of the request, and claims are the guard's to judge.
    secret: { public: (request: FastifyRequest, _token: unknown, done: (error: null, key: string) => void) => done(null, (request as Carrier)[kCandidate]!.pem) },
    verify: { algorithms: ['RS256'], ignoreExpiration: true, ignoreNotBefore: true, extractToken: (request: FastifyRequest) => (request as Carrier)[kCandidate]!.token }
  } as never)

  app.decorateRequest('auth', null)
  app.decorateRequest('authenticate', function (this: FastifyRequest) {
    return attempt(this)
  })
  app.decorateRequest('requireScope', function (this: FastifyRequest, ...scopes: RequiredScopes) {
    const requirement = parseScopeRequirement(...scopes)
    return attempt(this).then(() => toPromise(done => authorize(this, requirement, done)))
  })
  app.decorate('authenticate', guardHook(authenticate, null))
  app.decorate('requireScope', (...scopes: RequiredScopes) => {
    const requirement = parseScopeRequirement(...scopes)
    return guardHook((request, done) => authorize(request, requirement, done), requirement)
  })

  if (parts.nonces) {
    app.addHook('onSend', (request: Carrier, reply, payload, done) => {
      const nonce = request[kNextNonce]
      if (nonce !== undefined) reply.header('dpop-nonce', nonce)
      done(null, payload)
    })
  }
  let warmUp: NodeJS.Timeout
  app.addHook('onReady', async () => {
    // Node drops the lines after the 2000th without a word; the guard has to see a second one wherever it stands. Their bytes are bounded.
    app.server.maxHeadersCount = 0
    // What the first fetch loads would hold up the first requests.
    warmUp = setTimeout(() => parts.start(), WARM_UP_DELAY_MS).unref()
  })
  app.addHook('onClose', async () => {
    clearTimeout(warmUp)
    await parts.close()
  })

  function authenticate (request: Carrier, done: Done): void {
    // A proof passes once, so a request that has passed is not asked again.
    if (request.auth) return done()
    guard(request, request.raw, (error, identity) => {
      if (!identity) return done(refuse(request, error!))
      admit(request, identity)
      done()
    })
  }

  /** For handlers, which may ask several times at once: the proof of a request passes once. */
  function attempt (request: Carrier): Promise<void> {
    if (request[kAttempt]) return request[kAttempt]
    const running = toPromise(done => authenticate(request, done))
    const over = (): void => { request[kAttempt] = undefined }
    request[kAttempt] = running
    running.then(over, over)
    return running
  }

  function authorize (request: Carrier, requirement: ScopeRequirement, done: Done): void {
    authenticate(request, error => {
      if (error) return done(error)
      try {
        verifyScopes(request.auth!.scopes, requirement)
      } catch (error) {
        return done(refuse(request, error as Error, requirement))
      }
      done()
    })
  }

  /** Gives a refusal its headers and its line in the log. Any other error is a fault, and becomes a 500. */
  function refuse (request: FastifyRequest, error: Error, requirement?: ScopeRequirement): Error {
    if (!(error instanceof Refusal)) return error
    const { reason, detail } = error
    tally?.refused(reason)
    request.log.info({ reason, ...detail }, 'request refused')
    error.headers = challenges(reason, {
      scheme: schemeOf(request.headers.authorization),
      requirement,
      nonce: parts.nonces?.current(Date.now() / 1000),
      retryAfter: parts.retryAfter(reason)
    })
    return error
  }
}, { name: 'auth', fastify: '5.x' })

const WARNINGS: ReadonlySet<GuardEvent['name']> = new Set(['keys_fetch_failed', 'keys_expired', 'replay_unavailable', 'nonce_secret_random'])

function logEvent (app: FastifyInstance, { name, ...detail }: GuardEvent): void {
  app.log[WARNINGS.has(name) ? 'warn' : 'info']({ event: name, ...detail }, name.replaceAll('_', ' '))
}

type Done = (error?: Error) => void

function admit (request: Carrier, { claims, scheme, scopes, jkt, nextNonce }: Identity): void {
  request.user = claims
  request.auth = { scheme, scopes, jkt }
  if (nextNonce !== undefined) request[kNextNonce] = nextNonce
}

function verifySignature (request: Carrier, token: string, pem: string, done: (isValid: boolean) => void): void {
  request[kCandidate] = { token, pem }
  // The plugin's errors are not shown. Without their stacks a wrong signature costs no more than a good one.
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  // Without options of the call's own, the plugin keeps one verifier for each key.
  request.holdfastJwtVerify(undefined, error => {
    Error.stackTraceLimit = limit
    done(!error)
  })
  Error.stackTraceLimit = limit
}

function guardHook (run: (request: FastifyRequest, done: Done) => void, requirement: ScopeRequirement | null): GuardHook {
  return Object.assign((request: FastifyRequest, _reply: FastifyReply, done: Done) => run(request, done), { requirement }) as GuardHook
}

function toPromise (run: (done: Done) => void): Promise<void> {
  return new Promise((resolve, reject) => run(error => error ? reject(error) : resolve()))
}

/** What holdfast.ts has put there. Options go before it: an app may keep settings of its own under that name. */
function settingsOf (app: FastifyInstance & { settings?: Settings }, { idp, dpop, server }: AuthOptions): Settings | undefined {
  return idp ?? dpop ?? server ? undefined : app.settings
}

function readOwnSettings (app: FastifyInstance, { idp, dpop, server }: AuthOptions): Promise<Settings> {
  return validateSettings(settingsFromObject({ idp, dpop, server }), async options => {
    let values: SettingValues
    // In a scope of its own: `getEnvs` of the app stays free for the variables of the app.
    await app.register(async scope => {
      await scope.register(fastifyEnv, { ...options, confKey: 'holdfastSettings' })
      values = scope.getDecorator<SettingValues>('holdfastSettings')
    })
    return values!
  })
}
