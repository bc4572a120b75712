/**
 * The parts of Protocol Buffers that the question of Envoy needs: whole numbers, and fields with a length. @grpc/grpc-js is not used,
 * because it brings a package that runs a script when it is installed.
 */

/** A message that cannot be read. */
export class MessageError extends Error {
  override readonly name = 'MessageError'
}

/** The fields with a length (texts, bytes, messages) of a message, by their numbers. Fields of other kinds are passed over. */
export type Fields = ReadonlyMap<number, readonly Buffer[]>

const VARINT = 0
const FIXED64 = 1
const LENGTH = 2
const FIXED32 = 5

/** How many fields may still be read. A question shares one budget among all its messages. */
export interface FieldBudget {
  left: number
}

/**
 * Reads the fields of one message.
 * @throws MessageError also when the budget is used up
 */
export function readFields (message: Buffer, budget: FieldBudget): Fields {
  const fields = new Map<number, Buffer[]>()
  let at = 0
  while (at < message.length) {
    if (budget.left-- === 0) throw new MessageError('The message has too many fields')
    const key = number()
    const field = key >>> 3
    switch (key & 7) {
      case VARINT: number(); break
      case FIXED64: take(8); break
      case FIXED32: take(4); break
      case LENGTH: {
        const value = take(number())
        const values = fields.get(field)
        if (values) values.push(value)
        else fields.set(field, [value])
        break
      }
      default: throw new MessageError('The message has a field of an unknown kind')
    }
  }
  return fields

  function take (length: number): Buffer {
    if (length > message.length - at) throw new MessageError('The message is cut off')
    at += length
    return message.subarray(at - length, at)
  }

  /** Numbers of more than 32 bits are only passed over, so what does not fit is lost. */
  function number (): number {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (at === message.length) throw new MessageError('The message is cut off')
      const byte = message[at++]!
      if (shift < 32) value |= (byte & 127) << shift
      if (byte < 128) return value >>> 0
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
