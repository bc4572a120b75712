import type { Socket } from 'node:net'
import { endNow, hasWaiting } from './queued-response.ts'
import { SILENCE_MS } from './stalled-answers.ts'

/** How often the connections are looked at. A silent one is ended up to twice as much too late. */
export const LOOK_MS = 1000

/** What a connection carries for the looks. Each request and each answer writes the first, so it is a property. */
const kMoved = Symbol('moved')
const kSinceMs = Symbol('sinceMs')

/** `_onTimeout` is private to Node, and used in this file only. It knows how much of a large piece has gone out. */
type Watched = Socket & { [kMoved]: number, [kSinceMs]: number, _onTimeout?: (() => void) | undefined }

/**
 * Takes the timer for silence from a connection, which `endSilent` then watches. Node makes that timer anew at each
 * request and each answer, and moves it at each piece: 1 µs of the 15 that a request costs. What `setTimeout` and
 * `timeout` of the connection mean stays.
 */
export function watchSilence (socket: Socket): void {
  const watched = socket as Watched
  const ms = socket.timeout ?? 0
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

/**
 * Has Node end each connection that has been silent for its `timeout`, in both directions. While requests wait behind
 * an answer, only what the client takes counts, also without a `timeout`: each request that it sends would be a sign of
 * life.
 */
export function endSilent (sockets: Iterable<Socket>): void {
  const nowMs = performance.now()
  for (const socket of sockets as Iterable<Watched>) {
    const isWaiting = hasWaiting(socket)
    const limitMs = socket.timeout || (isWaiting ? SILENCE_MS : 0)
    // What the system has taken, not what was written.
    const taken = socket.bytesWritten - socket.writableLength
    const moved = isWaiting ? taken : taken + socket.bytesRead
    if (moved !== socket[kMoved]) {
      socket[kMoved] = moved
      socket[kSinceMs] = nowMs
    } else if (limitMs > 0 && nowMs - socket[kSinceMs] >= limitMs) {
      socket[kSinceMs] = nowMs
      if (isWaiting) endNow(socket)
      else if (socket._onTimeout) socket._onTimeout()
      else socket.emit('timeout')
    }
  }
}
