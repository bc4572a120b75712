import { Readable } from 'node:stream'
import type { UpstreamConnection } from './connection.ts'

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
  /** The code of its cause, for the log. */
  readonly code: string

  constructor (statusCode: UpstreamError['statusCode'], message: string, cause?: unknown) {
    super(message, { cause })
    this.statusCode = statusCode
    const { code } = (cause ?? {}) as Partial<NodeJS.ErrnoException>
    this.code = code ?? (statusCode === 504 ? 'timeout' : 'unusable_answer')
    this.headers = statusCode === 408 || statusCode === 413 ? { connection: 'close' } : undefined
  }
}

/** Why an exchange ends whose answer has no reader any more. */
export function clientGone (): UpstreamError {
  return new UpstreamError(499, 'The client has gone')
}

/**
 * The headers of an answer by name in lower case, a character for each byte. Several lines with one name are several
 * values.
 */
export type AnswerHeaders = Readonly<NodeJS.Dict<string | string[]>>

const NONE: readonly string[] = []

/** The value of each line with a name. */
export function valuesOf (headers: AnswerHeaders, name: string): readonly string[] {
  const value = headers[name]
  return typeof value === 'string' ? [value] : value ?? NONE
}

/**
 * Why an answer cannot be passed on: its status ends no request (RFC 9110 section 15: there are none above 599), or it
 * has a transfer coding other than `chunked`, which holds for one connection only (RFC 9112 section 6.1), so that the
 * client would not learn of it.
 */
export function faultOf (status: number, headers: AnswerHeaders): UpstreamError | undefined {
  if (status < 200 || status > 599) return new UpstreamError(502, `The upstream answered with status ${status}`)
  const codings = valuesOf(headers, 'transfer-encoding')
  return codings.length > 1 || !/^(?:chunked)?$/i.test(codings[0] ?? '')
    ? new UpstreamError(502, 'The upstream answered with an unknown transfer coding')
    : undefined
}

export interface UpstreamAnswer {
  /** 200 to 599. */
  readonly status: number
  readonly headers: AnswerHeaders
  /**
   * A Buffer if all of it came at once, as small ones do: it costs much less than a stream. A stream fails if the
   * upstream breaks off, or is silent for too long. If it is destroyed, the request ends.
   */
  readonly body: Readable | Buffer
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

/** Whether an answer is a stream of server-sent events, which may be silent for any time. */
export function isEventStream ({ status, headers }: Pick<UpstreamAnswer, 'status' | 'headers'>): boolean {
  return status === 200 && valuesOf(headers, 'content-type').some(type => EVENT_STREAM.test(type))
}

/** Whether the bytes of an answer are coded, so that nothing can read them. */
export function isCoded (headers: AnswerHeaders): boolean {
  return valuesOf(headers, 'content-encoding').some(coding => !/^(?:identity)?$/i.test(coding))
}

/** The body of an answer. It asks for more only when its reader has room. */
export class AnswerBody extends Readable {
  readonly #connection: UpstreamConnection
  readonly #onRead: () => void
  readonly #onAbandoned: () => void
  #isFinished = false
  isHeld = false

  constructor (connection: UpstreamConnection, onRead: () => void, onAbandoned: () => void) {
    super()
    this.#connection = connection
    this.#onRead = onRead
    this.#onAbandoned = onAbandoned
  }

  accept (chunk: Buffer) {
    // A reader that cannot take this chunk has paused the body. Otherwise one more chunk would wait there.
    if (this.push(chunk) && !this.isPaused()) return
    // The upstream is asked for no more until the reader has taken what came.
    this.isHeld = true
    this.#connection.pause()
  }

  /** The first end counts. */
  finish (error?: UpstreamError) {
    if (this.#isFinished) return
    this.#isFinished = true
    if (error) return this.destroy(error)
    this.push(null)
    this.#connection.resume()
  }

  override _read () {
    this.isHeld = false
    this.#onRead()
    this.#connection.resume()
  }

  override _destroy (error: Error | null, done: (error: Error | null) => void) {
    if (!this.#isFinished) this.#onAbandoned()
    done(error)
  }
}
