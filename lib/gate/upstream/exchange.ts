import { Transform, type Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Surroundings } from '../../base/surroundings.ts'
import {
  AnswerBody,
  clientGone,
  faultOf,
  isEventStream,
  UpstreamError,
  type AnswerHeaders,
  type UpstreamAnswer
} from './answer.ts'
import type { UpstreamConnection } from './connection.ts'

export interface ExchangeOptions extends Pick<Surroundings, 'after' | 'steadyMs'> {
  /** The connection on which undici reads. */
  readonly connectionNow: () => UpstreamConnection
  /** Called for each interim answer (1xx) but 100 and 101. */
  readonly onInterim: (status: number, headers: AnswerHeaders) => void
  /**
   * Milliseconds without a sign of life: of the client until it has sent its body, and of the upstream until its answer
   * has ended.
   */
  readonly timeoutMs: number
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
  #connection!: UpstreamConnection
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
  end (error: UpstreamError) {
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
  onRequestStart (controller: Dispatcher.DispatchController) {
    if (this.#controller) this.end(new UpstreamError(502, 'The upstream failed'))
    else this.#controller = controller
    if (this.#failure) controller.abort(this.#failure)
  }

  onResponseStart (_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders) {
    // RFC 9110 section 15.2.2: no other protocol was requested.
    if (status < 200 && status !== 101) {
      this.#noteLife()
      return this.#options.onInterim(status, headers)
    }
    const fault = faultOf(status, headers)
    if (fault) return this.end(fault)
    this.#noteLife()
    this.#head = { status, headers }
    if (isEventStream(this.#head)) this.#stopTimer()
    this.#connection = this.#options.connectionNow()
    // RFC 9110 section 15.4.5: it has no body, whatever length it states. undici would wait for one.
    if (status === 304) this.#isWhole = true
    // What comes at once comes before that.
    SETTLED.then(() => this.#deliver())
  }

  #deliver () {
    const { status, headers } = this.#head!
    this.#resolve({ status, headers, body: this.#isWhole ? joined(this.#pieces) : this.#startBody() })
  }

  #startBody (): AnswerBody {
    const abandon = () => this.#controller!.abort(clientGone())
    const body = this.#body = new AnswerBody(this.#connection, this.#noteLife, abandon)
    for (const piece of this.#pieces) body.accept(piece)
    if (this.#failure) body.finish(this.#failure)
    return body
  }

  onResponseData (_controller: Dispatcher.DispatchController, chunk: Buffer) {
    this.#noteLife()
    if (this.#body) this.#body.accept(chunk)
    else this.#pieces.push(chunk)
  }

  onResponseEnd () {
    if (this.#connection.isCut()) return this.end(new UpstreamError(502, 'The upstream broke off'))
    this.#stopTimer()
    this.#isWhole = true
    this.#body?.finish()
  }

  onResponseError (_controller: Dispatcher.DispatchController, cause: Error) {
    this.end(new UpstreamError(502, 'The upstream failed', cause))
  }

  readonly #noteLife = () => {
    this.#aliveMs = this.#options.steadyMs()
  }

  /** One timer for all of an exchange: most end before it does. */
  readonly #look = () => {
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

function joined (pieces: readonly Buffer[]): Buffer {
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
}
