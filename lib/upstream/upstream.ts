import { Readable, Transform } from 'node:stream'
import { buildConnector, Pool } from 'undici'
import type { Dispatcher } from 'undici'
import type { Surroundings } from '../surroundings.ts'
import { UpstreamExchange, UpstreamError } from './exchange.ts'
import type { OnInterim } from './exchange.ts'
import { tlsNameOf } from './origin.ts'

export interface UpstreamRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Names and values in turn, without those of the connection. */
  readonly headers: readonly string[]
  /** A Buffer is sent in one piece. */
  readonly body: Readable | Buffer | undefined
  readonly onInterim: OnInterim
}

export interface Upstream {
  /** Sends a request, once. */
  send (request: UpstreamRequest): Pick<UpstreamExchange, 'answer' | 'end'>
  close (): Promise<void>
}

export interface UpstreamOptions {
  /** Scheme, host and port. */
  readonly origin: string
  readonly timeoutSeconds: number
  /** Bytes that the body of a request may have. */
  readonly bodyLimit: number
  readonly after: Surroundings['after']
}

const MAX_CONNECTIONS = 10_000
/** Bytes that wait on a connection while the client takes none. Node stops reading at this number, and reads up to 64 KiB at once. */
const READ_AHEAD_BYTES = 16 * 1024

/** Sends requests to the upstream over HTTP/1.1. One connection carries one request at a time, so that a request never fails because of another. */
export function createUpstream ({ origin, timeoutSeconds, bodyLimit, after }: UpstreamOptions): Upstream {
  const timeoutMs = timeoutSeconds * 1000
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false, highWaterMark: READ_AHEAD_BYTES } as buildConnector.BuildOptions)
  const tlsName = tlsNameOf(origin)
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    connect: (options, done) => connect({ ...options, servername: tlsName }, done),
    // `send` limits the time to the first byte, with the time to connect: undici would count the time that the body of the request takes.
    headersTimeout: 0,
    bodyTimeout: timeoutMs,
    maxResponseSize: -1
  })
  // undici would take the Host of the client for the name of the upstream.
  const servername = new URL(origin).hostname

  return {
    send ({ method, target, headers, body, onInterim }) {
      const exchange = new UpstreamExchange((status, headers) => {
        wait()
        onInterim(status, headers)
      })
      // Nothing of what the client has sent waits here, and more is to come.
      const isClientSilent = (): boolean => limited !== undefined && !limited.writableEnded && limited.writableLength + limited.readableLength === 0
      const late = (): void => exchange.end(isClientSilent() ? new UpstreamError(408, 'The body of the request is too slow') : new UpstreamError(504, 'The upstream is too slow'))
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
      const limited = body instanceof Readable ? limitBody(body, bodyLimit, wait, error => exchange.end(error)) : undefined
      exchange.answer.then(settle, () => {
        settle()
        limited?.destroy()
      })
      // Written out, not spread: V8 would keep what a finished request was sent with, and collect all memory every few seconds.
      pool.dispatch({ servername, method, path: target, headers, body: limited ?? body } as Dispatcher.DispatchOptions, exchange)
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
function limitBody (source: Readable, limit: number, onChunk: () => void, end: (error: UpstreamError) => void): Transform {
  let size = 0
  const body = new Transform({
    transform (chunk: Buffer, _encoding, done) {
      size += chunk.length
      if (size > limit) return end(new UpstreamError(413, 'The body of the request is too large'))
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
