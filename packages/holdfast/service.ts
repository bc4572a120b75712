import type { FastifyInstance } from 'fastify'
import type { HoldfastOptions } from '../../lib/settings/option-types.ts'
import { ownOptions, settingsFromOptions, withTrustOf } from '../../lib/settings/options.ts'
import { kTestDoubles, type MayHaveTestDoubles } from '../../server/surroundings.ts'

/** The packages of the service beside those of the guard: optional peers of this package. */
const SERVICE_PACKAGES = [
  '@fastify/autoload',
  '@fastify/cors',
  '@fastify/env',
  '@fastify/helmet',
  '@fastify/sensible',
  '@fastify/swagger',
  '@fastify/under-pressure',
  'prom-client'
] as const

/**
 * The whole service as a plugin with the options of the guard. It stays in its own scope, so its error answers and its
 * hooks do not reach the routes of the app around it.
 * @throws Error that names the packages that are missing
 * @example
 * await app.register(service, { prefix: '/svc', idp: { domain: 'tenant.example', audience: 'https://api.example' } })
 */
export default async function service (given: object, options: HoldfastOptions): Promise<void> {
  // As of the guard, any Fastify of the range has it.
  const app = given as FastifyInstance
  const missing = SERVICE_PACKAGES.filter(name => !isInstalled(name))
  if (missing.length > 0) {
    throw new Error(`holdfast/service needs packages that are not installed: npm i ${missing.join(' ')}`)
  }
  // Only the service loads it: it imports those packages.
  const { holdfast, judgeSettings } = await import('../../holdfast.ts')
  const settings = await judgeSettings(withTrustOf(app, settingsFromOptions(ownOptions(options))).options)
  const doubles = (options as MayHaveTestDoubles)[kTestDoubles]
  if (doubles) app.decorate(kTestDoubles, doubles)
  await app.register(holdfast, { settings })
}

function isInstalled (name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}
