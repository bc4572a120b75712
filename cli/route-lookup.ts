import { join } from 'node:path'
import type { FastifyInstance, HTTPMethods, RouteOptions } from 'fastify'
import {
  ANY_TOKEN,
  parseRequiredScopes,
  parseRequirement,
  type RequiredScopes,
  type Requirement,
  type RequirementOptions
} from '../lib/guard/requirement/requirement.ts'
import { hooksAround, requirementsOf } from '../lib/guard/requirement/route-guard.ts'
import type { Settings } from '../lib/settings/settings.ts'

type FoundRoute =
  | { readonly kind: 'none' }
  /** A route file needs what only the service has, such as a decorator of plugins/own/. */
  | { readonly kind: 'unknown', readonly fault: string }
  | { readonly kind: 'open' }
  | { readonly kind: 'guarded', readonly requirements: readonly Requirement[] }

/**
 * Asks the routes of the service themselves, by its own router, what guards a request; nothing else of the service is
 * started.
 */
export async function lookUpRoute (
  method: string,
  target: string,
  settings: Settings,
  dir = join(import.meta.dirname, '..', 'routes', 'api')
): Promise<FoundRoute> {
  // Only the routes need them, and they take long to load.
  const [{ default: Fastify }, { default: autoload }] = await Promise.all([
    import('fastify'),
    import('@fastify/autoload')
  ])
  const app = Fastify()
  const guards = new Map<string, () => readonly Requirement[]>()
  // It carries its requirement, and is never called.
  const guard = (requirement: Requirement) => Object.assign(async () => {}, { requirement })
  app.decorate('settings', settings)
  app.decorate(
    'authenticate',
    Object.assign(() => guard(ANY_TOKEN), { requirement: ANY_TOKEN }) as FastifyInstance['authenticate']
  )
  app.decorate('require', (options: RequirementOptions) => guard(parseRequirement(options)))
  app.decorate('requireScope', (...scopes: RequiredScopes) => guard(parseRequiredScopes(...scopes)))
  app.addHook('onRoute', function (this: object, route: RouteOptions) {
    guards.set(route.url, () => requirementsOf(hooksAround(this), route))
  })
  let found: FoundRoute | undefined
  app.addHook('onRequest', async ({ routeOptions: { url } }, reply) => {
    const requirements = url === undefined ? undefined : guards.get(url)?.()
    if (requirements) found = requirements.length > 0 ? { kind: 'guarded', requirements } : { kind: 'open' }
    return reply.send()
  })
  let isReady = false
  try {
    await app.register(autoload, { dir, options: { prefix: '/api' } })
    await app.ready()
    isReady = true
    await app.inject({ method: method as HTTPMethods, url: target })
  } catch (error) {
    if (!isReady) return { kind: 'unknown', fault: (error as Error).message }
    // What no client can send has no route.
  } finally {
    await app.close()
  }
  return found ?? { kind: 'none' }
}
