import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { headersForClient } from '../lib/gate/headers.ts'
import { dropRest } from '../lib/upstream/upgrade.ts'
import type { UpgradeAnswer, UpgradedConnection } from '../lib/upstream/upgrade.ts'
import { inTurn, owedAnswer } from './queued-response.ts'
import { LINGER_MS } from './unread-body.ts'

/**
 * Routes requests for another protocol like all others, so that the same rules and the same guard hold for them. Node
 * hands over their connection and reads it no further. So an answer is the last thing on such a connection.
 */
export function takeUpgrades (app: FastifyInstance, upgrades: WeakMap<IncomingMessage, UpgradedConnection>): void {
  app.server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    // Without a listener an error would throw; 'close' follows.
    socket.on('error', () => {})
    // The answers to earlier requests would come too late: a connection has one answer at a time.
    if (owedAnswer(socket)) {
      socket.destroy()
      return
    }
    upgrades.set(request, { socket, head })
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    response.on('finish', () => {
      socket.end()
      dropRest(socket)
      // The client may go on sending.
      setTimeout(() => socket.destroy(), LINGER_MS).unref()
    })
    app.routing(request, response)
  })
}

/** By itself, Node answers 100 before the request is judged. A client that is refused need not send its body. */
export function takeExpectations (app: FastifyInstance, expecting: WeakSet<IncomingMessage>): void {
  app.server.on(
    'checkContinue',
    inTurn((request, response) => {
      expecting.add(request)
      app.routing(request, response)
    })
  )
}

/**
 * A connection that has changed its protocol lives no longer than the token that opened it. Each end of it takes the
 * other with it.
 * @returns says who closed it, once it is known
 */
export function closeWithToken (
  request: FastifyRequest,
  socket: UpgradedConnection['socket']
): { by: string | undefined } {
  const { auth } = request
  const closing = { by: undefined as string | undefined }
  if (!auth) return closing
  const end = (): void => {
    closing.by = auth.signal.reason.code
    request.log.info({ reason: closing.by, issuer: auth.issuer }, 'open connection ended')
    socket.destroy()
  }
  auth.signal.addEventListener('abort', end, { once: true })
  // It also keeps `auth`, and with it the signal, for as long as the connection is open.
  socket.once('close', () => auth.signal.removeEventListener('abort', end))
  return closing
}

/** The answer with which the connection of the client changes its protocol. */
export function switchingProtocols (
  { response }: Extract<UpgradeAnswer, { kind: 'upgraded' }>,
  nonce: string | undefined
): string {
  const lines = ['HTTP/1.1 101 Switching Protocols', 'connection: Upgrade', `upgrade: ${response.headers.upgrade}`]
  for (const [name, values] of headersForClient(response.rawHeaders)) {
    lines.push(...values.map(value => `${name}: ${value}`))
  }
  if (nonce !== undefined) lines.push(`dpop-nonce: ${nonce}`)
  return `${lines.join('\r\n')}\r\n\r\n`
}
