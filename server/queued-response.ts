import { ServerResponse } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { nextTick } from 'node:process'
import { joinHeadAndBody } from './one-piece.ts'
import { sizeOf } from './request-size.ts'
import { createStallWatch } from './stalled-answers.ts'
import { endUnlessComplete } from './unread-body.ts'

/** The number of unanswered requests that one connection may have. Node accepts 64 KiB of them at once. */
export const MAX_UNANSWERED = 32
/**
 * Bytes that the requests of one connection may take while they wait behind an answer, and those of all connections
 * together.
 */
export const MAX_WAITING_BYTES = 96 * 1024
export const MAX_ALL_WAITING_BYTES = 2 * 1024 * 1024
/** Of those of all connections, what the connections of one address may take: no peer has the others cut off. */
export const MAX_WAITING_BYTES_OF_ADDRESS = MAX_ALL_WAITING_BYTES / 4
/**
 * From here on a connection is not read until some of its requests have been answered. What has been read already may
 * still go beyond a limit.
 */
const SLOW_UNANSWERED = MAX_UNANSWERED / 2
const SLOW_BYTES = MAX_WAITING_BYTES / 2
/**
 * Milliseconds for which a connection is kept idle once requests of it have waited: one that reads no answers looks
 * like one that is idle.
 */
export const QUEUE_KEEP_ALIVE_MS = 5_000

/**
 * What a connection carries here if requests of it have ever waited. Every answer asks for it, and a property is the
 * cheapest place.
 */
const kQueue = Symbol('queue')

/**
 * Only the properties with names lead from a connection to its answer and to its parser. They are private to Node, and
 * used in this file only.
 */
type Connection = Socket & {
  [kQueue]?: Queue,
  _httpMessage?: ServerResponse | null,
  _paused?: boolean,
  parser?: { onIncoming: () => number, resume: () => void } | null
}

/** The answer that a connection owes now. */
export function owedAnswer (connection: Socket): Pick<ServerResponse, 'headersSent'> | undefined {
  return (connection as Connection)._httpMessage ?? undefined
}

/** Whether requests of a connection wait behind its answer now. */
export function hasWaiting (connection: Socket): boolean {
  return ((connection as Connection)[kQueue]?.count ?? 0) > 0
}

/** The requests of one connection that wait behind its answer. */
interface Queue {
  count: number
  bytes: number
  readonly peer: Peer
  readonly all: Waiting
  isSlowed: boolean
}

/** The connections of one address with requests that have ever waited. */
interface Peer {
  connections: number
  bytes: number
}

/** What waits on all connections of a server. */
interface Waiting {
  bytes: number
  /** By the address. */
  readonly peers: Map<string, Peer>
}

/** An answer that may wait for its turn. */
type QueuedResponse = ServerResponse & {
  /** What is done at the turn of this answer. */
  onTurn: (() => void) | undefined
}

/**
 * The class of the answers of one server: those to requests that may wait behind other requests of their connection
 * (RFC 9112 section 9.3.2). A connection whose requests wait beyond a limit is ended. A server that gets this class as
 * its `ServerResponse` uses it for every request, including those that Node answers by itself.
 */
export function createQueuedResponse (): typeof ServerResponse {
  const watchStalled = createStallWatch()
  const waiting: Waiting = { bytes: 0, peers: new Map() }

  return class QueuedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
    /** What is done at the turn of this answer. */
    onTurn: (() => void) | undefined
    #waitingBytes = 0

    /** Node passes options that its types do not declare. */
    constructor (...args: [request: Request]) {
      super(...args)
      const { socket } = args[0]
      // Nearly all requests come without others ahead of them. Then there is nothing to count.
      if (owedAnswer(socket)) this.#wait(socket)
    }

    override assignSocket (socket: Socket): void {
      super.assignSocket(socket)
      // The end of a connection gives back what its requests took.
      if (this.#waitingBytes === 0 || socket.destroyed) return
      const queue = (socket as Connection)[kQueue]!
      count(queue, -1, -this.#waitingBytes)
      if (queue.isSlowed && queue.count < SLOW_UNANSWERED && queue.bytes < SLOW_BYTES) readOn(socket, queue)
      this.onTurn?.()
    }

    /** Node lets go of the connection when the answer has been sent. */
    override detachSocket (socket: Socket): void {
      super.detachSocket(socket)
      if (!this.req.complete) endUnlessComplete(this.req, socket)
      // Not before: Node is about to set its own limit.
      if ((socket as Connection)[kQueue]) nextTick(keepBriefly, socket)
    }

    override write (...args: [chunk: unknown]): boolean {
      const isTaken = super.write(...args)
      if (!isTaken) watchStalled(this)
      return isTaken
    }

    /** Node has no event for a last piece that the client does not take. */
    override end (...args: never[]): this {
      if (joinHeadAndBody(this, args[0], args[1])) super.end(args[2])
      else super.end(...args)
      if (this.socket?.writableLength) watchStalled(this)
      return this
    }

    #wait (socket: Socket): void {
      const queue = (socket as Connection)[kQueue] ??= createQueue(socket, waiting)
      const bytes = sizeOf(this.req)
      if (
        socket.destroyed || queue.count + 1 >= MAX_UNANSWERED || queue.bytes + bytes > MAX_WAITING_BYTES ||
        queue.peer.bytes + bytes > MAX_WAITING_BYTES_OF_ADDRESS || waiting.bytes + bytes > MAX_ALL_WAITING_BYTES
      ) return endNow(socket)
      this.#waitingBytes = bytes
      count(queue, 1, bytes)
      if (!queue.isSlowed && (queue.count >= SLOW_UNANSWERED || queue.bytes >= SLOW_BYTES)) slow(socket, queue)
    }
  }
}

function count (queue: Queue, requests: number, bytes: number): void {
  queue.count += requests
  queue.bytes += bytes
  queue.peer.bytes += bytes
  queue.all.bytes += bytes
}

/** As Node does it if answers wait for a client that does not read. */
function slow (socket: Connection, queue: Queue): void {
  queue.isSlowed = true
  socket._paused = true
  socket.pause()
}

function readOn (socket: Connection, queue: Queue): void {
  queue.isSlowed = false
  // Not before: Node is about to begin with the next answer.
  nextTick(() => {
    if (socket.destroyed || queue.isSlowed) return
    socket._paused = false
    socket.parser?.resume()
    socket.resume()
  })
}

/**
 * Hands a request to the handler when the answers before it have been sent. Until then nothing is done for it: its
 * client may be gone by then, or may not read, and Node tells an answer that waits of neither.
 */
export function inTurn (handle: RequestListener): RequestListener {
  return (request, response) => {
    if (response.socket) handle(request, response)
    else (response as QueuedResponse).onTurn = () => handle(request, response)
  }
}

function createQueue (socket: Socket, all: Waiting): Queue {
  const { peers } = all
  const address = socket.remoteAddress ?? ''
  const peer = peers.get(address) ?? { connections: 0, bytes: 0 }
  peers.set(address, peer)
  peer.connections++
  const queue = { count: 0, bytes: 0, peer, all, isSlowed: false }
  socket.once('close', () => {
    count(queue, 0, -queue.bytes)
    if (--peer.connections === 0) peers.delete(address)
  })
  return queue
}

function keepBriefly (socket: Socket): void {
  if (!socket.destroyed && !owedAnswer(socket)) socket.setTimeout(QUEUE_KEEP_ALIVE_MS)
}

/** Ends a connection with all that it owes and all that it still sends. */
export function endNow (socket: Socket): void {
  socket.destroy()
  const { parser } = socket as Connection
  // The parser still reads the rest of the same piece to its end. Its answers would be lost, so they are not made.
  if (parser) parser.onIncoming = ignore
}

/** Tells the parser that this is a request with nothing special about it. */
function ignore (): number {
  return 0
}
