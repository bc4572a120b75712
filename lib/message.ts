import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Refusal } from './refusal.ts'

/** A request of node:http, as far as it is read. */
export type ReceivedRequest = Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders'> & {
  readonly socket: {
    readonly encrypted?: boolean
    /** Undefined for a unix socket. */
    readonly remoteAddress?: string | undefined
    /** Node sets it on each connection that it accepts; a made-up request has none. */
    readonly server?: { readonly maxHeadersCount?: number | null }
  }
  /** The target that was sent, if the app rewrites targets: Fastify keeps it there. */
  readonly originalUrl?: string | undefined
}

/**
 * One request as it stood on the wire, for guard and url alike. `rawHeaders` is gone through once: `headers` will not do, because of
 * repeated lines it keeps the first for some names and joins them for others, and a repeated line must be seen to be refused.
 */
export class Message {
  readonly received: ReceivedRequest
  /** The first line of that name; white space at its ends is removed by the parser. */
  authorization: string | undefined = undefined
  authorizationCount = 0
  dpop: string | undefined = undefined
  dpopCount = 0
  host: string | undefined = undefined
  hostCount = 0

  constructor (received: ReceivedRequest) {
    this.received = received
    const { rawHeaders } = received
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i]!
      // The length decides for nearly every other header, without a lower-case copy of its name.
      if (name.length === 4) {
        const lower = name.toLowerCase()
        if (lower === 'dpop' && this.dpopCount++ === 0) this.dpop = rawHeaders[i + 1]
        else if (lower === 'host' && this.hostCount++ === 0) this.host = rawHeaders[i + 1]
      } else if (name === ':authority') {
        // RFC 9113 section 8.3.1: in HTTP/2 it stands for the Host line.
        if (this.hostCount++ === 0) this.host = rawHeaders[i + 1]
      } else if (name.length === 13 && name.toLowerCase() === 'authorization' && this.authorizationCount++ === 0) {
        this.authorization = rawHeaders[i + 1]
      }
    }
  }

  get method (): string {
    return this.received.method!
  }

  /** The raw request target (RFC 9112 section 3.2). */
  get target (): string {
    return this.received.originalUrl ?? this.received.url!
  }

  /** Names in lower case; several lines of one name joined by ', '. */
  get headers (): IncomingHttpHeaders {
    return this.received.headers
  }

  /** TLS ends in this process. */
  get encrypted (): boolean {
    return this.received.socket.encrypted === true
  }

  get remoteAddress (): string | undefined {
    return this.received.socket.remoteAddress
  }
}

/** @throws Refusal headers_uncounted */
export function readMessage (received: ReceivedRequest): Message {
  verifyLinesCounted(received)
  return new Message(received)
}

/** Names and values that Node keeps for a server that sets no limit. Its documents promise twice as many. */
const MOST_RAW_HEADERS = 2000

/**
 * Refuses a request at the limit of its server: the parser drops the lines beyond without a word, and with them a second
 * Authorization, DPoP or Host line, or what a trusted proxy has appended. @throws Refusal headers_uncounted
 */
export function verifyLinesCounted ({ rawHeaders, socket }: ReceivedRequest): void {
  if (rawHeaders.length >= mostRawHeaders(socket)) throw new Refusal('headers_uncounted')
}

/** The parser reckons as it does here, and takes 0 and less for no limit. */
function mostRawHeaders ({ server }: ReceivedRequest['socket']): number {
  const lines = server?.maxHeadersCount
  if (typeof lines !== 'number') return MOST_RAW_HEADERS
  const most = lines << 1
  return most > 0 ? most : Infinity
}
