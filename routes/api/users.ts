import type { FastifyPluginAsync } from 'fastify'
import { messageSchema, withExample } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async app => {
  const answer = { message: 'Whoever reads this may read or write users.' }
  const schema = {
    summary: 'What those may read who read or write users',
    response: { 200: withExample(messageSchema, answer) }
  }
  const guarded = { onRequest: app.requireScope({ any: ['read:users', 'write:users'] }), schema }

  app.get('/users', guarded, () => answer)
  app.get('/users/*', guarded, () => answer)
}
export default routes
