import type { FastifyPluginAsync } from 'fastify'
import type { TokenClaims } from '../../lib/guard/token/jwt-checks.ts'
import { claimsSchema, EXAMPLE_CLIENT, profileSchema, withExample } from '../../schemas/answers.ts'

const summary = 'What the token says of who calls'

const routes: FastifyPluginAsync = async app => {
  const {
    customClaim,
    issuers: [{ issuer, audiences: [audience] } = {
      issuer: 'https://idp.example/',
      audiences: ['https://api.example']
    }]
  } = app.settings.idp
  const { sub, email, permissions, scope } = EXAMPLE_CLIENT

  if (app.settings.api.profile === '1') {
    const example = { user_id: sub, email, permissions, custom_claim: null }
    app.get('/profile', {
      onRequest: app.authenticate(),
      schema: { summary, response: { 200: withExample(profileSchema, example) } }
    }, ({ user }) => ({
      user_id: user.sub,
      email: stringOrNull(user.email),
      permissions: stringsOrEmpty(user.permissions),
      custom_claim: customClaim === undefined ? null : (user as TokenClaims)[customClaim] ?? null
    }))
  } else {
    const example = { userId: sub, email, scope, issuer, audience }
    app.get('/profile', {
      onRequest: app.authenticate(),
      schema: { summary, response: { 200: withExample(claimsSchema, example) } }
    }, ({ user }) => ({
      userId: user.sub,
      email: stringOrNull(user.email),
      scope: stringOrNull(user.scope),
      issuer: user.iss,
      // Some issuers leave it out: idp.audienceClaim, and answers about opaque tokens.
      audience: (user.aud as typeof user.aud | undefined) ?? null
    }))
  }
}
export default routes

/** A claim as a string, or null if it is absent or has another type. */
function stringOrNull (claim: unknown): string | null {
  return typeof claim === 'string' ? claim : null
}

/** A claim as a list of strings. The list is empty if the claim is absent or has another type. */
function stringsOrEmpty (claim: unknown): readonly string[] {
  return Array.isArray(claim) && claim.every(entry => typeof entry === 'string') ? claim : []
}
