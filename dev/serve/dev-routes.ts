import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyPluginAsync } from 'fastify'
import { decodeJwt } from 'jose'
import type { RevocableToken } from '../../lib/revocation/target.ts'

const PAUSE_MS = 1000

/**
 * Routes for the playground, which `npm run dev` adds: the service itself has none of them. `GET /dev/recent-login`
 * wants a login of the last minute (RFC 9470). `GET /dev/stream`: server-sent events without end. `GET
 * /dev/revocation`: what has revoked the token of the request, or null. It checks nothing of the token.
 */
const routes: FastifyPluginAsync = async app => {
  app.get('/dev/recent-login', {
    onRequest: app.require({ maxAgeSeconds: 60 }),
    schema: { summary: 'For a login of the last minute; only under npm run dev' }
  }, () => ({ message: 'You logged in a moment ago.' }))

  const { revocation } = app.holdfastGuard.parts
  if (!revocation) return
  app.get('/dev/stream', { onRequest: app.authenticate(), schema: { hide: true } }, (_request, reply) =>
    reply.type('text/event-stream').header('cache-control', 'no-store').send(Readable.from(events())))

  app.get('/dev/revocation', { schema: { hide: true } }, ({ headers }, reply) => {
    const claims = decodeJwt<{ cnf?: { jkt?: string } }>(String(headers.authorization).split(' ')[1] ?? '')
    const revokedBy = revocation.revocations.revocationOf({
      claims,
      issuer: claims.iss,
      binding: { jkt: claims.cnf?.jkt, x5tS256: undefined }
    } as unknown as RevocableToken)
    reply.header('cache-control', 'no-store').type('application/json').send(JSON.stringify(revokedBy ?? null))
  })
}
export default routes

async function * events (): AsyncGenerator<string> {
  for (let number = 1; ; number++) {
    yield `id: ${number}\ndata: event ${number}\n\n`
    await delay(PAUSE_MS)
  }
}
