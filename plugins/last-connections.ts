import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/**
 * Closing ends connections that are idle by then. One whose request is still in flight would be kept alive after its answer, and
 * with it the process, until it is killed. So from the moment of closing no connection is kept.
 */
export default fp(async (app: FastifyInstance) => {
  app.addHook('preClose', async () => {
    // Milliseconds; 0 would be no limit at all. Node reads it when an answer ends.
    app.server.keepAliveTimeout = 1
  })
}, { name: 'last-connections' })
