import Fastify from 'fastify'
import proxy from '@fastify/http-proxy'

// The yardstick of the gate: a reverse proxy in Fastify that guards nothing.
const app = Fastify()
await app.register(proxy, { upstream: process.env.UPSTREAM })
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
