import { ServerResponse, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'
import type { UpgradedConnection } from '../../lib/gate/upstream/upgrade.ts'
import { LINGER_MS } from '../../server/connections.ts'
import { owedAnswer } from '../../server/node-members.ts'

/**
 * Handles requests for another protocol like all others, so that the same rules and the same guard hold for them. Node
 * hands over their connection, with none of its limits, and reads it no further. So an answer is the last thing on it.
 */
export function takeUpgrades (
  server: Server,
  handle: RequestListener,
  upgrades: WeakMap<IncomingMessage, UpgradedConnection>
): void {
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const end = () => {
      socket.destroy()
    }
    // Without a listener an error would throw; 'close' follows.
    socket.on('error', () => {})
    // The answers to earlier requests would come too late: a connection has one answer at a time.
    if (owedAnswer(socket)) return end()
    upgrades.set(request, { socket, head })
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    socket.on('timeout', end).on('drain', () => response.emit('drain'))
    response.on('finish', () => {
      // The client may go on sending.
      socket.end().resume()
      setTimeout(end, LINGER_MS).unref()
    })
    handle(request, response)
  })
}

/** By itself, Node answers 100 before the request is judged. A client that is refused need not send its body. */
export function takeExpectations (server: Server, handle: RequestListener, expecting: WeakSet<IncomingMessage>): void {
  server.on('checkContinue', (request, response) => {
    expecting.add(request)
    handle(request, response)
  })
}
