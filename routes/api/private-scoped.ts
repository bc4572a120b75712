import type { FastifyPluginAsync } from 'fastify'
import { EXAMPLE_CLIENT, subjectSchema, withExample } from '../../schemas/answers.ts'

const message = 'Whoever reads this may read messages.'

const routes: FastifyPluginAsync = async app => {
  const schema = {
    summary: 'Who calls, if they may read messages',
    response: { 200: withExample(subjectSchema, { message, user_id: EXAMPLE_CLIENT.sub }) }
  }
  app.get('/private-scoped', { onRequest: app.requireScope('read:messages'), schema }, request => ({
    message,
    user_id: request.user.sub
  }))
}
export default routes
