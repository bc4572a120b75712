import type { FastifyPluginAsync } from 'fastify'
import { messageSchema, withExample } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async app => {
  const answer = { message: 'Whoever reads this may administer.' }
  const guarded = {
    onRequest: app.requireScope('admin'),
    schema: { summary: 'What administrators may read', response: { 200: withExample(messageSchema, answer) } }
  }

  app.get('/admin', guarded, () => answer)
  app.get('/admin/*', guarded, () => answer)
}
export default routes
