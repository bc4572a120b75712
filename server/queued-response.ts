import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** Unanswered requests that one connection may have. Node takes 64 KiB of them at once, and each holds its answer until it can go out. */
export const MAX_UNANSWERED = 32

/** Only this name leads from a connection to the answer that is due on it; Node's own server goes by it. */
export type Connection = Socket & { _httpMessage?: object | null, parser?: { onIncoming: () => number } | null }

const waiting = new WeakMap<Socket, number>()

/**
 * The answer to a request that may stand behind others of its connection (RFC 9112 section 9.3.2). The connection is ended
 * with the first that stands behind `MAX_UNANSWERED`. Given to a server as its `ServerResponse`, it sees every request, also those
 * that Node answers by itself.
 */
export class QueuedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  /** Node passes options that its types do not tell of. */
  constructor (...args: [request: Request]) {
    super(...args)
    const connection = args[0].socket as Connection
    // Without requests ahead of it, which is how nearly all come, there is nothing to count.
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
  // What came in the same piece is parsed to its end all the same. Nobody would get the answers, so nobody makes them.
  if (connection.parser) connection.parser.onIncoming = ignore
}

/** To the parser: a request, with nothing special about it. */
function ignore (): number {
  return 0
}
