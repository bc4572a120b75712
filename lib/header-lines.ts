import { Refusal } from './refusal.ts'

/** What the guard reads of the header lines as they stood on the wire. */
export interface HeaderLines {
  /** First line of that name, white space at its ends removed by the parser. */
  authorization: string | undefined
  authorizationCount: number
  dpop: string | undefined
  dpopCount: number
  host: string | undefined
  hostCount: number
}

/**
 * One pass over `IncomingMessage.rawHeaders`. `headers` will not do: of repeated lines it keeps
 * the first for some names and joins them for others, and a repeated line must be seen to be refused.
 */
export function readHeaderLines (rawHeaders: readonly string[]): HeaderLines {
  const lines: HeaderLines = {
    authorization: undefined, authorizationCount: 0, dpop: undefined, dpopCount: 0, host: undefined, hostCount: 0
  }
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!
    // The length decides for nearly every other header, without a lower-case copy of its name.
    if (name.length === 4) {
      const lower = name.toLowerCase()
      if (lower === 'dpop' && lines.dpopCount++ === 0) lines.dpop = rawHeaders[i + 1]
      else if (lower === 'host' && lines.hostCount++ === 0) lines.host = rawHeaders[i + 1]
    } else if (name === ':authority') {
      // RFC 9113 section 8.3.1: in HTTP/2 it stands for the Host line.
      if (lines.hostCount++ === 0) lines.host = rawHeaders[i + 1]
    } else if (name.length === 13 && name.toLowerCase() === 'authorization' && lines.authorizationCount++ === 0) {
      lines.authorization = rawHeaders[i + 1]
    }
  }
  return lines
}

/** The parts of a message of node:http that tell its header lines, and how many of them there may be. */
export interface LinedMessage {
  readonly rawHeaders: readonly string[]
  /** Node sets `server` on each connection that it accepts; a made-up request has none. */
  readonly socket: { readonly server?: { readonly maxHeadersCount?: number | null } }
}

/** Names and values that Node keeps for a server that sets no limit. Its documents promise twice as many. */
const MOST_RAW_HEADERS = 2000

/** With as many names and values the parser may have dropped some. It reckons as it does here, and takes 0 and less for no limit. */
function mostRawHeaders ({ server }: LinedMessage['socket']): number {
  const lines = server?.maxHeadersCount
  if (typeof lines !== 'number') return MOST_RAW_HEADERS
  const most = lines << 1
  return most > 0 ? most : Infinity
}

/**
 * Refuses a message at the limit of its server: the parser drops the lines beyond without a word, and with them a second
 * Authorization, DPoP or Host line, or what a trusted proxy has appended. @throws Refusal headers_uncounted
 */
export function verifyLinesCounted ({ rawHeaders, socket }: LinedMessage): void {
  if (rawHeaders.length >= mostRawHeaders(socket)) throw new Refusal('headers_uncounted')
}
