import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { RequestListener, Server } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import {
  CLIENT_ERROR_STATUSES,
  refuseConnect,
  statusOfClientError,
  type ClientError,
  type ClientErrorStatus
} from '../server/client-error.ts'
import { createAnswerOrder, noticeGone, type InTurn } from '../server/connections.ts'
import { answerHalfClosed, endSilent, watchSilence } from '../server/node-members.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Connections of all servers of the app. On `localhost` Fastify makes one server for each address, and `app.server`
     * is only the first one.
     */
    connections: {
      readonly servers: ReadonlySet<Server>,
      readonly open: ReadonlySet<Socket>,
      /** Connections refused since the start because there were too many. */
      readonly dropped: number,
      /** Requests refused since the start before they could be read, by their status. */
      readonly unreadable: Readonly<Record<ClientErrorStatus, number>>,
      /** Has a handler of requests called at their turn. */
      readonly inTurn: InTurn
    }
  }
}

const MAX_CONNECTIONS = 10_000
/** How often silent connections are looked for. One is ended up to twice as much too late. */
const LOOK_MS = 1000

/** Node publishes every connection that any server of the process has accepted. */
const CHANNEL = 'net.server.socket'

/**
 * Sets the limits that server options cannot express, for every server of the app: the number of all connections
 * together, and what waits on them.
 */
export default fp(async (app: FastifyInstance) => {
  const main = app.server
  const handler = main.listeners('request')[0] as RequestListener
  const inTurn = createAnswerOrder()
  const handleInTurn = inTurn(handler)
  const servers = new Set<Server>()
  const open = new Set<Socket>()
  const unreadable = Object.fromEntries(CLIENT_ERROR_STATUSES.map(status => [status, 0])) as Record<
    ClientErrorStatus,
    number
  >
  const connections = { servers, open, dropped: 0, unreadable, inTurn }
  app.decorate('connections', connections)

  main.maxConnections = MAX_CONNECTIONS
  // The answer ends the connection, so it comes after.
  main.prependListener('clientError', noteUnreadable)
  adopt(main)
  const looks = setInterval(() => endSilent(open), LOOK_MS).unref()
  app.addHook('onReady', async () => subscribe(CHANNEL, take))
  // What is open then has less time than this: plugins/closing.ts ends it.
  app.addHook('onClose', async () => {
    unsubscribe(CHANNEL, take)
    clearInterval(looks)
  })

  function take (message: unknown) {
    const { socket } = message as { socket: Socket & { server: Server } }
    if (!servers.has(socket.server)) {
      // Only a server that Fastify has made for this app passes its requests to this function.
      if (!socket.server.listeners('request').includes(handler)) return
      adopt(socket.server)
    }
    if (open.size >= main.maxConnections) {
      connections.dropped++
      socket.destroy()
      return
    }
    open.add(socket)
    socket.once('close', forget).once('end', noticeHalfClosed)
    watchSilence(socket)
  }

  /** Applies the limits of the main server to a further server, at the first connection of that server. */
  function adopt (server: Server) {
    servers.add(server)
    server.on('drop', () => {
      connections.dropped++
    })
    server.off('request', handler).on('request', handleInTurn).on('connect', refuseConnect)
    // RFC 9110 section 10.1.1: what a client expects may be ignored. Node would answer by itself, without hooks.
    server.on('checkExpectation', handleInTurn)
    answerHalfClosed(server)
    if (server === main) return
    server.maxConnections = main.maxConnections
    server.maxHeadersCount = main.maxHeadersCount
    // Fastify sets these listeners on the main server only.
    for (const event of ['clientError', 'checkContinue']) {
      for (const listener of main.listeners(event)) server.on(event, listener as () => void)
    }
    // Fastify passes upgrades on to the main server. If the app does not handle them, the connection would never end.
    if (main.listenerCount('upgrade') === 0) server.removeAllListeners('upgrade')
    // It accepts nothing more. The server's own method would, from Node 26 on, also end this connection before its
    // first request.
    if (!main.listening) NetServer.prototype.close.call(server)
  }

  /** There is no request that could be counted and logged, for example when the headers are too large. */
  function noteUnreadable (error: ClientError, socket: Socket) {
    const status = statusOfClientError(error, socket)
    if (status === undefined) return
    unreadable[status]++
    app.log.info({ status, code: error.code }, 'request unreadable')
  }

  function forget (this: Socket) {
    open.delete(this)
  }

  function noticeHalfClosed (this: Socket) {
    noticeGone(this)
  }
}, { name: 'connections' })
