import type { FastifyPluginAsync } from 'fastify'
import app, { options as serviceOptions } from '../../app.ts'
import { HOST_BELIEVED } from '../../lib/settings/start-report.ts'
import devRoutes from './dev-routes.ts'
import { logOwnCallsQuietly } from './own-calls.ts'

/** Whether only this machine reaches the API. Then no one gets it called by another name. */
const isLocal = ['', 'localhost', '127.0.0.1', '::1'].includes(process.env['FASTIFY_ADDRESS'] ?? '')

/** The options of the service, with a log for people: a line each, without what is the same in all of them. */
export const options = {
  ...serviceOptions,
  logger: {
    ...serviceOptions.logger as object,
    hooks: {
      logMethod (this: unknown, args: [string], method: (...args: [string]) => void) {
        if (!(isLocal && args[0] === HOST_BELIEVED)) method.apply(this, args)
      }
    },
    ...process.argv.includes('-P') &&
      {
        transport: {
          target: 'pino-pretty',
          options: { singleLine: true, ignore: 'pid,hostname,reqId,event', translateTime: 'HH:MM:ss' }
        }
      }
  }
}

/**
 * What fastify-cli opens under `npm run dev`: the service, and the routes that only the playground and visitors need.
 */
const api: FastifyPluginAsync = async (fastify, given: object) => {
  fastify.addHook('onRequest', logOwnCallsQuietly)
  // Called, not registered: in a scope of its own the guards would not reach the route.
  await app(fastify, given)
  await fastify.register(devRoutes)
}
export default api
