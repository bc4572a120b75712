import type { FastifyPluginAsync } from 'fastify'
import { messageSchema } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async (app) => {
  const guarded = { onRequest: app.requireScope('admin'), schema: { response: { 200: messageSchema } } }
  const answer = () => ({ message: 'Whoever reads this may administer.' })

  app.get('/admin', guarded, answer)
  app.get('/admin/*', guarded, answer)
}
export default routes
