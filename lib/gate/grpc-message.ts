/**
 * Messages of gRPC: their frame, and the parts of Protocol Buffers that Envoy's check requests need, whole numbers and
 * fields with a length.
 * @grpc/grpc-js is not used, because it brings a package that runs a script when it is installed.
 */

/** A message that cannot be read. */
export class MessageError extends Error {
  override readonly name = 'MessageError'
}

/** A message that is larger than allowed, or for which there is no room now. */
export class MessageSizeError extends Error {
  override readonly name = 'MessageSizeError'
}

/** One byte for compression, which is not used, and four for the length. */
const HEAD_BYTES = 5

/** A message with the five bytes that gRPC puts before it. */
export function frameMessage (message: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/**
 * Makes what collects the only message of a call. The memory is allocated by the length that the peer states: a peer
 * that sends one byte in each frame costs no more than one that sends all of them together.
 * @param allocate memory for a message of so many bytes, undefined if there is no room
 */
export function createMessageReader (allocate: (bytes: number) => Buffer | undefined) {
  const head = Buffer.alloc(HEAD_BYTES)
  let message: Buffer | undefined
  /** Of the message: less than 0 while the head is not complete. */
  let size = -HEAD_BYTES

  return {
    /** @throws MessageError, MessageSizeError */
    push (chunk: Buffer) {
      const ofHead = chunk.copy(head, Math.min(size, 0) + HEAD_BYTES)
      const start = size + ofHead
      size += chunk.length
      if (start < 0) return
      message ??= begin()
      if (size > message.length) throw new MessageError('The message is longer than stated')
      chunk.copy(message, start, ofHead)
    },
    /**
     * The whole message.
     * @throws MessageError
     */
    end (): Buffer {
      if (!message || size < message.length) throw new MessageError('The message is cut off')
      return message
    }
  }

  function begin () {
    if (head[0] !== 0) throw new MessageError('The message is compressed')
    const length = head.readUInt32BE(1)
    const memory = allocate(length)
    if (!memory) throw new MessageSizeError(`There is no room for a message of ${length} bytes`)
    return memory
  }
}

/**
 * The fields with a length (texts, bytes, messages) of a message, by their numbers. Fields of other kinds are skipped.
 */
export type Fields = ReadonlyMap<number, readonly Buffer[]>

const VARINT = 0
const FIXED64 = 1
const LENGTH = 2
const FIXED32 = 5

/**
 * Reads the fields of one message.
 * @param budget how many fields may still be read: a check request shares one budget among all its messages
 * @throws MessageError also when the budget is used up
 */
export function readFields (message: Buffer, budget: { left: number }): Fields {
  const fields = new Map<number, Buffer[]>()
  let at = 0
  while (at < message.length) {
    if (budget.left-- === 0) throw new MessageError('The message has too many fields')
    const key = number()
    const field = Math.floor(key / 8)
    switch (key & 7) {
      case VARINT:
        number()
        break
      case FIXED64:
        take(8)
        break
      case FIXED32:
        take(4)
        break
      case LENGTH: {
        const value = take(number())
        const values = fields.get(field)
        if (values) values.push(value)
        else fields.set(field, [value])
        break
      }
      default:
        throw new MessageError('The message has a field of an unknown kind')
    }
  }
  return fields

  function take (length: number) {
    if (length > message.length - at) throw new MessageError('The message is cut off')
    at += length
    return message.subarray(at - length, at)
  }

  /** Numbers of more than 53 bits are only skipped, or are too large for a length: they need not be exact. */
  function number () {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (at === message.length) throw new MessageError('The message is cut off')
      const byte = message[at++]!
      value += (byte & 127) * 2 ** shift
      if (byte < 128) return value
    }
    throw new MessageError('The message has a number without end')
  }
}

/** A field of a message that is written. */
export function field (number: number, value: string | Buffer | number): Buffer {
  if (typeof value === 'number') return Buffer.concat([varint(number << 3 | VARINT), varint(value)])
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  return Buffer.concat([varint(number << 3 | LENGTH), varint(bytes.length), bytes])
}

function varint (value: number): Buffer {
  const bytes: number[] = []
  for (; value > 127; value >>>= 7) bytes.push(value & 127 | 128)
  return Buffer.from([...bytes, value])
}
