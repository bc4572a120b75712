import type { Socket } from 'node:net'

type Done = (error?: Error | null) => void

const HEAD = 'HTTP/1.1 100'
const END_OF_HEAD = '\r\n\r\n'

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
function bearFailedWrites (socket: Socket): void {
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
      const bytes = held ? Buffer.concat([held, chunk]) : chunk
      held = undefined
      const rest = withoutContinue(bytes)
      if (rest === undefined) held = bytes
      else if (rest.length > 0) {
        isHeadDue = false
        return rest
      }
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

/** What follows the interim answers 100, or undefined if more must come to know. */
function withoutContinue (bytes: Buffer): Buffer | undefined {
  if (bytes.length < HEAD.length) return HEAD.startsWith(bytes.toString('latin1')) ? undefined : bytes
  if (!bytes.subarray(0, HEAD.length).equals(Buffer.from(HEAD))) return bytes
  const end = bytes.indexOf(END_OF_HEAD)
  if (end === -1) return bytes.length > MAX_HEAD_BYTES ? bytes : undefined
  const rest = bytes.subarray(end + END_OF_HEAD.length)
  return rest.length === 0 ? rest : withoutContinue(rest)
}
/** Node takes no larger head. */
const MAX_HEAD_BYTES = 16 * 1024
