import { MessageError } from './protobuf.ts'

/** One byte for compression, which is not used, and four for the length. */
const HEAD_BYTES = 5

/** A message that is larger than allowed, or for which there is no room now. */
export class MessageSizeError extends Error {
  override readonly name = 'MessageSizeError'
}

/** A message with the five bytes that gRPC puts before it. */
export function frameMessage (message: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/**
 * Collects the only message of a call. The memory for it is taken by the length that the peer states: a peer that sends one byte in each
 * frame costs no more than one that sends all of them together.
 */
export class MessageReader {
  readonly #head = Buffer.alloc(HEAD_BYTES)
  readonly #allocate: (bytes: number) => Buffer | undefined
  #headSize = 0
  #message: Buffer | undefined
  #size = 0

  /** @param allocate memory for a message of so many bytes, undefined if there is no room */
  constructor (allocate: (bytes: number) => Buffer | undefined) {
    this.#allocate = allocate
  }

  /** @throws MessageError, MessageSizeError */
  push (chunk: Buffer): void {
    const rest = this.#message === undefined ? this.#readHead(chunk) : chunk
    if (this.#message === undefined) return
    if (rest.length > this.#message.length - this.#size) throw new MessageError('The message is longer than stated')
    this.#size += rest.copy(this.#message, this.#size)
  }

  /**
   * The whole message.
   * @throws MessageError
   */
  end (): Buffer {
    if (this.#message === undefined || this.#size < this.#message.length) throw new MessageError('The message is cut off')
    return this.#message
  }

  /** Returns what follows the head. */
  #readHead (chunk: Buffer): Buffer {
    const taken = chunk.copy(this.#head, this.#headSize)
    this.#headSize += taken
    if (this.#headSize === HEAD_BYTES) {
      if (this.#head[0] !== 0) throw new MessageError('The message is compressed')
      const length = this.#head.readUInt32BE(1)
      this.#message = this.#allocate(length)
      if (!this.#message) throw new MessageSizeError(`There is no room for a message of ${length} bytes`)
    }
    return chunk.subarray(taken)
  }
}
