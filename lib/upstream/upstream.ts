import { Readable, Transform } from 'node:stream'
import { buildConnector, Pool } from 'undici'
import type { Dispatcher } from 'undici'
import { linesOf } from '../message.ts'
import type { Surroundings } from '../surroundings.ts'
import { tlsNameOf } from './origin.ts'

/** Why the upstream gave no answer. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /**
   * 408: the client was silent in the body of its request. 413: that body is too large. 499: the client has gone. 502:
   * the upstream failed. 504: it was silent for too long.
   */
  readonly statusCode: 408 | 413 | 499 | 502 | 504
  /** Of the answer. The client may go on sending a body that is not read. */
  readonly headers: { readonly connection: 'close' } | undefined

  constructor (statusCode: UpstreamError['statusCode'], message: string, cause?: unknown) {
    super(message, { cause })
    this.statusCode = statusCode
    this.headers = statusCode === 408 || statusCode === 413 ? { connection: 'close' } : undefined
  }
}

/**
 * Why an answer cannot be passed on: its status ends no request (RFC 9110 section 15: there are none above 599), or it
 * has a transfer coding other than `chunked`, which holds for one connection only (RFC 9112 section 6.1), so that the
 * client would not learn of it.
 * @param headers names and values in turn
 */
export function faultOf (status: number, headers: readonly string[]): UpstreamError | undefined {
  if (status < 200 || status > 599) return new UpstreamError(502, `The upstream answered with status ${status}`)
  const codings = linesOf(headers, 'transfer-encoding')
  return codings.length > 1 || !/^(?:chunked)?$/i.test(codings[0] ?? '')
    ? new UpstreamError(502, 'The upstream answered with an unknown transfer coding')
    : undefined
}

export interface UpstreamAnswer {
  /** 200 to 599. */
  readonly status: number
  /** Names and values in turn, a character for each byte. */
  readonly headers: readonly string[]
  /**
   * A Buffer if all of it came at once, as small ones do: it costs much less than a stream. A stream fails if the
   * upstream breaks off, or is silent for too long. If it is destroyed, the request ends.
   */
  readonly body: Readable | Buffer
}

export interface UpstreamRequest {
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
  /** Called for each interim answer (1xx) but 100 and 101. */
  readonly onInterim: (status: number, headers: readonly string[]) => void
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
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    ...keepAlive(idleSeconds),
    connect: (options, done) => connect({ ...options, servername: tlsName }, done),
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
      const exchange = new UpstreamExchange({ timeoutMs: timeoutSeconds * 1000, ...surroundings, onInterim })
      const sent = body instanceof Readable ? exchange.limitBody(body, bodyLimit) : body
      // Written out, not spread: V8 would keep what a finished request was sent with, and collect all memory every few
      // seconds.
      pool.dispatch({ servername, method, path: target, headers, body: sent } as Dispatcher.DispatchOptions, exchange)
      return exchange
    },
    // What is still on its way has had its time while the process drained.
    close: (): Promise<void> => pool.destroy()
  }
}

/** An upstream that names a shorter time in its answers (`Keep-Alive: timeout`) has its way. undici takes no 0. */
function keepAlive (
  idleSeconds: number
): Pick<Pool.Options, 'pipelining' | 'keepAliveTimeout' | 'keepAliveMaxTimeout'> {
  if (idleSeconds === 0) return { pipelining: 0 }
  return { pipelining: 1, keepAliveTimeout: idleSeconds * 1000, keepAliveMaxTimeout: idleSeconds * 1000 }
}

export interface ExchangeOptions extends Pick<UpstreamRequest, 'onInterim'>, Pick<Surroundings, 'after' | 'steadyMs'> {
  /**
   * Milliseconds without a sign of life: of the client until it has sent its body, and of the upstream until its answer
   * has ended.
   */
  readonly timeoutMs: number
}

/** The body of an answer as a stream. */
export function streamOf (body: UpstreamAnswer['body']): Readable {
  if (!Buffer.isBuffer(body)) return body
  // All of it is there, so it is never asked for more.
  const stream = new Readable()
  if (body.length > 0) stream.push(body)
  stream.push(null)
  return stream
}

const EVENT_STREAM = /^text\/event-stream[ \t]*(?:;|$)/i

/**
 * Whether an answer is a stream of server-sent events, which may be silent for any time. @param headers names and
 * values in turn
 */
export function isEventStream (headers: readonly string[]): boolean {
  return linesOf(headers, 'content-type').some(type => EVENT_STREAM.test(type))
}

/** What is done when it is settled is done after what runs now. queueMicrotask() costs a resource of each. */
const SETTLED = Promise.resolve()

/** One request on its way, as undici reports it. It is sent once and answered once. */
export class UpstreamExchange implements Dispatcher.DispatchHandler {
  /** @throws UpstreamError */
  readonly answer: Promise<UpstreamAnswer>
  readonly #options: ExchangeOptions
  #resolve!: (answer: UpstreamAnswer) => void
  #reject!: (error: UpstreamError) => void
  #controller: Dispatcher.DispatchController | undefined
  /** The body of the request, if it is read while it is sent. */
  #sent: Transform | undefined
  /** Of the answer, and what has come of its body before it is delivered. */
  #head: Omit<UpstreamAnswer, 'body'> | undefined
  readonly #pieces: Buffer[] = []
  #isWhole = false
  #body: AnswerBody | undefined
  #failure: UpstreamError | undefined
  /** Of the last sign of life. */
  #aliveMs: number
  #stopTimer: () => void

  constructor (options: ExchangeOptions) {
    this.#options = options
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#aliveMs = options.steadyMs()
    this.#stopTimer = options.after(options.timeoutMs, this.#look)
  }

  /**
   * Limits the body of the request. What it returns stands between the two sides, because undici destroys a body that
   * the upstream does not want to the end, and with it the connection of the client, which would then get no answer.
   */
  limitBody (source: Readable, maxBytes: number): Transform {
    let size = 0
    const body = this.#sent = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        size += chunk.length
        if (size > maxBytes) return this.end(new UpstreamError(413, 'The body of the request is too large.'))
        this.#noteLife()
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

  /** Ends the request if it has not ended. The upstream need not go on. */
  end (error: UpstreamError): void {
    this.#failure ??= error
    this.#stopTimer()
    this.#body?.finish(this.#failure)
    this.#controller?.abort(this.#failure)
    // The body of an answer that has begun fails in its place.
    if (this.#head) return
    this.#reject(this.#failure)
    this.#sent?.destroy()
  }

  /** undici calls it again when it would send a request again. */
  onRequestStart (controller: Dispatcher.DispatchController): void {
    if (this.#controller) this.end(new UpstreamError(502, 'The upstream failed'))
    else this.#controller = controller
    if (this.#failure) controller.abort(this.#failure)
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    const headers = (controller.rawHeaders as readonly Buffer[]).map(line => line.toString('latin1'))
    // RFC 9110 sections 15.2.1 and 15.2.2: neither a go-ahead nor another protocol was requested.
    if (status < 200 && status !== 100 && status !== 101) {
      this.#noteLife()
      return this.#options.onInterim(status, headers)
    }
    const fault = faultOf(status, headers)
    if (fault) return this.end(fault)
    this.#noteLife()
    if (isEventStream(headers)) this.#stopTimer()
    this.#head = { status, headers }
    // RFC 9110 section 15.4.5: it has no body, whatever length it states. undici would wait for one.
    this.#isWhole = status === 304
    // What comes at once comes before that.
    SETTLED.then(() => this.#deliver(controller))
  }

  #deliver (controller: Dispatcher.DispatchController): void {
    const pieces = this.#pieces
    if (this.#isWhole) {
      return this.#resolve({ ...this.#head!, body: pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces) })
    }
    this.#body = new AnswerBody(controller, this.#noteLife)
    for (const piece of pieces) this.#body.accept(piece)
    if (this.#failure) this.#body.finish(this.#failure)
    this.#resolve({ ...this.#head!, body: this.#body })
  }

  onResponseData (_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // undici gives an empty one when it goes on after a pause. Nobody would be told of it, and so nobody would ask for
    // more.
    if (chunk.length === 0) return
    this.#noteLife()
    if (this.#body) this.#body.accept(chunk)
    else this.#pieces.push(chunk)
  }

  onResponseEnd (): void {
    this.#stopTimer()
    this.#isWhole = true
    this.#body?.finish()
  }

  onResponseError (_controller: Dispatcher.DispatchController, cause: Error): void {
    this.end(new UpstreamError(502, 'The upstream failed', cause))
  }

  readonly #noteLife = (): void => {
    this.#aliveMs = this.#options.steadyMs()
  }

  /** One timer for all of an exchange: most end before it does. */
  readonly #look = (): void => {
    const { timeoutMs, steadyMs, after } = this.#options
    const restMs = this.#body?.isHeld ? timeoutMs : timeoutMs - (steadyMs() - this.#aliveMs)
    if (restMs > 0) {
      this.#stopTimer = after(restMs, this.#look)
      return
    }
    // Nothing of what the client has sent waits here, and more is to come.
    const isClientSilent = this.#sent !== undefined && !this.#sent.writableEnded &&
      this.#sent.writableLength + this.#sent.readableLength === 0
    this.end(
      isClientSilent
        ? new UpstreamError(408, 'The body of the request is too slow.')
        : new UpstreamError(504, 'The upstream is too slow')
    )
  }
}

/** The body of an answer. It asks for more only when its reader has room. */
class AnswerBody extends Readable {
  readonly #controller: Dispatcher.DispatchController
  readonly #onRead: () => void
  #isFinished = false
  isHeld = false

  constructor (controller: Dispatcher.DispatchController, onRead: () => void) {
    super()
    this.#controller = controller
    this.#onRead = onRead
  }

  accept (chunk: Buffer): void {
    // A reader that cannot take this chunk has paused the body. Otherwise one more chunk would wait there.
    if (this.push(chunk) && !this.isPaused()) return
    // The upstream is asked for no more until the reader has taken what came.
    this.isHeld = true
    this.#controller.pause()
  }

  /** The first end counts. */
  finish (error?: UpstreamError): void {
    if (this.#isFinished) return
    this.#isFinished = true
    if (error) this.destroy(error)
    else this.push(null)
  }

  override _read (): void {
    this.isHeld = false
    this.#onRead()
    this.#controller.resume()
  }

  override _destroy (error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#isFinished) this.#controller.abort(new UpstreamError(499, 'The client has gone'))
    done(error)
  }
}
