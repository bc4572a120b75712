import { IncomingMessage, ServerResponse, type Server } from 'node:http'
import type { Socket } from 'node:net'

// What is used of Node and stands in none of its documents. test/server/node-members.test.ts names the release that
// lacks one of them.

/**
 * The answer that a connection owes now: Node's `_httpMessage`. Without it, closing would end requests in flight, or
 * wait for connections that have none.
 */
export function owedAnswer (connection: Socket): ServerResponse | undefined {
  return (connection as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined
}

/** Has a server answer clients that have shut their sending side. By itself, Node then shuts its own. */
export function answerHalfClosed (server: Server): void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true
}

const kAsked = Symbol('asked')

/**
 * The class of the requests of a server that changes the protocol of some of them only. Node reads `upgrade` once the
 * head is there. Unless it is true, the request is like any other; if it is, Node reads no body and lets go of the
 * connection. From 24.9 on, `shouldUpgradeCallback` does the same.
 */
export function createUpgradableMessage (isUpgraded: (message: IncomingMessage) => boolean): typeof IncomingMessage {
  return class UpgradableMessage extends IncomingMessage {
    declare [kAsked]: boolean | null

    get upgrade (): boolean {
      if (this[kAsked] && this.method !== 'CONNECT' && !isUpgraded(this)) this[kAsked] = false
      return this[kAsked] === true
    }

    /** Node says before the head is there whether the client asks for another protocol. */
    set upgrade (isAsked: boolean | null) {
      this[kAsked] = isAsked
    }
  }
}

/** Bytes of a body that goes out with its head. From 8 KB on, to copy them would cost more than one write saves. */
const MAX_JOINED_BYTES = 2 * 1024
const NOT_ASCII = /[^\0-\x7f]/

/** An answer whose head is written, and may not have been sent. Where a member is missing, nothing is joined. */
type Answer = ServerResponse & {
  _header?: string | null,
  readonly _headerSent?: boolean,
  readonly _hasBody?: boolean
}

/**
 * An answer whose short body goes out in one write with its head. By itself, Node gathers several pieces, which costs
 * a Bearer request 9 to 12 % (Node 24: 6 %).
 * Nothing changes on the wire, but that bytes above 7F stay as they are in a head before a text.
 */
export class OnePieceResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  override end (...args: never[]): this {
    return joinHeadAndBody(this, args[0], args[1]) ? super.end(args[2]) : super.end(...args)
  }
}

function joinHeadAndBody (answer: Answer, body: unknown, encoding: unknown): boolean {
  if (!answer.socket || !answer._header || answer._headerSent !== false) return false
  // Node takes a function in place of an encoding.
  if (answer._hasBody !== true || answer.chunkedEncoding || encoding) return false
  const text = textOf(body)
  if (text === undefined) return false
  answer._header += text
  return true
}

/**
 * A character for each byte, as Node writes the head, or undefined if it is not short, or would have to be coded anew.
 */
function textOf (body: unknown): string | undefined {
  if (typeof body === 'string') return body.length > MAX_JOINED_BYTES || NOT_ASCII.test(body) ? undefined : body
  return Buffer.isBuffer(body) && body.length <= MAX_JOINED_BYTES ? body.toString('latin1') : undefined
}

/** What a connection carries for the looks. Each request and each answer writes the first, so it is a property. */
const kMoved = Symbol('moved')
const kSinceMs = Symbol('sinceMs')

/** `_onTimeout` knows how much of a large piece has gone out. */
type Watched = Socket & { [kMoved]: number, [kSinceMs]: number, _onTimeout?: () => void }

/**
 * Takes the timer for silence from a connection, which `endSilent` then watches. Node makes that timer anew at each
 * request and each answer, and moves it at each piece, which costs a Bearer request 6 to 8 % (Node 24:
 * 3 %). What `setTimeout` and `timeout` of the connection mean stays.
 */
export function watchSilence (socket: Socket): void {
  const watched = socket as Watched
  const ms = socket.timeout!
  socket.setTimeout(0)
  watched[kSinceMs] = 0
  watched.setTimeout = setSilence
  watched.setTimeout(ms)
}

function setSilence (this: Watched, ms: number, callback?: () => void): Watched {
  const writable: { timeout?: number } = this
  writable.timeout = ms
  // No count of bytes: the next look begins the time anew.
  this[kMoved] = -1
  if (callback && ms > 0) this.once('timeout', callback)
  else if (callback) this.off('timeout', callback)
  return this
}

/** Has Node end each connection that has been silent for its `timeout`, in both directions. */
export function endSilent (sockets: Iterable<Socket>): void {
  const nowMs = performance.now()
  for (const socket of sockets as Iterable<Watched>) {
    // What the system has taken, not what was written.
    const moved = socket.bytesRead + socket.bytesWritten - socket.writableLength
    if (moved !== socket[kMoved]) {
      socket[kMoved] = moved
      socket[kSinceMs] = nowMs
    } else if (socket.timeout! > 0 && nowMs - socket[kSinceMs] >= socket.timeout!) {
      socket[kSinceMs] = nowMs
      if (socket._onTimeout) socket._onTimeout()
      else socket.emit('timeout')
    }
  }
}
