import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** How long, once nothing new is taken, a connection may still bring the rest of a request. */
const QUIET_MS = 500
/** And how long a request may take that it brought. Together with the drain it ends before fastify-cli ends the process with an error. */
const ANSWER_MS = 9000

/** Only this name leads from a connection to the answer that is due on it; Node's own server goes by it. */
type Connection = Socket & { _httpMessage?: object | null }

/**
 * Closing waits for every connection and ends only those that are idle after an answer; Node's limits of time no longer hold by
 * then. So from the moment of closing no connection is kept after its answer, one that owes no answer is ended, and at last all are.
 */
export default fp(async (app: FastifyInstance) => {
  const connections = new Set<Connection>()
  let quietTimer: NodeJS.Timeout | undefined
  let answerTimer: NodeJS.Timeout | undefined

  app.server.on('connection', (connection: Connection) => {
    connections.add(connection)
    connection.once('close', forget)
  })

  app.addHook('preClose', async () => {
    // Milliseconds; 0 would be no limit at all. Node reads it when an answer ends.
    app.server.keepAliveTimeout = 1
    // Again and again, since a connection may begin another request after its answer. The process need not live for either.
    quietTimer = setInterval(end, QUIET_MS, isQuiet).unref()
    answerTimer = setTimeout(end, ANSWER_MS, () => true).unref()
  })

  app.addHook('onClose', async () => {
    clearInterval(quietTimer)
    clearTimeout(answerTimer)
  })

  function forget (this: Connection): void {
    connections.delete(this)
  }

  function end (isDue: (connection: Connection) => boolean): void {
    for (const connection of connections) if (isDue(connection)) connection.destroy()
  }
}, { name: 'last-connections', dependencies: ['health'] })

function isQuiet ({ _httpMessage: answer }: Connection): boolean {
  return !answer
}
