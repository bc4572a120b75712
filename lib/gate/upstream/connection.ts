import type { Socket } from 'node:net'

type Done = (error?: Error | null) => void

const HEAD = 'HTTP/1.1 100'
const INTERIM = 'HTTP/1.1 1'
const END_OF_HEAD = '\r\n\r\n'
/** Node takes no larger head. */
const MAX_HEAD_BYTES = 16 * 1024

/** A connection to an upstream, as undici is to have it. */
export interface UpstreamConnection {
  /** The next bytes that come are the head of an answer. */
  awaitHead (): void
}

/**
 * Makes up for two things that undici does not bear: an upstream that has answered and closed before it was sent the
 * whole body, whose answer is there though nothing can be sent any more; and a 100 that was not asked for (RFC 9110
 * section 15.2).
 */
export function adaptConnection (socket: Socket): UpstreamConnection {
  bearFailedWrites(socket)
  return dropContinues(socket)
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

function dropContinues (socket: Socket): UpstreamConnection {
  const read = socket.read.bind(socket)
  let isHeadDue = false
  let held: Buffer | undefined

  socket.read = size => {
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
    awaitHead () {
      isHeadDue = true
    }
  }
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
