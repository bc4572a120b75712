import { createBoundedReader, type BodyReader } from '../base/bounded-reader.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { UndecidedError } from './store/store.ts'
import { MAX_SET_BYTES } from './security-event-token.ts'

/** Of all bodies that are held at once. Who sends them is not known yet. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024
/** Of those, what one address may have, so that one does not take the room of all. */
export const MAX_EVENT_BYTES_OF_ADDRESS = MAX_EVENT_BYTES / 4
/** 64 KiB come in 128 pieces of the shortest packets. */
const MAX_PIECES = 256
/** The server has the same limit, but none beside a gate. */
const TIMEOUT_MS = 30_000

/**
 * Reads what senders of events send. A sender may have the address of an attacker, behind a proxy that is not trusted.
 * @returns a reader whose errors have a `statusCode`; for want of room, UndecidedError
 */
export function createEventBodies (after: Surroundings['after']): BodyReader {
  return createBoundedReader({
    maxBytes: MAX_SET_BYTES,
    maxPieces: MAX_PIECES,
    maxHeldBytes: MAX_EVENT_BYTES,
    timeoutMs: TIMEOUT_MS,
    errorOf: (statusCode, message, headers) =>
      statusCode === 503
        ? new UndecidedError('too many bodies are being read')
        : Object.assign(new Error(message), { statusCode, headers }),
    after
  })
}
