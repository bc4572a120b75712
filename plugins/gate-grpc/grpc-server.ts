import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createMessageReader, frameMessage, MessageError, MessageSizeError } from '../../lib/gate/grpc-message.ts'
import type { Surroundings } from '../../lib/base/surroundings.ts'
import { createMessageMemory } from './message-memory.ts'

/**
 * What peers may have at once, and for how long. Together this is less than 64 MB, with what V8 makes of the largest
 * messages.
 */
export const GRPC_LIMITS = {
  connections: 128,
  /** Calls of one connection. Envoy opens another connection when it has more. */
  callsOfConnection: 100,
  calls: 500,
  /** Larger than the body that a rule reads and all headers that Envoy takes from a client together. */
  messageBytes: 1280 * 1024,
  /** Messages of the calls of one connection, and of all. */
  bytesOfConnection: 5 * 1024 * 1024,
  bytes: 25 * 1024 * 1024,
  /** Milliseconds from the first byte of a call to the last of its answer. */
  callMs: 15_000,
  /** Milliseconds after the last answer that the peer has taken until the peer is asked to open another connection. */
  idleMs: 30_000
} as const

/** Milliseconds from that moment on: calls that were under way are still accepted, then answers are still sent. */
const NOTICE_MS = 2000
const LEAVE_MS = 10_000
const SWEEP_MS = 1000
/** Answers that are begun in one turn of the event loop, so that a flood of calls leaves turns to everything else. */
const ANSWERS_OF_TURN = 16
/** Milliseconds for the answers that are due when the server closes. */
const CLOSING_MS = 5000
/** Of a GOAWAY that still allows every stream (RFC 9113 section 6.8). */
const ANY_STREAM = 2 ** 31 - 1
const SESSION_OPTIONS = {
  settings: { maxConcurrentStreams: GRPC_LIMITS.callsOfConnection, maxHeaderListSize: 16 * 1024 },
  maxHeaderListPairs: 64,
  /** MB. Beyond it, Node opens no stream. */
  maxSessionMemory: 2
}

/** Codes of gRPC. */
const STATUS = { ok: '0', invalid: '3', unimplemented: '12', internal: '13' } as const

interface GrpcServerOptions {
  /** The only method that is served. */
  readonly path: string
  /** Whether a peer may connect. Others are disconnected before anything is read. */
  readonly accepts: (address: string) => boolean
  /** Answers a message. Its memory is reused afterwards. A rejection with a MessageError is the fault of the peer. */
  readonly answer: (message: Buffer, address: string) => Promise<Buffer>
  /** Gets every other rejection of `answer`. */
  readonly onFault: (error: Error) => void
  readonly onError: (error: Error) => void
}

export type GrpcServer = ReturnType<typeof createGrpcServer>

interface Call {
  readonly beganMs: number
  isAnswered: boolean
  /** Of its message. */
  memory: Buffer | undefined
}

interface Connection {
  readonly address: string
  readonly session: ServerHttp2Session
  /** Those whose stream is open or whose answer is being made, the oldest first. */
  readonly calls: Set<Call>
  bytes: number
  /** When the connection was opened, or the peer had taken the last answer. */
  answeredMs: number
}

/** A gRPC server with one unary method, over HTTP/2 without TLS, for trusted peers. */
export function createGrpcServer (
  options: GrpcServerOptions,
  { steadyMs, every, after }: Pick<Surroundings, 'steadyMs' | 'every' | 'after'>
) {
  const connections = new Map<Socket, Connection>()
  const memory = createMessageMemory(GRPC_LIMITS)
  /** Of all connections. */
  let openCalls = 0
  const waiting: Array<() => void> = []
  const server = createServer(accept)
  server.maxConnections = GRPC_LIMITS.connections
  server.on('error', options.onError)
  const endSweeps = every(SWEEP_MS, sweep)

  return {
    listen (port: number, address: string, done: () => void) {
      server.listen(port, address, done)
    },
    /** Undefined unless it listens. */
    address: () => server.address() as AddressInfo | null ?? undefined,
    /** Open connections. */
    get connections (): number {
      return connections.size
    },
    /** Accepts nothing more, and resolves when the answers that are due are sent and no connection is left. */
    async close () {
      const closed = new Promise(resolve => server.close(resolve))
      for (const { session } of connections.values()) session.close()
      const cancel = after(CLOSING_MS, () => {
        for (const socket of connections.keys()) socket.destroy()
      })
      await closed
      // The server reports its end before the last socket does.
      connections.clear()
      cancel()
      endSweeps()
    }
  }

  /** The peer is judged before there is a session, so nothing of it is read. */
  function accept (socket: Socket) {
    const address = String(socket.remoteAddress)
    if (!options.accepts(address)) {
      socket.destroy()
      return
    }
    const session = performServerHandshake(socket, SESSION_OPTIONS)
    const connection: Connection = { address, session, calls: new Set(), bytes: 0, answeredMs: steadyMs() }
    connections.set(socket, connection)
    socket.once('close', () => connections.delete(socket))
    session.on('error', () => socket.destroy())
    session.on('stream', (stream, { ':path': path }) => serve(connection, stream, path))
  }

  /** Only an answered call keeps a connection: pings, parts of calls and other calls do not. */
  function sweep () {
    const now = steadyMs()
    for (const [socket, { session, calls, answeredMs }] of connections) {
      const [oldest] = calls
      const overdueMs = now - answeredMs - GRPC_LIMITS.idleMs
      if ((oldest && now - oldest.beganMs > GRPC_LIMITS.callMs) || overdueMs > LEAVE_MS) socket.destroy()
      else if (overdueMs > NOTICE_MS) session.close()
      else if (overdueMs > 0) session.goaway(constants.NGHTTP2_NO_ERROR, ANY_STREAM)
    }
  }

  function serve (connection: Connection, stream: ServerHttp2Stream, path: string | undefined) {
    // A stream that breaks off needs no answer.
    stream.on('error', () => {})
    const { calls } = connection
    if (openCalls >= GRPC_LIMITS.calls || calls.size >= GRPC_LIMITS.callsOfConnection) {
      return stream.close(constants.NGHTTP2_REFUSED_STREAM)
    }
    const call: Call = { beganMs: steadyMs(), isAnswered: false, memory: undefined }
    calls.add(call)
    openCalls++
    const closed = new Promise(resolve => stream.once('close', resolve))
    const judged = path === options.path ? judge(connection, call, stream) : end(stream, STATUS.unimplemented)
    // A peer may cancel a call while its answer is being made: it counts until both are over.
    Promise.all([closed, judged]).then(() => {
      calls.delete(call)
      openCalls--
      // A cancelled call does not keep its connection, however late it is cancelled.
      if (call.isAnswered && stream.rstCode === constants.NGHTTP2_NO_ERROR) connection.answeredMs = steadyMs()
      if (call.memory) memory.free(connection, call.memory)
    })
  }

  async function judge (connection: Connection, call: Call, stream: ServerHttp2Stream) {
    try {
      const message = await read(stream, bytes => {
        call.memory = memory.take(connection, bytes)
        return call.memory?.subarray(0, bytes)
      })
      await turn()
      if (isGone(stream)) return
      const answer = await options.answer(message, connection.address)
      if (isGone(stream)) return
      call.isAnswered = true
      send(stream, answer)
    } catch (error) {
      if (error instanceof MessageSizeError) return stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
      if (error instanceof MessageError) return end(stream, STATUS.invalid)
      options.onFault(error as Error)
      end(stream, STATUS.internal)
    }
  }

  function turn (): Promise<void> {
    return new Promise(resolve => {
      if (waiting.push(resolve) === 1) setImmediate(begin)
    })
  }

  function begin () {
    for (const resolve of waiting.splice(0, ANSWERS_OF_TURN)) resolve()
    if (waiting.length > 0) setImmediate(begin)
  }
}

function read (stream: ServerHttp2Stream, allocate: (bytes: number) => Buffer | undefined): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const reader = createMessageReader(allocate)
    stream.on('data', (chunk: Buffer) => attempt(() => reader.push(chunk)))
    stream.once('end', () => attempt(() => resolve(reader.end())))
    stream.once('close', () => reject(new MessageError('The call was cancelled')))

    function attempt (step: () => void) {
      try {
        step()
      } catch (error) {
        // The rest is dropped.
        stream.removeAllListeners('data').resume()
        reject(error)
      }
    }
  })
}

function send (stream: ServerHttp2Stream, message: Buffer) {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': STATUS.ok }))
  stream.end(frameMessage(message))
}

/** Ends a call without a message. What the peer still sends is not read. */
function end (stream: ServerHttp2Stream, status: string) {
  if (isGone(stream)) return
  stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': status }, { endStream: true })
  // A reset in the same turn may overtake the status, and the peer would get none.
  setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR))
}

const isGone = ({ destroyed, closed }: ServerHttp2Stream) => destroyed || closed
