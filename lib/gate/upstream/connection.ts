import type { Socket } from 'node:net'

type Done = (error?: Error | null) => void

const HEAD = 'HTTP/1.1 100'
const INTERIM = 'HTTP/1.1 1'
const END_OF_HEAD = '\r\n\r\n'
/** Node takes no larger head. */
const MAX_HEAD_BYTES = 16 * 1024

/** A connection to an upstream, as undici is to have it. */
export type UpstreamConnection = ReturnType<typeof adaptConnection>

/**
 * Makes up for what undici does not bear: an upstream that has answered and closed before it was sent the whole body,
 * whose answer is there though nothing can be sent any more; a 100 that was not asked for (RFC 9110 section 15.2); and
 * a connection that ends while it is paused.
 * @param onRead called before undici reads on. What it has read it tells before it does so again
 */
export function adaptConnection (socket: Socket, onRead: () => void) {
  bearFailedWrites(socket)
  const read = socket.read.bind(socket)
  let isHeadDue = false
  let isResetEnd = false
  let isPaused = false
  let held: Buffer | undefined

  socket.read = size => {
    if (isPaused) return null
    onRead()
    let chunk = read(size) as Buffer | null
    if (!isHeadDue) return chunk
    while (chunk !== null) {
      const passed: Buffer[] = []
      let rest = held ? Buffer.concat([held, chunk]) : chunk
      held = undefined
      let end = endOfInterim(rest)
      for (; end > 0; end = endOfInterim(rest)) {
        if (!isContinue(rest)) passed.push(rest.subarray(0, end))
        rest = rest.subarray(end)
      }
      if (end === 0) {
        isHeadDue = false
        return passed.length === 0 ? rest : Buffer.concat([...passed, rest])
      }
      held = rest
      if (passed.length > 0) return Buffer.concat(passed)
      chunk = read(size)
    }
    return null
  }
  return {
    /**
     * The next bytes that come are the head of an answer.
     * @param mayReset whether a reset may be its end: the upstream need not read the body of the request
     */
    awaitHead (mayReset: boolean) {
      isHeadDue = true
      isResetEnd = mayReset
    },
    /** undici itself, if it were paused, would throw when the connection ends: its issue 5360. */
    pause () {
      isPaused = true
    },
    resume () {
      if (!isPaused) return
      isPaused = false
      // Not at once: undici may be telling what it has read.
      queueMicrotask(() => socket.emit('readable'))
    },
    /** Whether an answer that has ended is cut off. undici takes a reset for the end of one without a length. */
    isCut: () => socket.errored !== null && (socket.readableLength > 0 || !isResetEnd)
  }
}

/** What has come is read to its end, and that tells undici soon enough. */
function bearFailedWrites (socket: Socket) {
  const bearing = (done: Done): Done => error => {
    const { code } = (error ?? {}) as NodeJS.ErrnoException
    done(code === 'EPIPE' || code === 'ECONNRESET' ? null : error)
  }
  const { _write: write, _writev: writev } = socket
  socket._write = (chunk, encoding, done) => write.call(socket, chunk, encoding, bearing(done))
  if (writev) socket._writev = (chunks, done) => writev.call(socket, chunks, bearing(done))
}

/** Where the interim answer ends that begins here. 0: none does. -1: more must come to know. */
function endOfInterim (bytes: Buffer): number {
  const start = bytes.toString('latin1', 0, HEAD.length)
  if (start.length < HEAD.length) return HEAD.startsWith(start.slice(0, INTERIM.length)) ? -1 : 0
  if (!start.startsWith(INTERIM) || start.endsWith('101')) return 0
  const end = bytes.indexOf(END_OF_HEAD)
  if (end === -1) return bytes.length > MAX_HEAD_BYTES ? 0 : -1
  return end + END_OF_HEAD.length
}

const isContinue = (bytes: Buffer) => bytes.toString('latin1', 0, HEAD.length) === HEAD
