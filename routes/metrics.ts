import type { FastifyPluginAsync } from 'fastify'
import { metricsSchema } from '../schemas/operation.ts'

/** `/metrics` for Prometheus. It answers under overload too, so its text is shared: see plugins/metrics.ts. */
const routes: FastifyPluginAsync<{ ownPrefix: string }> = async (app, { ownPrefix }) => {
  const { metricsText } = app
  if (!metricsText) return

  app.get(`${ownPrefix}/metrics`, {
    config: { essential: true },
    schema: {
      summary: 'Metrics for Prometheus',
      tags: ['Operation'],
      produces: ['text/plain'],
      response: { 200: metricsSchema }
    }
  }, async (_request, reply) => {
    const { contentType, bytes } = await metricsText()
    return reply.header('cache-control', 'no-store').type(contentType).send(bytes)
  })
}
export default routes
