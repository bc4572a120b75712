import { once } from 'node:events'
import { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { owedAnswer } from '../server/node-members.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Whether the process is about to end. Readiness then answers 503. */
    closing: {
      readonly hasBegun: boolean,
      /** The number of answers that were cut off at the end. Undefined before. */
      readonly cut: number | undefined
      /** Resolves when the connections that were cut off are gone, and the lines of their requests are written. */
      readonly ended: () => Promise<unknown>
    }
  }
}

/** Milliseconds for which requests are still accepted after readiness has turned to 503, so that a balancer sees it. */
const DRAIN_MS = 500
/** Milliseconds for which a connection may send the rest of a request after no new requests are accepted. */
const QUIET_MS = 500
/**
 * Milliseconds that such a request may take. Drain and this time together end before fastify-cli ends the process with
 * an error.
 */
const ANSWER_MS = 9000

/**
 * By itself, closing waits for every connection and ends only those that are idle after an answer. Node's time limits
 * do not hold any more. So from the start of closing no connection is kept after its answer. A connection that owes no
 * answer is ended. At last all connections are ended.
 */
export default fp(async (app: FastifyInstance) => {
  const { servers, open } = app.connections
  const closed: Array<Promise<unknown>> = []
  const ended = (): Promise<unknown> => Promise.all(closed)
  const closing = { hasBegun: false, cut: undefined as number | undefined, ended }
  let quietTimer: NodeJS.Timeout | undefined
  let answerTimer: NodeJS.Timeout | undefined
  app.decorate('closing', closing)

  app.addHook('preClose', async () => {
    closing.hasBegun = true
    await new Promise(resolve => setTimeout(resolve, app.server.listening ? DRAIN_MS : 0))
    for (const server of servers) {
      // Milliseconds. 0 would mean no limit. Node reads the value when an answer ends.
      server.keepAliveTimeout = 1
      // Node and Fastify would call it. From Node 26 on, it also ends connections whose first request is on its way.
      if (server instanceof Server) server.closeIdleConnections = () => {}
      // Fastify closes the main server now. It closes the others later and does not wait for them.
      if (server !== app.server) closed.push(once(server.close(), 'close'))
    }
    // This runs again and again, since a connection may begin another request after its answer. Neither timer keeps the
    // process alive.
    quietTimer = setInterval(end, QUIET_MS, isQuiet).unref()
    answerTimer = setTimeout(() => {
      closing.cut = [...open].filter(owedAnswer).length
      end(() => true)
    }, ANSWER_MS).unref()
  })

  app.addHook('onClose', async () => {
    await ended()
    clearInterval(quietTimer)
    clearTimeout(answerTimer)
    app.log.info({ event: 'closed', cut: closing.cut ?? 0 }, 'closed')
  })

  function end (isDue: (connection: Socket) => boolean) {
    for (const connection of open) {
      if (connection.destroyed || !isDue(connection)) continue
      // The process must not end before the line of its request is written.
      closed.push(new Promise(resolve => connection.once('close', resolve)))
      connection.destroy()
    }
  }
}, { name: 'closing', dependencies: ['connections'] })

/** Below TLS or HTTP/2 it is not known: there the server itself ends what is idle. */
function isQuiet (connection: Socket & { readonly server?: object }): boolean {
  return connection.server instanceof Server && !owedAnswer(connection)
}
