import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/**
 * The number of unanswered requests that one connection may have. Node accepts 64 KiB of them at once, and each holds its answer
 * until the answer can be sent.
 */
export const MAX_UNANSWERED = 32

/** Only this property leads from a connection to its next answer. Node's own server uses it too. */
export type Connection = Socket & { _httpMessage?: object | null, parser?: { onIncoming: () => number } | null }

const waiting = new WeakMap<Socket, number>()

/**
 * The answer to a request that may wait behind other requests of its connection (RFC 9112 section 9.3.2). The connection is ended
 * by the first request that waits behind `MAX_UNANSWERED` others. A server that gets this class as its `ServerResponse` uses it for
 * every request, including those that Node answers by itself.
 */
export class QueuedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  /** Node passes options that its types do not declare. */
  constructor (...args: [request: Request]) {
    super(...args)
    const connection = args[0].socket as Connection
    // Nearly all requests come without others ahead of them. Then there is nothing to count.
    if (connection._httpMessage) wait(this, connection)
  }
}

function wait (response: ServerResponse, connection: Connection): void {
  const before = waiting.get(connection) ?? 0
  waiting.set(connection, before + 1)
  if (before + 1 < MAX_UNANSWERED) {
    response.once('close', () => waiting.set(connection, waiting.get(connection)! - 1))
    return
  }
  connection.destroy()
  // The parser still reads the rest of the same piece to its end. Nobody would get the answers, so nobody makes them.
  if (connection.parser) connection.parser.onIncoming = ignore
}

/** Tells the parser that this is a request with nothing special about it. */
function ignore (): number {
  return 0
}
