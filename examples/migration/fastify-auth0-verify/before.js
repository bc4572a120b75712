import auth0Verify from 'fastify-auth0-verify'
import Fastify from 'fastify'

const { ISSUER, AUDIENCE, PORT } = process.env

const app = Fastify()
await app.register(auth0Verify, { domain: ISSUER, audience: AUDIENCE })

app.get('/orders', { onRequest: app.authenticate }, request => ({ of: request.user.sub }))

await app.listen({ port: Number(PORT) })
