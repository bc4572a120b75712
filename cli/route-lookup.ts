import { join } from 'node:path'
import { findRule, type FoundRule } from './explain/rule.ts'
import type { FastifyInstance, HTTPMethods, RouteOptions } from 'fastify'
import type { GateSettings } from '../lib/gate/gate-settings.ts'
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

export type FoundRoute =
  /** `methods`: those that the path takes. */
  | { readonly kind: 'none', readonly methods: readonly string[] }
  | { readonly kind: 'open' }
  | { readonly kind: 'guarded', readonly requirements: readonly Requirement[] }

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/**
 * Asks the routes of the service themselves, by its own router, what guards a request; nothing else of the service is
 * started.
 */
export async function lookUpRoute (method: string, target: string, settings: Settings): Promise<FoundRoute> {
  if (settings.gate) return lookUpRule(method, target, settings.gate)
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
  await app.register(autoload, { dir: join(import.meta.dirname, '..', 'routes', 'api'), options: { prefix: '/api' } })
  const ask = async (asked: string): Promise<FoundRoute | undefined> => {
    found = undefined
    try {
      await app.inject({ method: asked as HTTPMethods, url: target })
    } catch {
      // What no client can send has no route.
    }
    return found
  }
  try {
    const route = await ask(method)
    if (route !== undefined) return route
    const methods: string[] = []
    for (const other of METHODS) if (await ask(other) !== undefined) methods.push(other)
    return { kind: 'none', methods }
  } finally {
    await app.close()
  }
}

/** Asks the rules of the gate. Each client of the Model Context Protocol begins with this message. */
function lookUpRule (method: string, target: string, settings: GateSettings): FoundRoute {
  const ask = (asked: string): FoundRule =>
    findRule({ method: asked, target, message: { method: 'initialize', name: undefined } }, settings)
  const found = ask(method)
  const rule = found.kind === 'rule' ? found.rule : found.kind === 'none' ? found.pathRules?.rules[0] : undefined
  if (rule?.requirement) return { kind: 'guarded', requirements: [rule.requirement] }
  if (rule || found.kind === 'own') return { kind: 'open' }
  return { kind: 'none', methods: found.kind === 'none' ? METHODS.filter(other => ask(other).kind === 'rule') : [] }
}
