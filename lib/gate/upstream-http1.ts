import type { Readable } from 'node:stream'
import type { Socket } from 'node:net'
import { buildConnector, Pool } from 'undici'
import type { Dispatcher } from 'undici'
import type { Exchange } from './exchange.ts'
import { tlsNameOf } from './upstream-origin.ts'

export interface CarriedRequest {
  readonly method: string
  /** Path and query. */
  readonly target: string
  /** Names and values in turn, without those of the connection. */
  readonly headers: readonly string[]
  readonly body: Readable | undefined
}

/** What brings requests to the upstream. */
export interface Carrier {
  /** Sends a request at most once, and tells the exchange what becomes of it. */
  carry (request: CarriedRequest, exchange: Exchange): void
  close (): Promise<void>
}

export interface Http1Carrier extends Carrier {
  /** Whether the upstream has chosen HTTP/1.1 on a connection that was taken over, and could be reached since. */
  readonly isChosen: boolean
  /** Takes over a connection that is open. The next request that needs a connection gets it. */
  take (socket: Socket): void
}

const MAX_CONNECTIONS = 10_000

/**
 * Brings requests over HTTP/1.1, with undici. One connection carries one request at a time, so that a request never fails because of another.
 * @param origin scheme, host and port
 * @param timeoutMs for which the upstream may be silent while a connection opens, and between two bytes of the body of an answer
 */
export function createHttp1Carrier (origin: string, timeoutMs: number): Http1Carrier {
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false })
  const tlsName = tlsNameOf(origin)
  // undici would take the Host of the client for the name of the upstream.
  const servername = new URL(origin).hostname
  let taken: Socket | undefined
  let isChosen = false
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    connect (options, done) {
      const socket = taken
      taken = undefined
      // undici does not notice a connection that is there at once.
      if (socket) queueMicrotask(() => done(null, socket))
      else connect({ ...options, servername: tlsName }, done)
    },
    // The time to the first byte is measured by the caller, with the time to connect: undici would count the time that the body of the request takes.
    headersTimeout: 0,
    bodyTimeout: timeoutMs,
    maxResponseSize: -1
  })
  // What is there later may be another program.
  pool.on('connectionError', () => { isChosen = false })

  return {
    get isChosen () {
      return isChosen
    },
    carry ({ method, target, headers, body }, exchange) {
      // Written out, not spread: V8 would keep what a finished request was sent with, and collect all memory every few seconds.
      pool.dispatch({ servername, method, path: target, headers, body } as Dispatcher.DispatchOptions, exchange)
    },
    take (socket) {
      // undici listens only when it has the connection.
      taken = socket.on('error', () => {})
      isChosen = true
    },
    // What is still on its way has had its time while the process drained.
    close () {
      taken?.destroy()
      return pool.destroy()
    }
  }
}
