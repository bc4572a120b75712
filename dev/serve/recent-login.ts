import type { FastifyPluginAsync } from 'fastify'

/**
 * `GET /dev/recent-login`: wants a login of the last minute (RFC 9470). The service itself has no such route: `npm run
 * dev` adds it, for the playground.
 */
const routes: FastifyPluginAsync = async app => {
  app.get('/dev/recent-login', {
    onRequest: app.require({ maxAgeSeconds: 60 }),
    schema: { summary: 'For a login of the last minute; only under npm run dev' }
  }, () => ({ message: 'You logged in a moment ago.' }))
}
export default routes
