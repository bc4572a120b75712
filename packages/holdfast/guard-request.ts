import { isJsonObject } from '../../lib/base/json.ts'
import type { ReceivedRequest } from '../../lib/guard/message.ts'

/**
 * A request of node:http, or of Node's HTTP/2: the members that are read. Frameworks such as Express add `originalUrl`.
 */
export type NodeRequest = ReceivedRequest

/** A `Request` of the Fetch standard: the members that are read. */
export interface FetchRequest {
  /** The method that the client used. */
  readonly method: string
  /** Absolute. */
  readonly url: string
  /** Several lines with one name are joined by a comma. */
  readonly headers: {
    /** Calls a function for each header, with its name in lower case. */
    readonly forEach: (each: (value: string, name: string) => void) => void
  }
  /** Only a request of Node has it. */
  readonly rawHeaders?: undefined
}

/** What is known better than the request says it. */
export interface CheckOptions {
  /** The IP address of the peer. A `Request` does not hold it, and only a trusted peer's headers count. */
  readonly peer?: string
  /** The method that the client used, if the framework writes another one into the request. */
  readonly method?: string
  /** The target that the client sent, if the framework writes another one: `ctx.originalUrl` of Koa. */
  readonly url?: string
}

const OPTIONS = ['peer', 'method', 'url'] as const

const TAKES = 'check takes a request of node:http, such as req of Express or ctx.req of Koa, or a Request of the ' +
  'Fetch standard, such as c.req.raw of Hono'

/**
 * The request as the guard reads it.
 * @throws TypeError for another object, and for options of the wrong type
 */
export function receivedOf (request: NodeRequest | FetchRequest, options: CheckOptions = {}): ReceivedRequest {
  const wrong = isJsonObject(options)
    ? Object.entries(options).find(([name, value]) =>
      !OPTIONS.includes(name as 'url') || !(value === undefined || typeof value === 'string')
    )?.[0]
    : String(options)
  if (wrong !== undefined) {
    throw new TypeError(`check: ${wrong} is not an option, or no text; the options are ${OPTIONS.join(', ')}`)
  }
  const { rawHeaders, url, headers } = (request ?? {}) as Partial<FetchRequest>
  if (Array.isArray(rawHeaders)) return ofNode(request as NodeRequest, options)
  if (typeof url !== 'string' || typeof headers?.forEach !== 'function') throw new TypeError(TAKES)
  return ofFetch(request as FetchRequest, options)
}

function ofNode (request: NodeRequest, { peer, method, url }: CheckOptions): ReceivedRequest {
  const { socket, originalUrl, headers, rawHeaders } = request
  return {
    method: method ?? request.method,
    url: url ?? (typeof originalUrl === 'string' ? originalUrl : request.url),
    headers,
    rawHeaders,
    socket: peer === undefined
      ? socket
      : {
          encrypted: socket.encrypted,
          remoteAddress: peer,
          server: socket.server,
          getPeerX509Certificate: () => socket.getPeerX509Certificate?.()
        } as NodeRequest['socket']
  }
}

/** Two lines of these must be seen, and neither holds a comma that is good. */
const SINGLE: ReadonlySet<string> = new Set(['authorization', 'dpop'])

function ofFetch (
  { method: sent, url: address, headers }: FetchRequest,
  { peer, method, url }: CheckOptions
): ReceivedRequest {
  const parsed = URL.canParse(address) ? new URL(address) : undefined
  const lines: Array<readonly [name: string, value: string]> = []
  headers.forEach((value, name) => {
    // Its URL says what the host is.
    if (name === 'host') return
    for (const line of SINGLE.has(name) ? value.split(',') : [value]) lines.push([name, line.trim()])
  })
  // The URL of another scheme names no host of HTTP.
  if (parsed && /^https?:$/.test(parsed.protocol)) lines.push(['host', parsed.host])
  return {
    method: method ?? sent,
    url: url ?? (parsed ? parsed.pathname + parsed.search : address),
    // Of repeated lines the first one counts, as in Node.
    headers: Object.fromEntries(lines.toReversed()),
    rawHeaders: lines.flat(),
    socket: { encrypted: parsed?.protocol === 'https:', remoteAddress: peer }
  }
}
