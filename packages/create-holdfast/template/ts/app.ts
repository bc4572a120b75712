import type { FastifyPluginAsync } from 'fastify'
import holdfast, { type HoldfastOptions } from 'holdfast'
import orders from './routes/orders.js'

export interface AppOptions {
  /** Options of the guard, in place of those of the environment: tests have their own. */
  readonly guard?: HoldfastOptions
}

const app: FastifyPluginAsync<AppOptions> = async (fastify, { guard }) => {
  const { IDP_DOMAIN, IDP_ISSUER, IDP_AUDIENCE, PUBLIC_URL } = process.env
  await fastify.register(holdfast, guard ?? { IDP_DOMAIN, IDP_ISSUER, IDP_AUDIENCE, PUBLIC_URL })

  fastify.get('/health', () => ({ ok: true }))
  await fastify.register(orders)
}

export default app
