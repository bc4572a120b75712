import type { FastifyInstance, RouteOptions } from 'fastify'
import {
  hooksAround,
  kRouteGuard,
  refuseLateGuards,
  requirementsOf,
  scopesOf,
  type MayHaveGuard
} from '../../lib/guard/requirement/route-guard.ts'
import type { Requirement } from '../../lib/guard/requirement/requirement.ts'

/**
 * Notes the guards of each route: its own, before another plugin may wrap them, and those of the hooks around it. A
 * guard in the wrong place stops the start.
 * @returns every scope that a guard of any route names, complete once the app is ready
 */
export function noteGuards (app: FastifyInstance): Set<string> {
  const scopes = new Set<string>()
  const noted: Array<() => void> = []
  app.addHook('onRoute', function (this: FastifyInstance, route: RouteOptions) {
    refuseLateGuards(route)
    const requirements: Requirement[] = []
    const own = { ...route }
    // It is complete once the app is ready. There are no requirements if nothing guards the route.
    route.config = Object.assign({ ...route.config }, { [kRouteGuard]: requirements } satisfies MayHaveGuard)
    // A hook that a plugin adds also holds for the routes that the plugin has registered before.
    noted.push(() => {
      const around = hooksAround(this)
      refuseLateGuards(around)
      requirements.push(...requirementsOf(around, own))
      for (const scope of requirements.flatMap(scopesOf)) scopes.add(scope)
    })
  })
  app.addHook('onReady', async () => {
    for (const note of noted) note()
  })
  return scopes
}
