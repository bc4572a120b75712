import { finished } from 'node:stream'
import type { Readable, Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type { Surroundings } from '../surroundings.ts'
import { GateError } from './gate-error.ts'

/** Bytes of a body that is judged before it is sent on. */
export const MAX_MESSAGE_BYTES = 1024 * 1024
/** Of all bodies that are held at once. */
export const MAX_HELD_BYTES = 64 * 1024 * 1024
/** Of those, what one address and one token may have, so that nobody takes the room of all. */
export const MAX_ADDRESS_BYTES = MAX_HELD_BYTES / 4
export const MAX_TOKEN_BYTES = MAX_HELD_BYTES / 8
/** Most messages are shorter. Less than half of the pool of Node, so that it needs no memory of its own. */
const FIRST_BYTES = 2048
/** The client may go on sending a body that is not read. */
const CLOSE = { connection: 'close' }

/** Bodies of more bytes are judged one after the other, each in a turn of the event loop of its own. The worst take some 30 ms. */
const LARGE_BYTES = 16 * 1024

/** Gives each large body its turn. In between, the requests of others go on. */
export function createTurns (): (body: Buffer) => Promise<void> | undefined {
  let last = Promise.resolve()
  return ({ length }) => {
    if (length <= LARGE_BYTES) return undefined
    last = last.then(() => setImmediate())
    return last
  }
}

/** The body has more bytes than are judged. */
export function bodyTooLarge (): GateError {
  return new GateError(413, 'The body of the request is too large.', { headers: CLOSE })
}

export interface BodyReaderOptions {
  readonly maxBytes: number
  /** Milliseconds for a whole body. */
  readonly timeoutMs: number
  readonly after: Surroundings['after']
}

/**
 * Reads a whole body. Its bytes are counted until the answer has ended: for all, and for each of those who send it.
 * @throws GateError 408, 413, 499, 503. What a client still sends is then dropped.
 */
export type BodyReader = (source: Readable, answer: Writable, senders?: readonly BodySender[]) => Promise<Buffer>

/** An address or a token, and the bytes that it may have. */
export interface BodySender {
  readonly name: string
  readonly maxBytes: number
}

export function createBodyReader ({ maxBytes, timeoutMs, after }: BodyReaderOptions): BodyReader {
  let held = 0
  /** Of each sender that has any. */
  const heldBy = new Map<string, number>()

  return (source, answer, senders = []) => {
    // One buffer that grows: a client may send each byte in a chunk of its own.
    let bytes = Buffer.alloc(0)
    let size = 0
    // It is called for an answer that has closed before, too.
    finished(answer, () => count(-bytes.length))
    return new Promise<Buffer>((resolve, reject) => {
      const stop = after(timeoutMs, () => fail(new GateError(408, 'The body of the request is too slow.', { headers: CLOSE })))
      source.on('data', take)
      // It is called for a source that has ended or closed before, too.
      finished(source, { writable: false }, error => error ? fail(new GateError(499, 'The client has gone.', { headers: CLOSE })) : end())

      function take (chunk: Buffer): void {
        const needed = size + chunk.length
        if (needed > maxBytes) return fail(bodyTooLarge())
        if (needed > bytes.length && !grow(needed)) return fail(new GateError(503, 'Too many bodies are being read.', { headers: { ...CLOSE, 'retry-after': '1' } }))
        chunk.copy(bytes, size)
        size = needed
      }
      function fail (error: GateError): void {
        reject(error)
        end()
      }
      function end (): void {
        stop()
        source.off('data', take).resume()
        resolve(bytes.subarray(0, size))
      }
    })

    function grow (needed: number): boolean {
      const length = Math.min(maxBytes, Math.max(needed, 2 * bytes.length, FIRST_BYTES))
      const more = length - bytes.length
      if (held + more > MAX_HELD_BYTES || senders.some(({ name, maxBytes }) => heldOf(name) + more > maxBytes)) return false
      count(more)
      bytes = Buffer.concat([bytes], length)
      return true
    }

    function count (more: number): void {
      held += more
      for (const { name } of senders) {
        const now = heldOf(name) + more
        if (now > 0) heldBy.set(name, now)
        else heldBy.delete(name)
      }
    }

    function heldOf (name: string): number {
      return heldBy.get(name) ?? 0
    }
  }
}
