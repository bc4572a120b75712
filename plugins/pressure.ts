import underPressure from '@fastify/under-pressure'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { errorBody } from '../lib/refusal.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The number of requests refused because of overload since the start. */
    pressure: { readonly shed: number }
  }
  interface FastifyContextConfig {
    /** The route answers under overload too: operators and balancers look at it. */
    essential?: boolean
  }
}

/**
 * Mean delay of the event loop over one sample. A process that is only busy, with thousands of connections, stays well
 * below it.
 */
const MAX_EVENT_LOOP_DELAY_MS = 500
/** The sample is long enough for a burst of new connections to have little effect. */
const SAMPLE_MS = 3000
const RETRY_AFTER_SECONDS = 3

/** Answers 503 before the process collapses, so that a balancer goes elsewhere and requests in flight are finished. */
export default fp(async app => {
  // Without its own limits the package only measures: its hook would cost each request more than the check below.
  await app.register(underPressure, { sampleInterval: SAMPLE_MS })
  const body = errorBody(app.settings.api.errorBody, 503, 'The service is overloaded.')
  const pressure = { shed: 0 }
  let overloaded = false
  app.decorate('pressure', pressure)

  app.addHook('onRoute', route => {
    // The check runs before the guard, because the guard is the expensive part.
    if (!route.config?.essential) route.onRequest = [shed, ...[route.onRequest ?? []].flat()]
  })

  function shed (_request: FastifyRequest, reply: FastifyReply, done: () => void) {
    const { eventLoopDelay } = app.memoryUsage()
    if (eventLoopDelay <= MAX_EVENT_LOOP_DELAY_MS) {
      if (overloaded) note(false, eventLoopDelay)
      return done()
    }
    if (!overloaded) note(true, eventLoopDelay)
    pressure.shed++
    // This is an answer, not an error: one log line and one stack for each request would make the overload worse.
    reply.code(503).headers({ 'retry-after': String(RETRY_AFTER_SECONDS), 'cache-control': 'no-store' }).send(body)
  }

  function note (isOverloaded: boolean, eventLoopDelayMs: number) {
    overloaded = isOverloaded
    app.log.warn({
      event: isOverloaded ? 'overload_began' : 'overload_ended',
      eventLoopDelayMs: Math.round(eventLoopDelayMs),
      shed: pressure.shed
    }, isOverloaded ? 'overload began' : 'overload ended')
  }
}, { name: 'pressure' })
