import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** Milliseconds that a body may take to end when its answer has been sent. */
export const LINGER_MS = 5_000

/**
 * Ends a connection that still sends a body when its answer has been sent, unless the body ends soon. Nobody reads it.
 */
export function endUnlessComplete (request: IncomingMessage, socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  const stop = (): void => clearTimeout(timer)
  request.once('end', stop)
  socket.once('close', stop)
}
