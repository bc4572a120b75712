import Fastify from 'fastify'
import jwtJwks from 'fastify-jwt-jwks'

const { ISSUER, AUDIENCE, PORT } = process.env

const app = Fastify()
await app.register(jwtJwks, { jwksUrl: `${ISSUER}keys`, issuer: ISSUER, audience: AUDIENCE })

app.get('/orders', { onRequest: app.authenticate }, request => ({ of: request.user.sub }))

await app.listen({ port: Number(PORT) })
