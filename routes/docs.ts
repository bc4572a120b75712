import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { OpenapiDocument } from '../lib/report/openapi/document.ts'
import { PAGE_STYLE, renderPage } from './docs/page.ts'
import { Refusal } from '../lib/refusal.ts'

/** `/docs`: the reference as one page without scripts, and `/docs/json`: the OpenAPI document. */
const routes: FastifyPluginAsync<{ ownPrefix: string }> = async (app, { ownPrefix }) => {
  // Each route file has its own scope, so the API does not pay for the headers of this page.
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        styleSrc: [`'sha256-${createHash('sha256').update(PAGE_STYLE).digest('base64')}'`],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"]
      }
    },
    frameguard: { action: 'deny' },
    // Whether clients must use https for this host is decided by the program that ends TLS.
    strictTransportSecurity: false,
    // Browser applications and tools of other origins may read the document.
    crossOriginResourcePolicy: { policy: 'cross-origin' }
  })
  const options = { config: { essential: true }, schema: { hide: true } }

  // It has all routes only once they are registered. Answers that wait for their clients share their bytes.
  let texts: { readonly page: Buffer, readonly json: string } | undefined
  function documents () {
    if (!texts) {
      const document = app.swagger() as unknown as OpenapiDocument
      texts = { page: Buffer.from(renderPage(document)), json: JSON.stringify(document) }
    }
    return texts
  }
  // Nearly all clients use one address.
  let last: { readonly address: string, readonly bytes: Buffer } | undefined
  function jsonAt (address: string) {
    if (last?.address !== address) {
      const json = `{"servers":${JSON.stringify([{ url: address }])},${documents().json.slice(1)}`
      last = { address, bytes: Buffer.from(json) }
    }
    return last.bytes
  }

  app.get(`${ownPrefix}/docs`, options, (_request, reply) =>
    reply.header('cache-control', 'no-store').type('text/html; charset=utf-8').send(documents().page))

  // The address follows from headers of the request, so that the answer may not be cached for others.
  app.get(`${ownPrefix}/docs/json`, options, (request, reply) =>
    reply
      .header('cache-control', 'no-store')
      .type('application/json; charset=utf-8')
      // Only the address differs between clients. The rest is the same for everyone and is made once.
      .send(jsonAt(addressFor(request))))

  function addressFor (request: FastifyRequest) {
    try {
      return app.baseUrlOf(request).href
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      // The URL is relative to the location of the document.
      return '/'
    }
  }
}

export default routes
