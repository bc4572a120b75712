import { once } from 'node:events'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Connection } from '../server/queued-response.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Whether the process is about to end: readiness says so. */
    closing: { readonly hasBegun: boolean }
  }
}

/** How long requests are still taken after readiness has turned to 503, so that a balancer sees it. */
const DRAIN_MS = 500
/** How long, once nothing new is taken, a connection may still bring the rest of a request. */
const QUIET_MS = 500
/** And how long a request may take that it brought. Together with the drain it ends before fastify-cli ends the process with an error. */
const ANSWER_MS = 9000

/**
 * Closing waits for every connection and ends only those that are idle after an answer; Node's limits of time no longer hold by
 * then. So from the moment of closing no connection is kept after its answer, one that owes no answer is ended, and at last all are.
 */
export default fp(async (app: FastifyInstance) => {
  const { servers, open } = app.connections
  const closing = { hasBegun: false }
  const closed: Array<Promise<unknown>> = []
  let quietTimer: NodeJS.Timeout | undefined
  let answerTimer: NodeJS.Timeout | undefined
  app.decorate('closing', closing)

  app.addHook('preClose', async () => {
    closing.hasBegun = true
    await new Promise(resolve => setTimeout(resolve, app.server.listening ? DRAIN_MS : 0))
    for (const server of servers) {
      // Milliseconds; 0 would be no limit at all. Node reads it when an answer ends.
      server.keepAliveTimeout = 1
      // Fastify closes the main one now, and the others only after it, without waiting for them.
      if (server !== app.server) closed.push(once(server.close(), 'close'))
    }
    // Again and again, since a connection may begin another request after its answer. The process need not live for either.
    quietTimer = setInterval(end, QUIET_MS, isQuiet).unref()
    answerTimer = setTimeout(end, ANSWER_MS, () => true).unref()
  })

  app.addHook('onClose', async () => {
    await Promise.all(closed)
    clearInterval(quietTimer)
    clearTimeout(answerTimer)
  })

  function end (isDue: (connection: Connection) => boolean): void {
    for (const connection of open) if (isDue(connection)) connection.destroy()
  }
}, { name: 'closing', dependencies: ['connections'] })

function isQuiet ({ _httpMessage: answer }: Connection): boolean {
  return !answer
}
