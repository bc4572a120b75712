import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { clientKey } from '../lib/client-key.ts'
import { Refusal } from '../lib/refusal.ts'

/** Clients whose requests are counted at a time; of more, the one that has been silent for longest starts anew. */
export const MAX_CLIENTS = 50_000
export const WINDOW_MS = 60_000

export interface RateLimitOptions {
  readonly maxClients?: number
}

/** Counts the requests of each client that have passed the guard of a route, where `RATE_LIMIT` asks for it, and answers 429 to those beyond. */
export default fp<RateLimitOptions>(async (app: FastifyInstance, { maxClients = MAX_CLIENTS }) => {
  const { rateLimit } = app.settings
  if (rateLimit === undefined) return

  const { challenges, tally } = app.guardParts
  const { default: fastifyRateLimit } = await import('@fastify/rate-limit')
  const none = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false }
  await app.register(fastifyRateLimit, {
    global: false,
    max: rateLimit,
    timeWindow: WINDOW_MS,
    cache: maxClients,
    keyGenerator: ({ auth, user }) => clientKey(auth!.jkt, user.sub),
    addHeadersOnExceeding: none,
    addHeaders: { ...none, 'retry-after': false },
    errorResponseBuilder: (request, { ttl }) => refuse(request, ttl / 1000)
  })
  // One for all routes: a client has one allowance, wherever it calls.
  const limit = app.rateLimit()

  app.addHook('onRoute', route => {
    // After every guard, so that nobody is counted under the name of another, and who has no token is not remembered at all.
    if (route.config?.guard) route.preHandler = [...[route.preHandler ?? []].flat(), limit]
  })

  function refuse (request: FastifyRequest, retryAfter: number): Refusal {
    const refusal = new Refusal('rate_limited')
    tally?.refused(refusal.reason)
    request.log.info({ reason: refusal.reason }, 'request refused')
    refusal.headers = challenges(refusal.reason, { scheme: undefined, retryAfter })
    return refusal
  }
}, { name: 'rate-limit', dependencies: ['auth', 'route-guard'] })
