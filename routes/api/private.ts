import type { FastifyPluginAsync } from 'fastify'
import { principalSchema, subjectSchema } from '../../schemas/answers.ts'

const message = 'Whoever reads this has a valid access token.'

const routes: FastifyPluginAsync = async (app) => {
  if (app.settings.API_PROFILE === '1') {
    app.get('/private', { onRequest: app.authenticate(), schema: { response: { 200: subjectSchema } } }, request => ({
      message,
      user_id: request.user.sub
    }))
  } else {
    app.get('/private', { onRequest: app.authenticate(), schema: { response: { 200: principalSchema } } }, request => ({
      message,
      user: request.user.sub,
      scopes: request.auth!.scopes.map(scope => `SCOPE_${scope}`)
    }))
  }
}
export default routes
