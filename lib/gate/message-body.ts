import { finished } from 'node:stream'
import type { Readable } from 'node:stream'
import type { Surroundings } from '../surroundings.ts'

/** Bytes of a body that is judged before it is sent on. */
export const MAX_MESSAGE_BYTES = 1024 * 1024
/** Of all bodies that are held at once. */
export const MAX_HELD_BYTES = 64 * 1024 * 1024
/** Most messages are shorter. Less than half of the pool of Node, so that it needs no memory of its own. */
const FIRST_BYTES = 2048

const FAULTS = {
  408: 'The body of the request is too slow.',
  413: 'The body of the request is too large.',
  499: 'The client has gone.',
  503: 'Too many bodies are being read.'
} as const

/** Why a body could not be read. The message is a fixed sentence. */
export class BodyError extends Error {
  override readonly name = 'BodyError'
  /** 408: it took too long. 413: it is too large. 499: the client has gone. 503: too many are held at once. */
  readonly statusCode: keyof typeof FAULTS
  /** Of the answer. The client may go on sending a body that is not read. */
  readonly headers: Readonly<Record<string, string>>

  constructor (statusCode: keyof typeof FAULTS) {
    super(FAULTS[statusCode])
    this.statusCode = statusCode
    this.headers = statusCode === 503 ? { connection: 'close', 'retry-after': '1' } : { connection: 'close' }
  }
}

export interface BodyReaderOptions {
  readonly maxBytes: number
  /** Milliseconds for a whole body. */
  readonly timeoutMs: number
  readonly after: Surroundings['after']
}

/** Reads whole bodies. Their bytes are counted until `release` is called, which may be called at any time. */
export interface BodyReader {
  /** @throws BodyError. What a client still sends is then dropped. */
  read (source: Readable): { readonly body: Promise<Buffer>, readonly release: () => void }
}

export function createBodyReader ({ maxBytes, timeoutMs, after }: BodyReaderOptions): BodyReader {
  let held = 0

  return {
    read (source) {
      // One buffer that grows: a client may send each byte in a chunk of its own.
      let bytes = Buffer.alloc(0)
      let size = 0
      let isReleased = false
      let end!: (error?: BodyError) => void
      const body = new Promise<Buffer>((resolve, reject) => {
        const stop = after(timeoutMs, () => end(new BodyError(408)))
        end = error => {
          stop()
          source.off('data', take)
          source.resume()
          if (error) reject(error)
          else resolve(bytes.subarray(0, size))
        }
      })
      function take (chunk: Buffer): void {
        if (size + chunk.length > maxBytes) return end(new BodyError(413))
        if (size + chunk.length > bytes.length && !grow(size + chunk.length)) return end(new BodyError(503))
        chunk.copy(bytes, size)
        size += chunk.length
      }
      function grow (needed: number): boolean {
        const length = Math.min(maxBytes, Math.max(needed, 2 * bytes.length, FIRST_BYTES))
        if (held + length - bytes.length > MAX_HELD_BYTES) return false
        held += length - bytes.length
        bytes = Buffer.concat([bytes], length)
        return true
      }
      source.on('data', take)
      // It is called for a source that has ended or closed before, too.
      finished(source, { writable: false }, error => end(error ? new BodyError(499) : undefined))
      return {
        body,
        release () {
          if (!isReleased) held -= bytes.length
          isReleased = true
        }
      }
    }
  }
}
