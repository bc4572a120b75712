import type { FastifyPluginAsync } from 'fastify'
import 'holdfast'

const routes: FastifyPluginAsync = async app => {
  app.get('/orders', { onRequest: app.requireScope('read:orders') }, request => ({ of: request.user.sub }))
}

export default routes
