import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { OpenapiDocument } from '../lib/openapi/document.ts'
import { PAGE_STYLE, renderPage } from '../schemas/docs-page.ts'
import { Refusal } from '../lib/refusal.ts'

/** `/docs`: the reference as one page without scripts, and `/docs/json`: the OpenAPI document. */
const routes: FastifyPluginAsync = async (app) => {
  let texts: { readonly page: string, readonly json: string } | undefined

  // A route file is a scope of its own, so that the API does not pay for page headers.
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
    // Whether the host is to be reached by https alone is for whoever ends TLS to say.
    strictTransportSecurity: false,
    // Browser applications and tools of other origins may read the document.
    crossOriginResourcePolicy: { policy: 'cross-origin' }
  })
  const options = { config: { essential: true }, schema: { hide: true } }

  app.get('/docs', options, (_request, reply) => reply.type('text/html; charset=utf-8').send(documents().page))

  app.get('/docs/json', options, (request, reply) => reply
    .header('cache-control', 'no-store')
    .type('application/json; charset=utf-8')
    // All but the address is the same for everyone, and made once.
    .send(`{"servers":${JSON.stringify([{ url: addressFor(request) }])},${documents().json.slice(1)}`))

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
      // Relative to where the document was had.
      return '/'
    }
  }
}
export default routes
