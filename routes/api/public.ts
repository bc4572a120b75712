import type { FastifyPluginAsync } from 'fastify'
import { messageSchema, withExample } from '../../schemas/answers.ts'

const answer = { message: 'Anyone may read this.' }
const schema = { summary: 'What anyone may read', response: { 200: withExample(messageSchema, answer) } }

const routes: FastifyPluginAsync = async app => {
  app.get('/public', { schema }, () => answer)
}
export default routes
