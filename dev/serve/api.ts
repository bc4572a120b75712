import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import app, { options } from '../../app.ts'
import openStream from './open-stream.ts'
import recentLogin from './recent-login.ts'

/** What fastify-cli opens under `npm run dev`: the service, and the routes that only the playground needs. */
export { options }

const api: FastifyPluginAsync = async (fastify: FastifyInstance, given: object) => {
  // Called, not registered: in a scope of its own the guards would not reach the route.
  await app(fastify, given)
  await fastify.register(recentLogin)
  await fastify.register(openStream)
}
export default api
