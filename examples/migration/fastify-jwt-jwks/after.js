import Fastify from 'fastify'
import holdfast from 'holdfast'

const { ISSUER, AUDIENCE, PORT } = process.env

const app = Fastify()
await app.register(holdfast, { idp: { issuer: ISSUER, audience: AUDIENCE } })

app.get('/orders', { onRequest: app.authenticate() }, request => ({ of: request.user.sub }))

await app.listen({ port: Number(PORT) })
