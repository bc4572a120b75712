import underPressure from '@fastify/under-pressure'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { errorBody } from '../lib/guard/error-body.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Since the start: requests turned away because of overload. */
    pressure: { readonly shed: number }
  }
  interface FastifyContextConfig {
    /** Answers under overload too: what operators and balancers look at. */
    essential?: boolean
  }
}

/** Mean delay of the event loop over one sample. A process that is merely busy, with thousands of connections, stays well below it. */
export const MAX_EVENT_LOOP_DELAY_MS = 500
/** Long enough for a burst of new connections to pass for what it is. */
export const SAMPLE_MS = 3000
export const RETRY_AFTER_SECONDS = 3

/** Answers 503 before the process collapses, so that a balancer goes elsewhere and the requests already taken are finished. */
export default fp(async (app: FastifyInstance) => {
  // Without limits of its own it only measures: its hook would cost each request more than the check below.
  await app.register(underPressure, { sampleInterval: SAMPLE_MS })
  const body = errorBody(app.settings.ERROR_BODY, 503, 'The service is overloaded.')
  const pressure = { shed: 0 }
  let overloaded = false
  app.decorate('pressure', pressure)

  app.addHook('onRoute', route => {
    // Before the guard, which is what costs.
    if (!route.config?.essential) route.onRequest = [shed, ...[route.onRequest ?? []].flat()]
  })

  function shed (_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
    const { eventLoopDelay } = app.memoryUsage()
    if (eventLoopDelay <= MAX_EVENT_LOOP_DELAY_MS) {
      if (overloaded) note(false, eventLoopDelay)
      return done()
    }
    if (!overloaded) note(true, eventLoopDelay)
    pressure.shed++
    // An answer, not an error: at such a moment one line and one stack for each would make it worse.
    reply.code(503).headers({ 'retry-after': String(RETRY_AFTER_SECONDS), 'cache-control': 'no-store' }).send(body)
  }

  function note (isOverloaded: boolean, eventLoopDelayMs: number): void {
    overloaded = isOverloaded
    app.log.warn({ event: isOverloaded ? 'overload_began' : 'overload_ended', eventLoopDelayMs: Math.round(eventLoopDelayMs), shed: pressure.shed }, isOverloaded ? 'overload began' : 'overload ended')
  }
}, { name: 'pressure' })
