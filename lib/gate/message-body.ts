import { setImmediate } from 'node:timers/promises'
import {
  CLOSE,
  createBoundedReader,
  senderAt,
  type BodyReader,
  type BodySender,
  type BoundedReaderOptions
} from '../base/bounded-reader.ts'
import { GateError } from './gate-error.ts'

/** Bytes of a body that is judged before it is sent on. */
export const MAX_MESSAGE_BYTES = 1024 * 1024
/** Of all bodies that are held at once. */
const MAX_HELD_BYTES = 64 * 1024 * 1024
/** Of those, what one address and one caller may have, so that none takes the room of all. */
const MAX_ADDRESS_BYTES = MAX_HELD_BYTES / 4
const MAX_CALLER_BYTES = MAX_HELD_BYTES / 8

/**
 * Bodies of more bytes are judged one after the other, each in a turn of the event loop of its own. The worst take some
 * 30 ms.
 */
const LARGE_BYTES = 16 * 1024

/** Gives each large body its turn. In between, the requests of others go on. */
export function createBodyTurns (): (body: Buffer) => Promise<void> | undefined {
  let last = Promise.resolve()
  return ({ length }) => {
    if (length <= LARGE_BYTES) return undefined
    last = last.then(() => setImmediate())
    return last
  }
}

/**
 * Who sends a body, if it is known: the address, and the subject at its issuer.
 * @param address undefined behind a unix socket
 */
export function sendersOf (
  address: string | undefined,
  caller: { readonly issuer: string, readonly subject: string } | undefined
): readonly BodySender[] {
  return [
    ...address ? [senderAt(address, MAX_ADDRESS_BYTES)] : [],
    ...caller ? [{ name: `caller ${caller.issuer} ${caller.subject}`, maxBytes: MAX_CALLER_BYTES }] : []
  ]
}

/** The body has more bytes than are judged. */
export function bodyTooLarge (): GateError {
  return new GateError(413, 'The body of the request is too large.', { headers: CLOSE })
}

/** Reads bodies that are judged. @throws GateError 408, 413, 499, 503 */
export function createBodyReader (options: Pick<BoundedReaderOptions, 'maxBytes' | 'timeoutMs' | 'after'>): BodyReader {
  return createBoundedReader({
    ...options,
    maxHeldBytes: MAX_HELD_BYTES,
    errorOf: (status, message, headers) => new GateError(status, message, { headers })
  })
}
