import holdfast from 'holdfast'
import orders from './routes/orders.js'

/** `guard`: options in place of those of the environment. Tests have their own. */
export default async function app (fastify, { guard }) {
  const { IDP_DOMAIN, IDP_ISSUER, IDP_AUDIENCE, PUBLIC_URL } = process.env
  await fastify.register(holdfast, guard ?? { IDP_DOMAIN, IDP_ISSUER, IDP_AUDIENCE, PUBLIC_URL })

  fastify.get('/health', () => ({ ok: true }))
  await fastify.register(orders)
}
