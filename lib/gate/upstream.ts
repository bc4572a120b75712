import { EventEmitter } from 'node:events'
import { Transform } from 'node:stream'
import type { Readable } from 'node:stream'
import { Pool } from 'undici'
import type { Surroundings } from '../surroundings.ts'

/** Why the upstream gave no answer. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** 413: the body of the request is too large. 502: the upstream failed. 504: it was silent for too long. */
  readonly statusCode: 413 | 502 | 504

  constructor (statusCode: UpstreamError['statusCode'], message: string, cause?: unknown) {
    super(message, { cause })
    this.statusCode = statusCode
  }
}

export interface UpstreamRequest {
  readonly method: string
  /** Path and query, as the client sent them. */
  readonly target: string
  /** Names and values in turn. */
  readonly headers: readonly string[]
  /** The body as it arrives. Undefined if the request has none. */
  readonly body: Readable | undefined
  /** Called for each interim answer (1xx) but 100 and 101. */
  readonly onInterim: (status: number, headers: readonly string[]) => void
}

export interface UpstreamAnswer {
  readonly status: number
  /** Names and values in turn. */
  readonly headers: readonly string[]
  /** It fails if the upstream breaks off, or is silent for too long. */
  readonly body: Readable
}

/** One request on its way. */
export interface Exchange {
  /** @throws UpstreamError */
  readonly answer: Promise<UpstreamAnswer>
  /** The client has gone: the upstream need not go on. */
  abort (): void
}

export interface Upstream {
  send (request: UpstreamRequest): Exchange
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

const CONNECT_GRACE_MS = 1000
const MAX_CONNECTIONS = 10_000

/**
 * Sends requests to the upstream, with undici. Each is sent once: undici does not repeat a request that it has begun to send. One
 * connection carries one request at a time, so that a request never fails because of another.
 */
export function createUpstream ({ origin, timeoutSeconds, bodyLimit, after }: UpstreamOptions): Upstream {
  const timeoutMs = timeoutSeconds * 1000
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    // The time to the first byte is measured below, with the time to connect: undici would count the time that the body of the request takes.
    connect: { timeout: timeoutMs + CONNECT_GRACE_MS },
    headersTimeout: 0,
    bodyTimeout: timeoutMs,
    maxResponseSize: -1
  })

  return {
    send ({ method, target, headers, body, onInterim }) {
      const signal = new EventEmitter()
      let failure: UpstreamError | undefined
      const end = (error: UpstreamError): void => {
        failure ??= error
        signal.emit('abort')
      }
      const late = (): void => end(new UpstreamError(504, 'The upstream is too slow'))
      let stop = after(timeoutMs, late)
      const wait = (): void => {
        stop()
        stop = after(timeoutMs, late)
      }
      const limited = body && limitBody(body, bodyLimit, wait, end)
      const request = pool.request({
        method: method as 'GET',
        path: target,
        headers: headers as string[],
        body: limited,
        signal,
        responseHeaders: 'raw',
        onInfo ({ statusCode, headers }) {
          wait()
          onInterim(statusCode, headers as unknown as string[])
        }
      })
      const answer = request.then(({ statusCode, headers, body }) => {
        stop()
        return { status: statusCode, headers: headers as unknown as string[], body }
      }, cause => {
        stop()
        limited?.destroy()
        throw failure ?? new UpstreamError(502, 'The upstream failed', cause)
      })
      return { answer, abort: () => end(new UpstreamError(502, 'The client has gone')) }
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
