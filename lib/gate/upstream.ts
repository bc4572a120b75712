import { Transform } from 'node:stream'
import type { Readable } from 'node:stream'
import type { Surroundings } from '../surroundings.ts'
import { Exchange, UpstreamError } from './exchange.ts'
import type { OnInterim } from './exchange.ts'
import type { UpstreamProtocol } from './gate-options.ts'
import { createHttp1Carrier } from './upstream-http1.ts'
import type { CarriedRequest, Carrier } from './upstream-http1.ts'
import { Http2Carrier } from './upstream-http2.ts'

export interface UpstreamRequest extends CarriedRequest {
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
  readonly protocol: UpstreamProtocol
  readonly timeoutSeconds: number
  /** Bytes that the body of a request may have. */
  readonly bodyLimit: number | undefined
  readonly after: Surroundings['after']
}

/** Sends requests to the upstream. */
export function createUpstream ({ origin, protocol, timeoutSeconds, bodyLimit, after }: UpstreamOptions): Upstream {
  const timeoutMs = timeoutSeconds * 1000
  const carrier = createCarrier(origin, { protocol, timeoutMs, after })

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
      carrier.carry({ method, target, headers, body: limited }, exchange)
      return exchange
    },
    close: () => carrier.close()
  }
}

/** Chooses what brings requests to the upstream: over TLS, the upstream says it (RFC 7301), unless a setting does. */
function createCarrier (origin: string, { protocol, timeoutMs, after }: { protocol: UpstreamProtocol, timeoutMs: number, after: Surroundings['after'] }): Carrier {
  if (protocol === 'h2') return new Http2Carrier({ origin, timeoutMs, after })
  const http1 = createHttp1Carrier(origin, timeoutMs)
  if (protocol === 'http1' || origin.startsWith('http:')) return http1
  const http2 = new Http2Carrier({ origin, timeoutMs, after, http1 })
  return {
    carry (request, exchange) {
      const carrier = http1.isChosen ? http1 : http2
      carrier.carry(request, exchange)
    },
    close: async () => { await Promise.all([http1.close(), http2.close()]) }
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
