import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { OpenapiDocument } from '../lib/report/openapi/document.ts'
import { PAGE_STYLE, placeAddress, renderPage } from './docs/docs-page.ts'
import { Refusal } from '../lib/refusal.ts'

/** `/docs`: the reference as one page without scripts, and `/docs/json`: the OpenAPI document. */
const routes: FastifyPluginAsync<{ ownPrefix: string }> = async (app, { ownPrefix }) => {
  let texts: { readonly page: string, readonly json: string } | undefined

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

  // The address follows from headers of the request, so that neither answer may be cached for others.
  app.get(`${ownPrefix}/docs`, options, (request, reply) =>
    reply
      .header('cache-control', 'no-store')
      .type('text/html; charset=utf-8')
      .send(pageAt(addressFor(request).replace(/\/$/, ''))))

  app.get(`${ownPrefix}/docs/json`, options, (request, reply) =>
    reply
      .header('cache-control', 'no-store')
      .type('application/json; charset=utf-8')
      // Only the address differs between clients. The rest is the same for everyone and is made once.
      .send(jsonAt(addressFor(request))))

  // Nearly all clients use one address. Answers that wait for their clients then share their bytes.
  const pageAt = keepLast(address => placeAddress(documents().page, address))
  const jsonAt = keepLast(address => `{"servers":${JSON.stringify([{ url: address }])},${documents().json.slice(1)}`)

  function documents () {
    if (!texts) {
      const document = app.swagger() as unknown as OpenapiDocument
      texts = { page: renderPage(document), json: JSON.stringify(document) }
    }
    return texts
  }

  function addressFor (request: FastifyRequest): string {
    try {
      return app.baseUrlOf(request).href
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      // The URL is relative to the location of the document.
      return '/'
    }
  }
}

/** Makes a text for an address, and keeps the last one. */
function keepLast (make: (address: string) => string): (address: string) => Buffer {
  let last: { readonly address: string, readonly bytes: Buffer } | undefined
  return address => {
    if (last?.address !== address) last = { address, bytes: Buffer.from(make(address)) }
    return last.bytes
  }
}

export default routes
