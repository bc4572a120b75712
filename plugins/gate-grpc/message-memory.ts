/** Messages up to this size have memory of their own. */
const SMALL_BYTES = 16 * 1024

interface MessageMemoryLimits {
  /** Of one message. */
  readonly messageBytes: number
  /** Of all messages of one connection, and of all. */
  readonly bytesOfConnection: number
  readonly bytes: number
}

/** A connection: the bytes that its messages take. */
interface MessageHolder {
  bytes: number
}

/**
 * Makes the memory for the messages of all connections. What is not small is reused: the garbage collector would free
 * it late.
 */
export function createMessageMemory (limits: MessageMemoryLimits) {
  const spare: Buffer[] = []
  let taken = 0

  return {
    /** Memory for a message of so many bytes, at least, or undefined if there is no room. */
    take (holder: MessageHolder, length: number): Buffer | undefined {
      const bytes = length > SMALL_BYTES ? limits.messageBytes : length
      if (
        length > bytes || holder.bytes + bytes > limits.bytesOfConnection || taken + bytes > limits.bytes
      ) return undefined
      holder.bytes += bytes
      taken += bytes
      return (length > SMALL_BYTES && spare.pop()) || Buffer.allocUnsafeSlow(bytes)
    },
    free (holder: MessageHolder, memory: Buffer) {
      holder.bytes -= memory.length
      taken -= memory.length
      if (memory.length > SMALL_BYTES) spare.push(memory)
    }
  }
}
