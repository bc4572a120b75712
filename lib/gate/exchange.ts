import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'

/** Why the upstream gave no answer. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** 413: the body of the request is too large. 499: the client has gone. 502: the upstream failed. 504: it was silent for too long. */
  readonly statusCode: 413 | 499 | 502 | 504

  constructor (statusCode: UpstreamError['statusCode'], message: string, cause?: unknown) {
    super(message, { cause })
    this.statusCode = statusCode
  }
}

/** Whether a status code ends a request (RFC 9110 section 15). There are no codes above 599. */
export function isFinal (status: number): boolean {
  return status >= 200 && status <= 599
}

export function statusFault (status: number): UpstreamError {
  return new UpstreamError(502, `The upstream answered with status ${status}`)
}

export interface UpstreamAnswer {
  /** 200 to 599. */
  readonly status: number
  /** Names and values in turn, a character for each byte. */
  readonly headers: readonly string[]
  /** It fails if the upstream breaks off, or is silent for too long. If it is destroyed, the request ends. */
  readonly body: Readable
  /** Whether the body has come as a whole, so that one `read()` gives it. */
  readonly isWhole?: boolean
}

/** Called for each interim answer (1xx) but 100 and 101. */
export type OnInterim = (status: number, headers: readonly string[]) => void

/** What an exchange asks of the connection that carries it. */
export interface ExchangeController {
  /** The head of the answer: names and values in turn. */
  readonly rawHeaders?: ReadonlyArray<Buffer | string> | NodeJS.Dict<string | string[]> | null
  /** Ends the request. Nothing happens if it has ended. */
  abort (reason: UpstreamError): void
  /** Keeps back the rest of the body of the answer. */
  pause (): void
  resume (): void
}

/** One request on its way, as undici tells of it, and `Http2Request`. It is sent once and answered once. */
export class Exchange implements Dispatcher.DispatchHandler {
  /** @throws UpstreamError */
  readonly answer: Promise<UpstreamAnswer>
  readonly #onInterim: OnInterim
  #resolve!: (answer: UpstreamAnswer) => void
  #reject!: (error: UpstreamError) => void
  #controller: ExchangeController | undefined
  #body: AnswerBody | undefined
  #failure: UpstreamError | undefined

  constructor (onInterim: OnInterim) {
    this.#onInterim = onInterim
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** Ends the request if it has not ended. The upstream need not go on. */
  end (error: UpstreamError): void {
    this.#failure ??= error
    this.#reject(this.#failure)
    this.#body?.fail(this.#failure)
    this.#controller?.abort(this.#failure)
  }

  /** undici calls it again when it would send a request again, as it does if an h2 connection goes away. */
  onRequestStart (controller: ExchangeController): void {
    if (this.#controller) this.end(new UpstreamError(502, 'The upstream failed'))
    else this.#controller = controller
    if (this.#failure) controller.abort(this.#failure)
  }

  onResponseStart (controller: ExchangeController, status: number): void {
    const headers = (controller.rawHeaders as ReadonlyArray<Buffer | string>).map(line => typeof line === 'string' ? line : line.toString('latin1'))
    // RFC 9110 sections 15.2.1 and 15.2.2: nobody has asked for a go-ahead, or for another protocol.
    if (status < 200 && status !== 100 && status !== 101) return this.#onInterim(status, headers)
    if (!isFinal(status)) return this.end(statusFault(status))
    this.#body = new AnswerBody(controller)
    // RFC 9110 section 15.4.5: it has no body, whatever length it tells. undici would wait for one.
    if (status === 304) this.#body.finish()
    this.#resolve(new Answer(status, headers, this.#body))
  }

  onResponseData (controller: ExchangeController, chunk: Buffer): void {
    if (!this.#body!.push(chunk)) controller.pause()
  }

  onResponseEnd (): void {
    this.#body!.finish()
  }

  onResponseError (_controller: ExchangeController, cause: Error): void {
    this.end(new UpstreamError(502, 'The upstream failed', cause))
  }
}

class Answer implements UpstreamAnswer {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: AnswerBody

  constructor (status: number, headers: readonly string[], body: AnswerBody) {
    this.status = status
    this.headers = headers
    this.body = body
  }

  get isWhole (): boolean {
    return this.body.isOver
  }
}

/** The body of an answer. It asks for more only when its reader has room. */
class AnswerBody extends Readable {
  readonly #controller: ExchangeController
  #isOver = false

  constructor (controller: ExchangeController) {
    super()
    this.#controller = controller
  }

  get isOver (): boolean {
    return this.#isOver
  }

  finish (): void {
    if (this.#isOver) return
    this.#isOver = true
    this.push(null)
  }

  fail (error: UpstreamError): void {
    if (this.#isOver) return
    this.#isOver = true
    this.destroy(error)
  }

  override _read (): void {
    this.#controller.resume()
  }

  override _destroy (error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#isOver) this.#controller.abort(new UpstreamError(499, 'The client has gone'))
    this.#isOver = true
    done(error)
  }
}
