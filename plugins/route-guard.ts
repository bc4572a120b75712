import type { FastifyInstance, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import {
  hooksAround,
  kRouteGuard,
  requirementsOf,
  scopesOf,
  type MayHaveGuard
} from '../lib/guard/requirement/route-guard.ts'
import type { Requirement } from '../lib/guard/requirement/requirement.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Every scope that a guard of any route names, complete once the app is ready. */
    guardedScopes: Set<string>
  }
}

/** Notes the guards of each route: its own, before another plugin may wrap them, and those of the hooks around it. */
export default fp(async (app: FastifyInstance) => {
  const guardedScopes = new Set<string>()
  app.decorate('guardedScopes', guardedScopes)
  const noted: Array<() => void> = []

  app.addHook('onRoute', function (this: FastifyInstance, route: RouteOptions) {
    const requirements: Requirement[] = []
    const own = { ...route }
    // It is complete once the app is ready. There are no requirements if nothing guards the route.
    route.config = Object.assign({ ...route.config }, { [kRouteGuard]: requirements } satisfies MayHaveGuard)
    // A hook that a plugin adds also holds for the routes that the plugin has registered before.
    noted.push(() => {
      requirements.push(...requirementsOf(hooksAround(this), own))
      for (const scope of requirements.flatMap(scopesOf)) guardedScopes.add(scope)
    })
  })
  app.addHook('onReady', async () => {
    for (const note of noted) note()
  })
}, { name: 'route-guard' })
