import { isIP } from 'node:net'
import { Transform } from 'node:stream'
import type { Readable } from 'node:stream'
import { buildConnector, Pool } from 'undici'
import type { Surroundings } from '../surroundings.ts'
import { Exchange, UpstreamError } from './exchange.ts'
import type { OnInterim } from './exchange.ts'

export interface UpstreamRequest {
  readonly method: string
  /** Path and query, as the client sent them. */
  readonly target: string
  /** Names and values in turn. */
  readonly headers: readonly string[]
  /** The body as it arrives. Undefined if the request has none. */
  readonly body: Readable | undefined
  readonly onInterim: OnInterim
}

export interface Upstream {
  /** Sends a request, once. */
  send (request: UpstreamRequest): Pick<Exchange, 'answer' | 'end'>
  close (): Promise<void>
}

export interface UpstreamOptions {
  /** Scheme, host and port. */
  readonly origin: string
  readonly timeoutSeconds: number
  /** Bytes that the body of a request may have. */
  readonly bodyLimit: number | undefined
  readonly after: Surroundings['after']
}

const MAX_CONNECTIONS = 10_000

/** The name that the certificate of an upstream must have: empty if it is an address, which TLS does not send (RFC 6066 section 3). */
export function tlsNameOf (origin: string): string {
  const { hostname } = new URL(origin)
  return isIP(hostname.replace(/^\[|\]$/g, '')) ? '' : hostname
}

/** Sends requests to the upstream, with undici. One connection carries one request at a time, so that a request never fails because of another. */
export function createUpstream ({ origin, timeoutSeconds, bodyLimit, after }: UpstreamOptions): Upstream {
  const timeoutMs = timeoutSeconds * 1000
  const connect = buildConnector({ timeout: timeoutMs })
  const tlsName = tlsNameOf(origin)
  // undici would take the Host of the client for the name of the upstream. Its types do not know that a request can say another one.
  const fixed = { servername: new URL(origin).hostname }
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    connect: (options, done) => connect({ ...options, servername: tlsName }, done),
    // The time to the first byte is measured below, with the time to connect: undici would count the time that the body of the request takes.
    headersTimeout: 0,
    bodyTimeout: timeoutMs,
    maxResponseSize: -1
  })

  return {
    send ({ method, target, headers, body, onInterim }) {
      const exchange = new Exchange((status, headers) => {
        wait()
        onInterim(status, headers)
      })
      const late = (): void => exchange.end(new UpstreamError(504, 'The upstream is too slow'))
      let stop = after(timeoutMs, late)
      let isAnswered = false
      function wait (): void {
        if (isAnswered) return
        stop()
        stop = after(timeoutMs, late)
      }
      function settle (): void {
        isAnswered = true
        stop()
      }
      const limited = body && limitBody(body, bodyLimit, wait, error => exchange.end(error))
      exchange.answer.then(settle, () => {
        settle()
        limited?.destroy()
      })
      pool.dispatch({ ...fixed, method: method as 'GET', path: target, headers: headers as string[], body: limited }, exchange)
      return exchange
    },
    // What is still on its way has had its time while the process drained.
    close: () => pool.destroy()
  }
}

/**
 * The body of a request on its way to the upstream. It stands between the two, because undici destroys a body that the upstream does not
 * want to the end, and with it the connection of the client, which would then get no answer.
 */
function limitBody (source: Readable, limit: number | undefined, onChunk: () => void, end: (error: UpstreamError) => void): Readable {
  let size = 0
  const body = new Transform({
    transform (chunk: Buffer, _encoding, done) {
      size += chunk.length
      if (limit !== undefined && size > limit) return end(new UpstreamError(413, 'The body of the request is too large'))
      onChunk()
      done(null, chunk)
    }
  })
  source.pipe(body)
  source.once('error', () => body.destroy())
  body.once('close', () => {
    source.unpipe(body)
    source.resume()
  })
  return body
}
