import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Refusal } from '../lib/refusal.ts'
import { describeResource, METADATA_PATH, mountedAt } from '../lib/resource-metadata.ts'
import { scopesOf } from '../lib/guard/requirement.ts'

const string = { type: 'string' } as const
const strings = { type: 'array', items: string } as const

const metadataSchema = {
  type: 'object',
  description: 'Metadata of this protected resource (RFC 9728).',
  required: ['resource', 'bearer_methods_supported', 'dpop_bound_access_tokens_required'],
  properties: {
    resource: string,
    authorization_servers: strings,
    scopes_supported: strings,
    bearer_methods_supported: strings,
    resource_name: string,
    resource_documentation: string,
    dpop_bound_access_tokens_required: { type: 'boolean' },
    dpop_signing_alg_values_supported: strings
  }
} as const

const FRESH_SECONDS = 300

/** What stands after the well-known path, as it came in. */
function prefixAskedFor (target: string): string {
  return target.slice(target.indexOf(METADATA_PATH) + METADATA_PATH.length).split('?', 1)[0]!
}

/** `/.well-known/oauth-protected-resource` (RFC 9728): tells a client that knows the address alone where to get tokens, and which. */
export default fp(async (app: FastifyInstance) => {
  const { settings } = app
  const scopes = new Set<string>()

  app.addHook('onRoute', ({ config }) => {
    if (config?.guard) for (const scope of config.guard.requirements.flatMap(scopesOf)) scopes.add(scope)
  })

  app.get(METADATA_PATH, {
    config: { essential: true },
    schema: { summary: 'Metadata of the protected resource', tags: ['Discovery'], response: { 200: metadataSchema } }
  }, (request, reply) => answer(request, reply, undefined))

  // RFC 9728 section 3.1: a resource whose address has a path is described at the well-known path with that path after it.
  app.get(`${METADATA_PATH}/*`, {
    config: { essential: true },
    schema: { hide: true, response: { 200: metadataSchema } }
  }, (request, reply) => answer(request, reply, prefixAskedFor(request.url)))

  function answer (request: FastifyRequest, reply: FastifyReply, prefix: string | undefined) {
    const base = baseUrlOf(request)
    // Section 3.3: metadata may only be used for the resource whose address was asked about.
    if (prefix !== undefined && prefix !== base.prefix) return reply.callNotFound()
    // Without PUBLIC_URL the answer follows from headers of this request, and is nobody else's.
    reply.header('cache-control', settings.PUBLIC_URL === undefined ? 'no-store' : `max-age=${FRESH_SECONDS}`)
    return reply.send(describeResource(base, [...scopes].sort(), settings))
  }

  function baseUrlOf (request: FastifyRequest) {
    try {
      return mountedAt(app.baseUrlOf(request), app.prefix)
    } catch (error) {
      // Nobody asked for credentials here, so it is no 401.
      throw error instanceof Refusal ? app.httpErrors.badRequest(error.message) : error
    }
  }
}, { name: 'resource-metadata', dependencies: ['route-guard', 'base-url', 'sensible', 'openapi', 'pressure', 'metrics'] })
