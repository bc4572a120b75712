import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { kJwtTools, NODE_CRYPTO, type MayHaveJwtTools } from '../lib/assembly/jwt-tools.ts'
import { createAdmission, nextNonceOf, verifiedTokenOf, type AdmissionOptions } from '../lib/guard/admission.ts'
import { createDecisions } from '../lib/guard/decisions.ts'
import { createRefuser } from '../lib/guard/refuser.ts'
import { kRouteGuard, type MayHaveGuard } from '../lib/guard/requirement/route-guard.ts'
import type { Message } from '../lib/guard/message.ts'
import type { HoldfastOptions } from '../lib/settings/option-types.ts'
import { ownOptions } from '../lib/settings/options.ts'
import { NO_TLS_SOCKET } from '../lib/settings/problems.ts'
import { SettingsError } from '../lib/base/settings-error.ts'
import { areResolved, type Settings } from '../lib/settings/settings.ts'
import { readPluginSettings, type PluginSettings } from '../lib/settings/validation.ts'
import type { AccessTokenClaims } from '../lib/guard/token/access-token-claims.ts'
import { isUserOfPassport } from './auth/request-user.ts'
import { runGuard } from '../server/running-guard.ts'
import { checkRuntime, fastifyWarning } from '../server/runtime.ts'
import { kTestDoubles, processSurroundings, type MayHaveTestDoubles } from '../server/surroundings.ts'
import { decorateGuards } from './auth/guards.ts'
import { keepReplies, onReplies } from './auth/replies.ts'
import { noteGuards } from './auth/route-guards.ts'
import { endWithTokens } from './auth/token-end.ts'

const WARM_UP_DELAY_MS = 10

const TWICE = 'Holdfast is registered already, in this scope or around it. Register each one in a scope of its own: ' +
  'app.register(async scope => { await scope.register(holdfast, options) })'

export default fp<HoldfastOptions>(async (app, options) => {
  if (app.hasDecorator('holdfastGuard')) throw new Error(TWICE)
  checkRuntime(process.versions)
  const warning = fastifyWarning(app.version)
  if (warning !== undefined) app.log.warn(warning)
  const given = settingsOf(app, options)
  const { settings, ...functions }: PluginSettings = given
    ? { settings: given }
    : await readPluginSettings(app, options, processSurroundings)
  // Secure servers of HTTP/1.1 and of HTTP/2 are both TLS servers.
  if (settings.server.clientCertificate === 'socket' && !((app.server as unknown) instanceof TlsServer)) {
    throw new SettingsError([NO_TLS_SOCKET])
  }
  const { settings: guardSettings, parts, surroundings, close } = await runGuard({ settings, ...functions }, {
    log: app.log,
    doubles: (options as MayHaveTestDoubles)[kTestDoubles] ?? (app as MayHaveTestDoubles)[kTestDoubles],
    jwtTools: (app as MayHaveJwtTools)[kJwtTools] ?? NODE_CRYPTO,
    metadataMount: given && app.prefix,
    mount: given ? app.prefix : app.prefix + ((options as { readonly prefix?: string }).prefix ?? '')
  })
  let warmUp: NodeJS.Timeout
  // First, so that an app whose start fails from here on can close what is open.
  app.addHook('onClose', async () => {
    clearTimeout(warmUp)
    await close()
  })
  app.addHook('onReady', async () => {
    // The first fetch loads packages, which would delay the first requests.
    warmUp = setTimeout(() => parts.start(), WARM_UP_DELAY_MS).unref()
  })
  const { guard, guardFor, judge, signals, challengesFor, tally, nonces, observing, revocation } = parts
  const decisions = createDecisions<FastifyRequest>(
    ({ method, routeOptions: { url: route } }) => ({ method, route, call: undefined })
  )
  const { openAnswers, endWithToken } = endWithTokens(app, decisions, revocation !== undefined)
  const common = { judge, signals, decisions }
  const refuserFor = (audience?: string): AdmissionOptions<FastifyRequest>['refuse'] =>
    onReplies(createRefuser({
      challenges: challengesFor(audience),
      decisions,
      tally,
      nonces,
      observing,
      now: surroundings.now,
      guardOf: ({ routeOptions: { config } }) => (config as MayHaveGuard)[kRouteGuard]
    }))
  const own = { ...common, guard, refuse: refuserFor() }
  app.decorate('holdfastGuard', {
    settings: guardSettings,
    parts,
    tally,
    decisions,
    guardedScopes: noteGuards(app),
    openAnswers,
    endWithToken,
    admissionOf: (guarded, audiences) =>
      createAdmission({
        ...audiences ? { ...common, guard: guardFor(audiences), refuse: refuserFor(audiences[0]) } : own,
        guarded
      })
  })

  keepReplies(app)
  if (isUserOfPassport(app)) keepUser(app)
  if (!app.hasRequestDecorator('user')) app.decorateRequest('user', null as unknown as AccessTokenClaims)
  app.decorateRequest('auth', null)
  if (!app.hasRequestDecorator('observed')) app.decorateRequest('observed', null)
  decorateGuards(app, createAdmission({
    ...own,
    onAdmitted: endWithToken,
    onUnidentified: warnOfChanged(app)
  }))

  if (nonces) {
    app.addHook('onSend', (request, reply, payload, done) => {
      const nonce = nextNonceOf(request)
      if (nonce !== undefined) reply.header('dpop-nonce', nonce)
      done(null, payload)
    })
  }
}, { name: 'holdfast-auth', fastify: '>=5 <7' })

/**
 * A session of @fastify/passport names its user before the handler. In a request with a token, the caller is the
 * token's, until the handler.
 */
function keepUser (app: FastifyInstance) {
  const keep = (request: FastifyRequest, _reply: FastifyReply, done: () => void) => {
    const token = verifiedTokenOf(request)
    if (token || request.observed) (request as { user: unknown }).user = token?.claims ?? null
    done()
  }
  app.addHook('preValidation', keep)
  app.addHook('preHandler', keep)
  // The route may have hooks of its own.
  app.addHook('onRoute', route => {
    route.preHandler = [route.preHandler ?? [], keep].flat()
  })
}

/** Hooks often set the header by `request.headers`, such as from a cookie. It is not the line that the guard reads. */
function warnOfChanged (app: FastifyInstance): (request: FastifyRequest, message: Message) => void {
  let isWarned = false
  return ({ headers }, { authorization: line }) => {
    // A line that a hook has added is not among the headers.
    const { authorization = line } = headers
    if (isWarned || authorization === line) return
    isWarned = true
    app.log.warn(
      'A hook has changed request.headers.authorization, which the guard does not read: it reads raw lines. To add ' +
        "one: request.raw.rawHeaders.push('Authorization', value)"
    )
  }
}

/** The settings that holdfast.ts has decorated. Options take precedence. */
function settingsOf (app: FastifyInstance & { settings?: object }, options: HoldfastOptions): Settings | undefined {
  return Object.keys(ownOptions(options)).length === 0 && areResolved(app.settings) ? app.settings : undefined
}
