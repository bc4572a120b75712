import type { Socket } from 'node:net'
import { owedAnswer } from './node-members.ts'

/** The statuses for what Node's parser refuses before there is a request. */
export const CLIENT_ERROR_STATUSES = [400, 408, 431] as const

export type ClientErrorStatus = (typeof CLIENT_ERROR_STATUSES)[number]

export type ClientError = Error & { readonly code?: string }

/**
 * The status for a request that Node's parser refuses. Undefined if there can be no answer: nobody takes it, or one has
 * begun, as when a body breaks off, so that a second one would be read as the answer to the next request.
 */
export function statusOfClientError ({ code }: ClientError, socket: Socket): ClientErrorStatus | undefined {
  if (code === 'ECONNRESET' || !socket.writable || owedAnswer(socket)?.headersSent) return undefined
  return code === 'HPE_HEADER_OVERFLOW' ? 431 : code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400
}
