import { join } from 'node:path'
import autoload from '@fastify/autoload'
import Fastify from 'fastify'
import type { HTTPMethods, RouteOptions } from 'fastify'
import { readRouteGuard } from '../lib/guard/requirement.ts'
import type { RouteGuard } from '../lib/guard/requirement.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { parseScopeRequirement } from '../lib/token/scopes.ts'
import type { ScopeRequirement } from '../lib/token/scopes.ts'

// The routes are TypeScript here. Autoload does not see by itself that Node can load it when tsx came by --import.
process.env['FASTIFY_AUTOLOAD_TYPESCRIPT'] ??= '1'

export type FoundRoute = { readonly kind: 'none' | 'open' } | { readonly kind: 'guarded', readonly requirements: readonly ScopeRequirement[] }

/** Asks the routes of the service themselves, by its own router, what guards a request; nothing else of the service is started. */
export async function lookUpRoute (method: string, target: string, settings: Settings): Promise<FoundRoute> {
  const app = Fastify()
  const guards = new Map<string, RouteGuard | undefined>()
  const guard = (requirement: ScopeRequirement | null): object => Object.assign(() => {}, { requirement })
  app.decorate('settings', settings)
  app.decorate('authenticate', (() => guard(null)) as never)
  app.decorate('requireScope', ((...scopes: Parameters<typeof parseScopeRequirement>) => guard(parseScopeRequirement(...scopes))) as never)
  app.addHook('onRoute', ({ url, onRequest }: RouteOptions) => { guards.set(url, readRouteGuard([onRequest].flat())) })
  let found: FoundRoute = { kind: 'none' }
  app.addHook('onRequest', async ({ routeOptions: { url } }, reply) => {
    if (url !== undefined && guards.has(url)) {
      const requirements = guards.get(url)?.requirements
      found = requirements ? { kind: 'guarded', requirements } : { kind: 'open' }
    }
    return reply.send()
  })
  await app.register(autoload, { dir: join(import.meta.dirname, '..', 'routes'), options: { prefix: '/api' } })
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
