import type { FastifyPluginAsync } from 'fastify'
import { subjectSchema } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async (app) => {
  app.get('/private-scoped', { onRequest: app.requireScope('read:messages'), schema: { response: { 200: subjectSchema } } }, request => ({
    message: 'Whoever reads this may read messages.',
    user_id: request.user.sub
  }))
}
export default routes
