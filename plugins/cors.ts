import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { isPreflight } from '../lib/guard/message.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** For a route that answers OPTIONS itself, preflight included. */
    cors?: { readonly preflight: false }
  }
}

const PREFLIGHT_SECONDS = 600

/**
 * Lets browser applications of the configured origins call the API. A preflight is answered before any guard, and
 * headers are exposed on errors too.
 */
export default fp(async (app: FastifyInstance) => {
  const { corsOrigins: origins, corsHeaders: more = [] } = app.settings.server
  if (!origins) return

  // OPTIONS is answered only for preflight, and by routes that answer it themselves. Any other OPTIONS request is not
  // found.
  app.addHook('onRequest', (request, reply, done) => {
    const isAnswered = isPreflight(request.raw) || request.routeOptions.config.cors !== undefined
    if (request.method === 'OPTIONS' && !isAnswered) return reply.callNotFound()
    done()
  })

  await app.register(cors, {
    // Tokens travel in a header that scripts set. So cookies are never allowed, and `*` is safe.
    origin: origins.map(origin => origin.toLowerCase()),
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowedHeaders: ['Authorization', 'DPoP', 'Content-Type', ...more],
    exposedHeaders: ['WWW-Authenticate', 'DPoP-Nonce', 'Retry-After', ...more],
    maxAge: PREFLIGHT_SECONDS,
    // This is for HTTP caches, as on every answer under /api: the hooks of those routes do not run for preflight. A
    // browser obeys only
    // `maxAge`.
    cacheControl: 'no-store'
  })
}, { name: 'cors' })
