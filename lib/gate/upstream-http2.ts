import { once } from 'node:events'
import { connect } from 'node:http2'
import type { ClientHttp2Session } from 'node:http2'
import net from 'node:net'
import type { Socket } from 'node:net'
import tls from 'node:tls'
import type { Surroundings } from '../surroundings.ts'
import { UpstreamError } from './exchange.ts'
import type { Exchange } from './exchange.ts'
import { Http2Request } from './http2-request.ts'
import type { CarriedRequest, Carrier, Http1Carrier } from './upstream-http1.ts'
import { hostnameOf, tlsNameOf } from './upstream-origin.ts'

export interface Http2Options {
  /** Scheme, host and port. */
  readonly origin: string
  /** Milliseconds for which the upstream may be silent while a connection opens, and between two bytes of the body of an answer. */
  readonly timeoutMs: number
  readonly after: Surroundings['after']
  /** Takes the connection and the requests of an upstream that chooses HTTP/1.1 (RFC 7301). Without it, such an upstream has failed. */
  readonly http1?: Http1Carrier
}

/** Sessions with one upstream that take requests. A further one is opened only when all others are full. */
const MAX_SESSIONS = 100
/** Streams of one session, whatever the upstream allows. Sessions and streams allow as many requests as HTTP/1.1 does. */
const MAX_STREAMS = 100
/**
 * Requests over one session. Servers end a session after a number of requests (nginx after 1,000), and refuse those that are on their way
 * at that moment, which are then lost. So we end it first.
 */
const MAX_REQUESTS = 500
/** Requests that wait for a stream. */
const MAX_WAITING = 1_000
/** Milliseconds after which a session without a stream is closed, as undici does with connections. */
const IDLE_MS = 4_000
/** Bytes that the upstream may send before we take them: all streams together, and each. Only the second may fill up: see `Http2Request.pause`. */
const SESSION_WINDOW_BYTES = 16 * 1024 * 1024
const STREAM_WINDOW_BYTES = 256 * 1024

const SESSION_OPTIONS = {
  settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES },
  // RFC 7541 section 7.1: the size of a head would tell one client about the head of another.
  maxDeflateDynamicTableSize: 0,
  // As many lines as Node takes over HTTP/1.1.
  maxHeaderListPairs: 2_000,
  // Megabytes. One session is to have room for all of its streams.
  maxSessionMemory: 64
}

interface Waiting {
  readonly request: CarriedRequest
  readonly exchange: Exchange
}

/** A session, and what is known of it. */
interface Link {
  readonly session: ClientHttp2Session
  streams: number
  /** Requests so far. */
  requests: number
  cancelIdle (): void
}

/**
 * Brings requests over HTTP/2 (RFC 9113). A session that goes away (GOAWAY) gets no further request, and those that run come to their
 * end. A request that the upstream has refused is not sent again.
 */
export class Http2Carrier implements Carrier {
  readonly #options: Http2Options
  readonly #links = new Set<Link>()
  readonly #waiting = new Set<Waiting>()
  #opening: Socket | undefined

  constructor (options: Http2Options) {
    this.#options = options
  }

  carry (request: CarriedRequest, exchange: Exchange): void {
    if (this.#waiting.size >= MAX_WAITING) return exchange.end(new UpstreamError(502, 'Too many requests wait for the upstream'))
    const waiting = { request, exchange }
    this.#waiting.add(waiting)
    exchange.answer.catch(() => this.#waiting.delete(waiting))
    this.#advance()
  }

  /** What is still on its way has had its time while the process drained. */
  async close (): Promise<void> {
    this.#opening?.destroy(new Error('The gate stops'))
    for (const { session } of this.#links) session.destroy()
  }

  #advance (): void {
    for (const waiting of this.#waiting) {
      const link = this.#linkWithRoom()
      if (!link) break
      this.#waiting.delete(waiting)
      this.#send(link, waiting)
    }
    if (this.#waiting.size > 0 && !this.#opening && [...this.#links].filter(takesMore).length < MAX_SESSIONS) this.#open()
  }

  #linkWithRoom (): Link | undefined {
    for (const link of this.#links) {
      if (takesMore(link) && link.streams < Math.min(MAX_STREAMS, link.session.remoteSettings.maxConcurrentStreams!)) return link
    }
    return undefined
  }

  #send (link: Link, { request, exchange }: Waiting): void {
    link.cancelIdle()
    link.streams++
    link.requests++
    new Http2Request(request, exchange, this.#options).send(link.session, () => {
      link.streams--
      // Not earlier: the word of the end would come before requests that wait to be written.
      if (link.streams === 0) link.cancelIdle = this.#options.after(takesMore(link) ? IDLE_MS : 0, () => link.session.close())
      this.#advance()
    })
  }

  #open (): void {
    const socket = this.#opening = this.#connect()
    const stop = this.#options.after(this.#options.timeoutMs, () => socket.destroy(new Error('The upstream is too slow')))
    this.#begin(socket).then(() => {
      this.#opening = undefined
      this.#advance()
    }, error => {
      this.#opening = undefined
      socket.destroy()
      this.#fail(error)
    }).finally(stop)
  }

  #connect (): Socket {
    const { origin, http1 } = this.#options
    const { protocol, port } = new URL(origin)
    const host = hostnameOf(origin)
    if (protocol === 'http:') return net.connect({ host, port: Number(port || 80) })
    return tls.connect({ host, port: Number(port || 443), servername: tlsNameOf(origin), ALPNProtocols: http1 ? ['h2', 'http/1.1'] : ['h2'] })
  }

  /** @throws Error if the connection cannot be used */
  async #begin (socket: Socket): Promise<void> {
    const { origin, http1 } = this.#options
    const isSecure = socket instanceof tls.TLSSocket
    await once(socket, isSecure ? 'secureConnect' : 'connect')
    if (isSecure && socket.alpnProtocol !== 'h2') {
      if (!http1) throw new Error('The upstream does not speak HTTP/2')
      http1.take(socket)
      for (const { request, exchange } of this.#waiting) http1.carry(request, exchange)
      this.#waiting.clear()
      return
    }
    const session = connect(origin, { ...SESSION_OPTIONS, createConnection: () => socket })
    // There is no room before the upstream has told how many streams it takes.
    const link: Link = { session, streams: MAX_STREAMS, requests: 0, cancelIdle () {} }
    this.#links.add(link)
    session.once('close', () => {
      link.cancelIdle()
      this.#links.delete(link)
      this.#advance()
    })
    await settingsOf(session)
    session.setLocalWindowSize(SESSION_WINDOW_BYTES)
    link.streams = 0
  }

  /** Requests that only wait for another session to have room may go on to do so. */
  #fail (cause: Error): void {
    for (const link of this.#links) if (takesMore(link)) return
    for (const { exchange } of this.#waiting) exchange.end(new UpstreamError(502, 'The upstream failed', cause))
  }
}

/** Whether a session takes further requests, now or when it has room. */
function takesMore ({ session, requests }: Link): boolean {
  return requests < MAX_REQUESTS && !session.closed && !session.destroyed
}

/** Waits for the settings of the upstream, which tell how many streams it takes (RFC 9113 section 3.4). */
function settingsOf (session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve, reject) => {
    let cause = new Error('The upstream closed the connection')
    session.on('error', error => { cause = error })
    session.once('remoteSettings', ({ maxConcurrentStreams }) => {
      // Further sessions would say the same.
      if (maxConcurrentStreams === 0) session.destroy(new Error('The upstream takes no requests'))
      else resolve()
    })
    session.once('close', () => reject(cause))
  })
}
