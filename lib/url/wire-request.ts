import type { IncomingMessage } from 'node:http'
import { readHeaderLines, verifyLinesCounted } from '../header-lines.ts'
import type { LinedMessage } from '../header-lines.ts'
import type { WireRequest } from './base-url.ts'

/** What is read of a message to tell its URL. */
export type ReceivedMessage = Pick<IncomingMessage, 'url' | 'headers' | 'rawHeaders'> & {
  readonly socket: LinedMessage['socket'] & { readonly encrypted?: boolean, readonly remoteAddress?: string | undefined }
}

/** A message of node:http in the form that decides about URLs, with Host as it stood on the wire. @throws Refusal headers_uncounted */
export function readWireRequest (message: ReceivedMessage): WireRequest {
  verifyLinesCounted(message)
  const { url, headers, rawHeaders, socket } = message
  const { host, hostCount } = readHeaderLines(rawHeaders)
  return { target: url!, headers, host, hostCount, encrypted: socket.encrypted === true, remoteAddress: socket.remoteAddress }
}
