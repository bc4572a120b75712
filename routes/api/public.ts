import type { FastifyPluginAsync } from 'fastify'
import { messageSchema } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async (app) => {
  app.get('/public', { schema: { response: { 200: messageSchema } } }, () => ({
    message: 'Anyone may read this.'
  }))
}
export default routes
