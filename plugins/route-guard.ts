import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { guardOf } from '../lib/guard/requirement.ts'
import type { RouteGuard } from '../lib/guard/requirement.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route's guards ask for; absent where it has none. */
    guard?: RouteGuard
  }
}

/** Notes on each route what it is guarded with, before another plugin may wrap its hooks. */
export default fp(async (app: FastifyInstance) => {
  app.addHook('onRoute', route => {
    const guard = guardOf(route)
    if (guard) route.config = { ...route.config, guard }
  })
}, { name: 'route-guard' })
