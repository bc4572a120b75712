import type { FastifyPluginAsync } from 'fastify'
import { messageSchema } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async (app) => {
  app.get('/protected', { onRequest: app.authenticate(), schema: { response: { 200: messageSchema } } }, () => ({
    message: 'Whoever reads this has a valid access token, whatever its claims say.'
  }))
}
export default routes
