import type { FastifyPluginAsync } from 'fastify'
import { messageSchema } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async (app) => {
  const guarded = { onRequest: app.requireScope({ any: ['read:users', 'write:users'] }), schema: { response: { 200: messageSchema } } }
  const answer = () => ({ message: 'Whoever reads this may read or write users.' })

  app.get('/users', guarded, answer)
  app.get('/users/*', guarded, answer)
}
export default routes
