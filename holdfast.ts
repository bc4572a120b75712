import type { ServerOptions as HttpOptions } from 'node:http'
import { join } from 'node:path'
import autoload from '@fastify/autoload'
import fastifyEnv from '@fastify/env'
import Fastify, { LogController } from 'fastify'
import type { FastifyHttpOptions, RawServerDefault } from 'fastify'
import fp from 'fastify-plugin'
import { guardOf } from './lib/guard/requirement.ts'
import { answerBadTarget, answerClientError } from './plugins/errors.ts'
import { QueuedResponse } from './server/queued-response.ts'
import { createRequestIds } from './server/request-id.ts'
import type { Settings } from './lib/settings/settings.ts'
import type { SourceFaults } from './lib/settings/sources.ts'
import type { RawSettings } from './lib/settings/specs.ts'
import type { SettingValues } from './lib/settings/specs.ts'
import { validateSettings } from './lib/settings/validation.ts'

declare module 'fastify' {
  interface FastifyInstance {
    settings: Settings
  }
}

/** Reads the settings by @fastify/env, on an app of its own: the real one cannot be made without them. @throws SettingsError */
export function readSettings (values: RawSettings, faults?: SourceFaults): Promise<Settings> {
  return validateSettings(values, async options => {
    const reader = Fastify()
    await reader.register(fastifyEnv, { ...options, confKey: 'values' })
    return reader.getDecorator<SettingValues>('values')
  }, faults)
}

export type ServerOptions = FastifyHttpOptions<RawServerDefault> & { readonly http: HttpOptions }

/** What the server itself must know before any plugin is there. All of it holds for each server that Fastify makes, as on `localhost` that of `::1`. */
export function serverOptions (settings: Settings): ServerOptions {
  return {
    logger: { level: settings.LOG_LEVEL },
    // plugins/request-log.ts writes one line for each request.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: typeof settings.trustProxy === 'boolean' ? settings.trustProxy : [...settings.trustProxy],
    genReqId: createRequestIds(settings.trustProxy),
    // While the process drains, requests are still answered as ever.
    return503OnClosing: false,
    // No route takes a body of any size.
    bodyLimit: 64 * 1024,
    requestTimeout: 30_000,
    keepAliveTimeout: 72_000,
    // Whatever the client owes is due by one of the other limits: this one ends what takes nothing of its answers.
    connectionTimeout: 30_000,
    http: {
      headersTimeout: 10_000,
      // Node looks at the two times for requests only so often.
      connectionsCheckingInterval: 1000,
      ServerResponse: QueuedResponse
    },
    routerOptions: { maxParamLength: 512 },
    frameworkErrors: answerBadTarget(settings.ERROR_BODY),
    clientErrorHandler: answerClientError(settings.ERROR_BODY)
  }
}

/** The whole service as one plugin: capabilities from plugins/, then every path from routes/, so that no order among plugins decides what holds for a route. */
export const holdfast = fp<{ settings: Settings }>(async (app, { settings }) => {
  const directory = import.meta.dirname
  app.decorate('settings', settings)
  let arePluginsLoaded = false
  app.addHook('onRoute', ({ method, url, ...hooks }) => {
    if (!arePluginsLoaded && guardOf(hooks)) throw new Error(`${method} ${url} has a guard, but plugins are still being loaded: metrics, OpenAPI and overload protection may not know it. Move the route to routes/api/.`)
  })
  await app.register(autoload, { dir: join(directory, 'plugins') })
  arePluginsLoaded = true

  await app.register(autoload, { dir: join(directory, 'routes'), maxDepth: 0 })
  await app.register(async api => {
    api.addHook('onRequest', (_request, reply, done) => {
      reply.cacheControl('no-store')
      done()
    })
    await api.register(autoload, { dir: join(directory, 'routes', 'api') })
  }, { prefix: '/api' })
}, { name: 'holdfast', fastify: '5.x' })
