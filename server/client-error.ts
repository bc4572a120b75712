import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { owedAnswer } from './node-members.ts'

/** The statuses for what never becomes a request: what Node's parser refuses, unknown methods included, and CONNECT. */
export const CLIENT_ERROR_STATUSES = [400, 404, 408, 431] as const

export type ClientErrorStatus = (typeof CLIENT_ERROR_STATUSES)[number]

/** Of a fault of the parser: the piece that arrived last, and how many of its bytes were read before the fault. */
export type ClientError = Error & {
  readonly code?: string,
  readonly rawPacket?: Pick<Buffer, 'toString'>,
  readonly bytesParsed?: number
}

/** RFC 9112 section 3: any word can be a method. */
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]+ \S+ HTTP\/1\.[01]\r\n/

/** Refuses a CONNECT, which names no path. By itself, Node ends the connection without an answer. */
export function refuseConnect (this: Server, _request: IncomingMessage, socket: Socket): void {
  // Node no longer listens to it.
  socket.on('error', () => socket.destroy())
  // The answer would be read as that to an earlier request.
  if (owedAnswer(socket)) socket.destroy()
  else this.emit('clientError', Object.assign(new Error('CONNECT'), { code: 'CONNECT' }), socket)
}

/**
 * The code of a fault that Node's parser lets pass: HTTP/1.1 without a host (RFC 9112 section 3.2), or a
 * transfer coding in another version, where who forwarded it may have taken what follows for the next request (section
 * 6.1).
 */
export function faultOf ({ httpVersion, headers }: IncomingMessage): string | undefined {
  if (httpVersion === '1.1') return headers.host === undefined ? 'HOST_MISSING' : undefined
  return headers['transfer-encoding'] === undefined ? undefined : 'CODING_UNEXPECTED'
}

/** Refuses a request with such a fault, and ends its connection. */
export function refuseFaulty (request: IncomingMessage): void {
  const { socket } = request
  const { server } = socket as Socket & { readonly server: Server }
  server.emit('clientError', Object.assign(new Error('fault'), { code: faultOf(request) }), socket)
}

/**
 * The status for a request that Node's parser refuses, or undefined if there can be no answer: the client has gone, or
 * an answer has begun, as when a body breaks off, so that a second one would be read as the answer to the next request.
 */
export function statusOfClientError (error: ClientError, socket: Socket): ClientErrorStatus | undefined {
  const { code } = error
  if (code === 'ECONNRESET' || !socket.writable || owedAnswer(socket)?.headersSent) return undefined
  // Before an answer that is owed, a 404 would be read as that to the earlier request.
  if (code === 'CONNECT' || (isOfUnknownMethod(error) && !owedAnswer(socket))) return 404
  return code === 'HPE_HEADER_OVERFLOW' ? 431 : code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400
}

/** Whether all is well with a request line but that Node does not know its method, or knows it from RTSP. */
function isOfUnknownMethod ({ code, rawPacket, bytesParsed }: ClientError): boolean {
  if ((code !== 'HPE_INVALID_METHOD' && code !== 'HPE_INVALID_CONSTANT') || !rawPacket) return false
  // The piece may begin with another request.
  const start = rawPacket.toString('latin1', 0, bytesParsed).lastIndexOf('\n') + 1
  return REQUEST_LINE.test(rawPacket.toString('latin1', start))
}
