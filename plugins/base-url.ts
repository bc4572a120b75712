import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createBaseUrlResolver } from '../lib/guard/url/base-url.ts'
import type { HttpUrl } from '../lib/guard/url/http-url.ts'
import { readMessage } from '../lib/guard/message.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The address under which the client of a request reaches the service. DPoP proofs are compared with it.
     * @throws Refusal
     */
    baseUrlOf (request: FastifyRequest): HttpUrl
  }
}

/** Decorates `app.baseUrlOf(request)`, for documents that name the service's own address. */
export default fp(async (app: FastifyInstance) => {
  const { trustProxy, publicUrl } = app.settings.server
  const resolve = createBaseUrlResolver({ trustProxy, publicUrl })
  app.decorate('baseUrlOf', request => resolve(readMessage(request.raw)))
}, { name: 'base-url' })
