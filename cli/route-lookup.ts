import { join } from 'node:path'
import autoload from '@fastify/autoload'
import Fastify from 'fastify'
import type { HTTPMethods, RouteOptions } from 'fastify'
import { ANY_TOKEN, guardOf, parseRequiredScopes } from '../lib/guard/requirement.ts'
import type { RequiredScopes, Requirement, RouteGuard } from '../lib/guard/requirement.ts'
import type { Settings } from '../lib/settings/settings.ts'

export type FoundRoute = { readonly kind: 'none' | 'open' } | { readonly kind: 'guarded', readonly requirements: readonly Requirement[] }

/** Asks the routes of the service themselves, by its own router, what guards a request; nothing else of the service is started. */
export async function lookUpRoute (method: string, target: string, settings: Settings): Promise<FoundRoute> {
  const app = Fastify()
  const guards = new Map<string, RouteGuard | undefined>()
  const guard = (requirement: Requirement): object => Object.assign(() => {}, { requirement })
  app.decorate('settings', settings)
  app.decorate('authenticate', (() => guard(ANY_TOKEN)) as never)
  app.decorate('requireScope', ((...scopes: RequiredScopes) => guard(parseRequiredScopes(...scopes))) as never)
  app.addHook('onRoute', (route: RouteOptions) => { guards.set(route.url, guardOf(route)) })
  let found: FoundRoute = { kind: 'none' }
  app.addHook('onRequest', async ({ routeOptions: { url } }, reply) => {
    if (url !== undefined && guards.has(url)) {
      const requirements = guards.get(url)?.requirements
      found = requirements ? { kind: 'guarded', requirements } : { kind: 'open' }
    }
    return reply.send()
  })
  await app.register(autoload, { dir: join(import.meta.dirname, '..', 'routes', 'api'), options: { prefix: '/api' } })
  try {
    await app.inject({ method: method as HTTPMethods, url: target })
    return found
  } catch {
    // What no client can send has no route.
    return { kind: 'none' }
  } finally {
    await app.close()
  }
}
