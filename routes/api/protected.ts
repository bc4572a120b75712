import type { FastifyPluginAsync } from 'fastify'
import { messageSchema, withExample } from '../../schemas/answers.ts'

const answer = { message: 'Whoever reads this has a valid access token, whatever its claims say.' }
const schema = { summary: 'What anyone with a token may read', response: { 200: withExample(messageSchema, answer) } }

const routes: FastifyPluginAsync = async app => {
  app.get('/protected', { onRequest: app.authenticate(), schema }, () => answer)
}
export default routes
