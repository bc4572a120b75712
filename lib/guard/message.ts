import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Refusal } from '../refusal.ts'

/** A request of node:http: the members that are read. */
export type ReceivedRequest = Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders'> & {
  readonly socket: {
    readonly encrypted?: boolean,
    /** Undefined for a unix socket. */
    readonly remoteAddress?: string,
    /** Node sets it on each connection that it accepts. A made-up request has none. */
    readonly server?: { readonly maxHeadersCount?: number | null },
    /** The certificate of the client. Only a TLS socket has it. */
    readonly getPeerX509Certificate?: () => { readonly raw: Buffer } | undefined
  },
  /** The original target, if the app rewrites targets: Fastify keeps it there. */
  readonly originalUrl?: string
}

/**
 * The values of the lines with a name, which is in lower case.
 * @param rawHeaders names and values in turn
 */
export function linesOf (rawHeaders: readonly string[], name: string): string[] {
  const isNamed = (other: string) => other.length === name.length && other.toLowerCase() === name
  return rawHeaders.filter((_value, at) => at % 2 === 1 && isNamed(rawHeaders[at - 1]!))
}

/**
 * The values of each header in their order, by its name in lower case.
 * @param rawHeaders names and values in turn
 */
export function linesByName (rawHeaders: readonly string[]): Map<string, string[]> {
  const lines = new Map<string, string[]>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    const values = lines.get(name)
    if (values) values.push(rawHeaders[i + 1]!)
    else lines.set(name, [rawHeaders[i + 1]!])
  }
  return lines
}

/** Whether a request has a body (RFC 9112 section 6.3). */
export function hasBody ({ headers }: Pick<ReceivedRequest, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Whether a browser asks whether a page may send another request (Fetch, section 3.2.2). */
export function isPreflight ({ method, headers }: Pick<ReceivedRequest, 'method' | 'headers'>): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined
}

/**
 * A request that did not arrive: a test made it up, as `injectWS` of @fastify/websocket does, or an adapter, such as
 * those for AWS Lambda. It has no raw lines, and often no socket.
 */
type MadeUpRequest = Pick<ReceivedRequest, 'method' | 'url' | 'originalUrl'> & {
  readonly headers: Readonly<Record<string, unknown>>,
  readonly rawHeaders?: undefined,
  readonly socket?: ReceivedRequest['socket']
}

/**
 * The request that the guard reads. The headers of a made-up request stand for its lines. Node gives raw lines to each
 * request that arrives, so nothing that arrives is read in this way: its `headers` hide repeated lines.
 */
export function receivedFrom (raw: ReceivedRequest | MadeUpRequest): ReceivedRequest {
  if (raw.rawHeaders !== undefined && raw.rawHeaders.length > 0) return raw
  const { method, url, originalUrl, socket = {} } = raw
  const lines = Object.entries(raw.headers).flatMap(([name, value]) =>
    [value].flat().filter(line => line !== undefined).map(line => [name.toLowerCase(), String(line)] as const)
  )
  return { method, url, originalUrl, socket, headers: Object.fromEntries(lines), rawHeaders: lines.flat() }
}

/**
 * One request as it came over the wire, for guard/ and url/. It reads `rawHeaders` once. It does not use `headers`: of
 * repeated lines, `headers` keeps the first for some names and joins them for others, but a repeated line must be seen
 * to be refused.
 */
export class Message {
  readonly received: ReceivedRequest
  /** The first line with that name. The parser removes white space at its ends. */
  authorization: string | undefined = undefined
  authorizationCount = 0
  dpop: string | undefined = undefined
  dpopCount = 0
  host: string | undefined = undefined
  hostCount = 0

  constructor (received: ReceivedRequest) {
    this.received = received
    const { rawHeaders } = received
    let authority: string | undefined
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i]!
      // The length excludes nearly every other header, without a lower-case copy of its name.
      if (name.length === 4) {
        const lower = name.toLowerCase()
        if (lower === 'dpop' && this.dpopCount++ === 0) this.dpop = rawHeaders[i + 1]
        else if (lower === 'host') {
          if (rawHeaders[i + 1] === authority) authority = undefined
          else if (this.hostCount++ === 0) this.host = rawHeaders[i + 1]
        }
      } else if (name === ':authority') {
        // RFC 9113 section 8.3.1: in HTTP/2 it replaces the Host line, which a proxy may keep beside it.
        authority = rawHeaders[i + 1]
        if (this.hostCount++ === 0) this.host = authority
      } else if (name.length === 13 && name.toLowerCase() === 'authorization' && this.authorizationCount++ === 0) {
        this.authorization = rawHeaders[i + 1]
      }
    }
  }

  get method (): string {
    return this.received.method!
  }

  /** The raw request target (RFC 9112 section 3.2). Empty for a CONNECT of HTTP/2, which has none. */
  get target (): string {
    return this.received.originalUrl ?? this.received.url ?? ''
  }

  /** Names in lower case. Several lines with one name are joined by ', '. */
  get headers (): IncomingHttpHeaders {
    return this.received.headers
  }

  /** Whether TLS ends in this process. */
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

/**
 * Maximum number of names and values that Node keeps if a server sets no limit. Node's documentation promises twice as
 * many.
 */
const MAX_RAW_HEADERS = 2000

/**
 * Refuses a request that reaches the header limit of its server. The parser of older releases of Node silently drops
 * all further lines, and newer ones answer 431. Among the dropped may be a second Authorization, DPoP or Host line, or
 * one that a trusted proxy has appended.
 * @throws Refusal headers_uncounted
 */
export function verifyLinesCounted ({ rawHeaders, socket }: ReceivedRequest): void {
  const lines = socket.server?.maxHeadersCount
  // The parser counts in this way, and takes 0 and less as no limit.
  const max = typeof lines === 'number' ? lines << 1 : MAX_RAW_HEADERS
  if (max > 0 && rawHeaders.length >= max) throw new Refusal('headers_uncounted')
}
