import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { guardOf, scopesOf } from '../lib/guard/route-guard.ts'
import type { RouteGuard } from '../lib/guard/route-guard.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The requirement of the route's guards. Absent if the route has none. */
    guard?: RouteGuard
  }
  interface FastifyInstance {
    /** Every scope that a guard of any route names. */
    guardedScopes: ReadonlySet<string>
  }
}

/** Notes the guards of each route, before another plugin may wrap its hooks. */
export default fp(async (app: FastifyInstance) => {
  const guardedScopes = new Set<string>()
  app.decorate('guardedScopes', guardedScopes)

  app.addHook('onRoute', route => {
    const guard = guardOf(route)
    if (!guard) return
    route.config = { ...route.config, guard }
    for (const scope of guard.requirements.flatMap(scopesOf)) guardedScopes.add(scope)
  })
}, { name: 'route-guard' })
