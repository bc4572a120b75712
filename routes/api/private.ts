import type { FastifyPluginAsync } from 'fastify'
import { EXAMPLE_CLIENT, principalSchema, subjectSchema, withExample } from '../../schemas/answers.ts'

const summary = 'Who calls'
const message = 'Whoever reads this has a valid access token.'

const routes: FastifyPluginAsync = async app => {
  if (app.settings.api.profile === '1') {
    const example = { message, user_id: EXAMPLE_CLIENT.sub }
    app.get('/private', {
      onRequest: app.authenticate(),
      schema: { summary, response: { 200: withExample(subjectSchema, example) } }
    }, request => ({
      message,
      user_id: request.user.sub
    }))
  } else {
    const example = { message, user: EXAMPLE_CLIENT.sub, scopes: EXAMPLE_CLIENT.scope.split(' ').map(asAuthority) }
    app.get('/private', {
      onRequest: app.authenticate(),
      schema: { summary, response: { 200: withExample(principalSchema, example) } }
    }, request => ({
      message,
      user: request.user.sub,
      scopes: request.auth!.scopes.map(asAuthority)
    }))
  }
}
export default routes

function asAuthority (scope: string): string {
  return `SCOPE_${scope}`
}
