import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { linesOf } from '../message.ts'

/** Why the upstream gave no answer. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** 408: the client was silent in the body of its request. 413: that body is too large. 499: the client has gone. 502: the upstream failed. 504: it was silent for too long. */
  readonly statusCode: 408 | 413 | 499 | 502 | 504

  constructor (statusCode: UpstreamError['statusCode'], message: string, cause?: unknown) {
    super(message, { cause })
    this.statusCode = statusCode
  }
}

/**
 * Why an answer cannot be passed on: its status ends no request (RFC 9110 section 15: there are none above 599), or it has a transfer coding
 * other than `chunked`, which holds for one connection only (RFC 9112 section 6.1), so that the client would not learn of it.
 * @param headers names and values in turn
 */
export function faultOf (status: number, headers: readonly string[]): UpstreamError | undefined {
  if (status < 200 || status > 599) return new UpstreamError(502, `The upstream answered with status ${status}`)
  const codings = linesOf(headers, 'transfer-encoding')
  return codings.length > 1 || !/^(?:chunked)?$/i.test(codings[0] ?? '') ? new UpstreamError(502, 'The upstream answered with an unknown transfer coding') : undefined
}

export interface UpstreamAnswer {
  /** 200 to 599. */
  readonly status: number
  /** Names and values in turn, a character for each byte. */
  readonly headers: readonly string[]
  /** It fails if the upstream breaks off, or is silent for too long. If it is destroyed, the request ends. */
  readonly body: Readable & {
    /** Whether all of it has come. `read(readableLength)` gives it: without a length, Node 26 gives its first piece. */
    readonly isWhole?: boolean
  }
}

/** Called for each interim answer (1xx) but 100 and 101. */
export type OnInterim = (status: number, headers: readonly string[]) => void

/** One request on its way, as undici reports it. It is sent once and answered once. */
export class UpstreamExchange implements Dispatcher.DispatchHandler {
  /** @throws UpstreamError */
  readonly answer: Promise<UpstreamAnswer>
  readonly #onInterim: OnInterim
  #resolve!: (answer: UpstreamAnswer) => void
  #reject!: (error: UpstreamError) => void
  #controller: Dispatcher.DispatchController | undefined
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
    this.#body?.finish(this.#failure)
    this.#controller?.abort(this.#failure)
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
    if (status < 200 && status !== 100 && status !== 101) return this.#onInterim(status, headers)
    const fault = faultOf(status, headers)
    if (fault) return this.end(fault)
    this.#body = new AnswerBody(controller)
    // RFC 9110 section 15.4.5: it has no body, whatever length it states. undici would wait for one.
    if (status === 304) this.#body.finish()
    this.#resolve({ status, headers, body: this.#body })
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // A reader that cannot take this chunk has paused the body. Otherwise one more chunk would wait there.
    if (!this.#body!.push(chunk) || this.#body!.isPaused()) controller.pause()
  }

  onResponseEnd (): void {
    this.#body!.finish()
  }

  onResponseError (_controller: Dispatcher.DispatchController, cause: Error): void {
    this.end(new UpstreamError(502, 'The upstream failed', cause))
  }
}

/** The body of an answer. It asks for more only when its reader has room. */
class AnswerBody extends Readable {
  readonly #controller: Dispatcher.DispatchController
  isWhole = false

  constructor (controller: Dispatcher.DispatchController) {
    super()
    this.#controller = controller
  }

  /** The first end counts. */
  finish (error?: UpstreamError): void {
    if (this.isWhole) return
    this.isWhole = true
    if (error) this.destroy(error)
    else this.push(null)
  }

  override _read (): void {
    this.#controller.resume()
  }

  override _destroy (error: Error | null, done: (error: Error | null) => void): void {
    if (!this.isWhole) this.#controller.abort(new UpstreamError(499, 'The client has gone'))
    done(error)
  }
}
