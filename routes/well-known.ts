import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../lib/refusal.ts'
import {
  describeResource,
  insertedPath,
  METADATA_PATH,
  resourceWarning
} from '../lib/assembly/resource-metadata.ts'
import { parsePublicUrl } from '../lib/guard/url/base-url.ts'
import { urlUnder, type HttpUrl } from '../lib/guard/url/http-url.ts'
import { withExample } from '../schemas/answers.ts'
import { resourceMetadataSchema } from '../schemas/operation.ts'

const FRESH_SECONDS = 300
/** The key set of the gate's statements. */
const STATEMENT_KEYS_PATH = '/.well-known/holdfast-jwks.json'

/** The rest of the path after the well-known path, as it was sent. */
function prefixAskedFor (target: string): string {
  return target.slice(target.indexOf(METADATA_PATH) + METADATA_PATH.length).split('?', 1)[0]!
}

/**
 * `/.well-known/oauth-protected-resource` (RFC 9728): tells a client that knows only the address where to get tokens,
 * and which tokens.
 */
const routes: FastifyPluginAsync = async app => {
  const { settings, holdfastGuard: { guardedScopes } } = app
  const ownResources = app.gate?.resources ?? new Map<string, ReadonlySet<string>>()
  const example = describeResource(parsePublicUrl('https://api.example')!, ['read:messages'], settings)
  const warning = resourceWarning(settings, app.prefix)
  if (warning !== undefined) app.log.warn(warning)

  app.get(METADATA_PATH, {
    config: { essential: true },
    schema: {
      summary: 'Metadata of the protected resource',
      tags: ['Discovery'],
      response: { 200: withExample(resourceMetadataSchema, example) }
    }
  }, (request, reply) => answer(request, reply, undefined))

  // RFC 9728 section 3.1: if the address of a resource has a path, the path follows the well-known path.
  app.get(`${METADATA_PATH}/*`, {
    config: { essential: true },
    schema: { hide: true, response: { 200: resourceMetadataSchema } }
  }, (request, reply) => answer(request, reply, prefixAskedFor(request.url)))

  if (app.gate?.keySet) {
    const { keySet } = app.gate
    app.get(STATEMENT_KEYS_PATH, { config: { essential: true }, schema: { hide: true } }, (_request, reply) =>
      reply
        .header('cache-control', `max-age=${FRESH_SECONDS}`)
        .type('application/json; charset=utf-8')
        .send(keySet()))
  }

  function answer (request: FastifyRequest, reply: FastifyReply, prefix: string | undefined) {
    const base = baseUrlOf(request)
    const metadata = metadataAt(prefix, base, request)
    if (!metadata) return reply.callNotFound()
    // Without PUBLIC_URL the answer follows from headers of this request, so it must not be cached for others.
    reply.header('cache-control', settings.server.publicUrl === undefined ? 'no-store' : `max-age=${FRESH_SECONDS}`)
    return reply.send(metadata)
  }

  /**
   * RFC 9728 section 3.3: a client may use metadata only for the resource whose address it asked about. It asks by the
   * identifier of the resource, or by the address under which it reaches the service. Rules of a gate may have
   * resources of their own, also on other hosts.
   */
  function metadataAt (prefix: string | undefined, base: HttpUrl, { url, headers: { host } }: FastifyRequest) {
    const own = [...ownResources].filter(([resource]) => insertedPath(resource) === (prefix ?? ''))
    const here = own.filter(([resource]) => [base.host, host].includes(new URL(resource).host))
    const search = url.slice(`${url}?`.indexOf('?'))
    const [resource, scopes] = here.find(([resource]) => new URL(resource).search === search) ?? here[0] ?? []
    if (resource !== undefined) return describeResource(base, [...scopes!].sort(), settings, resource)
    const metadata = describeResource(base, [...guardedScopes].sort(), settings)
    if (prefix === undefined || prefix === base.path) return metadata
    // The address that the client used has the path of the base, and may have a host that is in no URL of Node.
    if (metadata.resource !== base.href && prefix === insertedPath(metadata.resource)) return metadata
    const [first] = own
    return first && describeResource(base, [...first[1]].sort(), settings, first[0])
  }

  function baseUrlOf (request: FastifyRequest) {
    try {
      return urlUnder(app.baseUrlOf(request), app.prefix)
    } catch (error) {
      // No credentials were asked for here, so the status is not 401.
      throw error instanceof Refusal ? app.httpErrors.badRequest(error.message) : error
    }
  }
}
export default routes
