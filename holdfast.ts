import { existsSync } from 'node:fs'
import type { ServerOptions as HttpOptions } from 'node:http'
import { join } from 'node:path'
import autoload from '@fastify/autoload'
import fastifyEnv from '@fastify/env'
import Fastify, { type FastifyHttpOptions, type FastifyInstance, type RawServerDefault } from 'fastify'
import fp from 'fastify-plugin'
import { kJwtTools, type JwtTools } from './lib/assembly/jwt-tools.ts'
import { requirementsOf } from './lib/guard/requirement/route-guard.ts'
import { createUpgradeTest } from './lib/gate/upgrade-rule.ts'
import { endOfDay } from './lib/guard/observing.ts'
import { answerBadTarget, answerClientError } from './plugins/errors.ts'
import { silenceMs } from './server/connections.ts'
import { createUpgradableMessage, OnePieceResponse } from './server/node-members.ts'
import { createRequestIds } from './server/request-ids.ts'
import type { Givens } from './lib/settings/given.ts'
import { settingsFromOptions } from './lib/settings/options.ts'
import type { Settings } from './lib/settings/settings.ts'
import { validateSettings } from './lib/settings/validation.ts'
import { processSurroundings } from './server/surroundings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    settings: Settings
  }
}

/**
 * On a busy machine loading may take longer than the 10 s that Fastify gives each plugin, and it ends with a stack. No
 * plugin waits for the network; app.ts has a limit for the whole start.
 */
const NO_TIMEOUT = 0

/**
 * Judges the settings with @fastify/env, on a separate app: the real app cannot be made without the settings.
 * @throws SettingsError
 */
export function judgeSettings (found: Givens): Promise<Settings> {
  return validateSettings(found, processSurroundings, undefined, async ({ data, ...check }) => {
    const { properties = {} } = check.schema
    // The package refuses what the schema does not name: the sections in which nothing is set.
    const named = Object.entries(data).filter(([section]) => section in properties)
    const reader = Fastify({ pluginTimeout: NO_TIMEOUT })
    await reader.register(fastifyEnv, { ...check, env: false, data: Object.fromEntries(named) })
  })
}

/**
 * Reads the settings from options, as the plugin takes them.
 * @throws SettingsError
 */
export const readSettings = (options: object): Promise<Settings> => judgeSettings(settingsFromOptions(options))

export type ServerOptions = FastifyHttpOptions<RawServerDefault> & { readonly http: HttpOptions }

/**
 * The options that the server needs before any plugin is loaded. They hold for each server that Fastify makes, for
 * example the one for `::1` on `localhost`.
 */
export function serverOptions (settings: Settings): ServerOptions {
  const { gate, server: { observe } } = settings
  const isUpgraded = gate &&
    createUpgradeTest(gate, settings.server, () => processSurroundings.now() < endOfDay(observe))
  return {
    logger: { level: settings.server.logLevel },
    pluginTimeout: NO_TIMEOUT,
    // plugins/request-log.ts writes one line for each request.
    logController: new Fastify.LogController({ disableRequestLogging: true }),
    trustProxy: typeof settings.server.trustProxy === 'boolean'
      ? settings.server.trustProxy
      : [...settings.server.trustProxy],
    genReqId: createRequestIds(settings.server.trustProxy),
    // While the process drains, requests are answered as before.
    return503OnClosing: false,
    // No route accepts a large body.
    bodyLimit: 64 * 1024,
    // A gate passes bodies on that may take long. The limit for a silent connection holds there too.
    requestTimeout: settings.gate ? 0 : 30_000,
    keepAliveTimeout: 72_000,
    // The other limits end slow senders. This one ends slow readers.
    connectionTimeout: silenceMs(settings.gate?.timeoutSeconds ?? 0),
    http: {
      headersTimeout: 10_000,
      // Node checks the two time limits for requests only at this interval.
      connectionsCheckingInterval: 1000,
      // The answer to a request without a host is ours, as any other.
      requireHostHeader: false,
      ServerResponse: OnePieceResponse,
      ...(isUpgraded && { IncomingMessage: createUpgradableMessage(isUpgraded) })
    },
    routerOptions: { maxParamLength: 512 },
    frameworkErrors: answerBadTarget(settings.api.errorBody, settings.gate !== undefined),
    clientErrorHandler: answerClientError(settings.api.errorBody)
  }
}

export interface HoldfastOptions {
  readonly settings: Settings
  /** Whether a file of routes/api is served, by its path in there, such as `/orders.ts`. Without it, every file is. */
  readonly isServed?: ((path: string) => boolean) | undefined
  /** How keys are read and signatures verified: by node:crypto unless given. */
  readonly jwtTools?: JwtTools
}

/**
 * The whole service as one plugin: first the capabilities from plugins/, then every path from routes/. So the order
 * among plugins never decides what applies to a route.
 */
export const holdfast = fp<HoldfastOptions>(async (app, { settings, isServed, jwtTools }) => {
  const directory = import.meta.dirname
  app.decorate('settings', settings)
  if (jwtTools) app.decorate(kJwtTools, jwtTools)
  let arePluginsLoaded = false
  app.addHook('onRoute', ({ method, url, ...hooks }) => {
    if (!arePluginsLoaded && requirementsOf(hooks).length > 0) {
      throw new Error(
        `${method} ${url} has a guard, but plugins are still being loaded: metrics, OpenAPI and overload ` +
          'protection may not know it. Move the route to routes/api/.'
      )
    }
  })
  await app.register(autoload, { dir: join(directory, 'plugins'), maxDepth: 0 })
  arePluginsLoaded = true
  // In a scope, so that an error handler of one's own is not the second one of the same scope.
  await app.register(async scope => {
    const dir = join(directory, 'plugins', 'own')
    if (!isServed && existsSync(dir)) await scope.register(autoload, { dir, encapsulate: false })
    await registerRoutes(scope, settings.gate, isServed)
  })
}, { name: 'holdfast', fastify: '5.x' })

async function registerRoutes (
  app: FastifyInstance,
  gate: Settings['gate'],
  isServed: HoldfastOptions['isServed']
): Promise<void> {
  const directory = import.meta.dirname
  // Routes that can be out of the way of an upstream put it before their paths.
  const options = { ownPrefix: gate?.ownPrefix ?? '' }
  await app.register(autoload, { dir: join(directory, 'routes'), maxDepth: 0, options })
  // The sample routes would hide those of the upstream.
  if (gate) return
  await app.register(async api => {
    api.addHook('onRequest', (_request, reply, done) => {
      reply.header('cache-control', 'no-store')
      done()
    })
    await api.register(autoload, { dir: join(directory, 'routes', 'api'), matchFilter: isServed })
  }, { prefix: '/api' })
}
