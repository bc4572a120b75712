import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../lib/refusal.ts'
import { describeResource, METADATA_PATH, mountedAt } from '../lib/guard/resource-metadata.ts'
import { resourceMetadataSchema } from '../schemas/operation.ts'

const FRESH_SECONDS = 300

/** What stands after the well-known path, as it came in. */
function prefixAskedFor (target: string): string {
  return target.slice(target.indexOf(METADATA_PATH) + METADATA_PATH.length).split('?', 1)[0]!
}

/** `/.well-known/oauth-protected-resource` (RFC 9728): tells a client that knows the address alone where to get tokens, and which. */
const routes: FastifyPluginAsync = async (app) => {
  const { settings, guardedScopes } = app

  app.get(METADATA_PATH, {
    config: { essential: true },
    schema: { summary: 'Metadata of the protected resource', tags: ['Discovery'], response: { 200: resourceMetadataSchema } }
  }, (request, reply) => answer(request, reply, undefined))

  // RFC 9728 section 3.1: a resource whose address has a path is described at the well-known path with that path after it.
  app.get(`${METADATA_PATH}/*`, {
    config: { essential: true },
    schema: { hide: true, response: { 200: resourceMetadataSchema } }
  }, (request, reply) => answer(request, reply, prefixAskedFor(request.url)))

  function answer (request: FastifyRequest, reply: FastifyReply, prefix: string | undefined) {
    const base = baseUrlOf(request)
    // Section 3.3: metadata may only be used for the resource whose address was asked about.
    if (prefix !== undefined && prefix !== base.prefix) return reply.callNotFound()
    // Without PUBLIC_URL the answer follows from headers of this request, and is nobody else's.
    reply.header('cache-control', settings.PUBLIC_URL === undefined ? 'no-store' : `max-age=${FRESH_SECONDS}`)
    return reply.send(describeResource(base, [...guardedScopes].sort(), settings))
  }

  function baseUrlOf (request: FastifyRequest) {
    try {
      return mountedAt(app.baseUrlOf(request), app.prefix)
    } catch (error) {
      // Nobody asked for credentials here, so it is no 401.
      throw error instanceof Refusal ? app.httpErrors.badRequest(error.message) : error
    }
  }
}
export default routes
