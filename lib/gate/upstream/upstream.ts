import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { buildConnector, Pool, type Dispatcher } from 'undici'
import type { Surroundings } from '../../base/surroundings.ts'
import { adaptConnection, type UpstreamConnection } from './connection.ts'
import { UpstreamExchange, type ExchangeOptions } from './exchange.ts'
import { tlsNameOf } from './origin.ts'

export interface UpstreamRequest extends Pick<ExchangeOptions, 'onInterim'> {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Names and values in turn, without those of the connection. */
  readonly headers: readonly string[]
  /** A Buffer is sent in one piece. */
  readonly body: Readable | Buffer | undefined
  /**
   * How long the upstream may be silent: to the first byte of its answer, and between two. Of an event stream the head
   * is enough.
   */
  readonly timeoutSeconds: number
}

export interface UpstreamOptions {
  /** Scheme, host and port. */
  readonly origin: string
  /** How long a connection may take to be made. */
  readonly timeoutSeconds: number
  /** How long a connection without requests is kept. With 0, each request has a connection of its own. */
  readonly idleSeconds: number
  /** Bytes that the body of a request may have. */
  readonly bodyLimit: number
  readonly surroundings: Pick<Surroundings, 'after' | 'steadyMs'>
}

const MAX_CONNECTIONS = 10_000
/**
 * Bytes that wait on a connection while the client takes none. Node stops reading at this number, and reads up to 64
 * KiB at once.
 */
const READ_AHEAD_BYTES = 16 * 1024
/** undici publishes each head of a request that it sends. */
const SENT = 'undici:client:sendHeaders'

/**
 * Sends requests to the upstream over HTTP/1.1. One connection carries one request at a time, so that a request never
 * fails because of another.
 */
export function createUpstream (
  { origin, timeoutSeconds: connectSeconds, idleSeconds, bodyLimit, surroundings }: UpstreamOptions
) {
  const connect = buildConnector(
    { timeout: connectSeconds * 1000, allowH2: false, highWaterMark: READ_AHEAD_BYTES } as buildConnector.BuildOptions
  )
  const tlsName = tlsNameOf(origin)
  const connections = new WeakMap<Socket, UpstreamConnection>()
  let connectionNow: UpstreamConnection
  const awaitHead = (sent: unknown): void => {
    const { socket, request } = sent as { socket: Socket, request: { body: unknown } }
    connections.get(socket)?.awaitHead(request.body !== null)
  }
  subscribe(SENT, awaitHead)
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    ...keepAlive(idleSeconds),
    connect: (options, done) =>
      connect({ ...options, servername: tlsName }, (...result) => {
        if (result[1]) {
          const connection = adaptConnection(result[1], () => {
            connectionNow = connection
          })
          connections.set(result[1], connection)
        }
        done(...result)
      }),
    // The exchange limits the times: undici would count the time that the body of the request takes, and has one limit
    // for all requests.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: -1
  })
  // undici would take the Host of the client for the name of the upstream.
  const servername = new URL(origin).hostname

  return {
    /** Sends a request, once. */
    send (
      { method, target, headers, body, timeoutSeconds, onInterim }: UpstreamRequest
    ): Pick<UpstreamExchange, 'answer' | 'end'> {
      const exchange = new UpstreamExchange({
        timeoutMs: timeoutSeconds * 1000,
        ...surroundings,
        connectionNow: () => connectionNow,
        onInterim
      })
      const sent = body instanceof Readable ? exchange.limitBody(body, bodyLimit) : body
      // Written out, not spread: V8 would keep what a finished request was sent with, and collect all memory every few
      // seconds.
      pool.dispatch({ servername, method, path: target, headers, body: sent } as Dispatcher.DispatchOptions, exchange)
      return exchange
    },
    // What is still on its way has had its time while the process drained.
    close () {
      unsubscribe(SENT, awaitHead)
      return pool.destroy()
    }
  }
}

/** An upstream that names a shorter time in its answers (`Keep-Alive: timeout`) has its way. undici takes no 0. */
function keepAlive (idleSeconds: number): Pool.Options {
  if (idleSeconds === 0) return { pipelining: 0 }
  return { pipelining: 1, keepAliveTimeout: idleSeconds * 1000, keepAliveMaxTimeout: idleSeconds * 1000 }
}
