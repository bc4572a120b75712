import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { nameMatches } from '../lib/gate/rules.ts'

/** Writes one line for each answered request. It names the route, not the target: a query may hold secrets. */
export default fp(async (app: FastifyInstance) => {
  if (!['info', 'debug', 'trace'].includes(app.settings.server.logLevel)) return

  app.addHook('onResponse', (request, reply, done) => {
    request.log.info({
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      scheme: request.auth?.scheme,
      mcp: request.mcpMatches ? nameMatches(request.mcpMatches) : undefined,
      ms: Math.round(reply.elapsedTime * 100) / 100
    }, 'request answered')
    done()
  })
}, { name: 'request-log', dependencies: ['holdfast-auth', 'gate'] })
