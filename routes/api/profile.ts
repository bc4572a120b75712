import type { FastifyPluginAsync } from 'fastify'
import { claimsSchema, profileSchema, stringOrNull, stringsOrEmpty } from '../../schemas/answers.ts'

const routes: FastifyPluginAsync = async (app) => {
  const { API_PROFILE, IDP_CUSTOM_CLAIM } = app.settings

  if (API_PROFILE === '1') {
    app.get('/profile', { onRequest: app.authenticate(), schema: { response: { 200: profileSchema } } }, ({ user }) => ({
      user_id: user.sub,
      email: stringOrNull(user.email),
      permissions: stringsOrEmpty(user.permissions),
      custom_claim: IDP_CUSTOM_CLAIM === undefined ? null : user[IDP_CUSTOM_CLAIM] ?? null
    }))
  } else {
    app.get('/profile', { onRequest: app.authenticate(), schema: { response: { 200: claimsSchema } } }, ({ user }) => ({
      userId: user.sub,
      email: stringOrNull(user.email),
      scope: stringOrNull(user.scope),
      issuer: user.iss,
      audience: user.aud
    }))
  }
}
export default routes
