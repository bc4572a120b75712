import { constants } from 'node:http2'
import type { ClientHttp2Session, ClientHttp2Stream, OutgoingHttpHeaders } from 'node:http2'
import type { Surroundings } from '../surroundings.ts'
import { isFinal, UpstreamError } from './exchange.ts'
import type { Exchange, ExchangeController } from './exchange.ts'
import type { CarriedRequest } from './upstream-http1.ts'

export interface Http2RequestOptions {
  /** Milliseconds for which the upstream may be silent between two bytes of the body of an answer. */
  readonly timeoutMs: number
  readonly after: Surroundings['after']
}

/** Bytes of the head of an answer, as for HTTP/1.1. */
const MAX_HEAD_BYTES = 16 * 1024

/** One request on a stream of its own (RFC 9113 section 8.1). */
export class Http2Request implements ExchangeController {
  rawHeaders: readonly string[] = []
  readonly #request: CarriedRequest
  readonly #exchange: Exchange
  readonly #options: Http2RequestOptions
  #stream: ClientHttp2Stream | undefined
  #isAborted = false
  #cancelTimer = (): void => {}

  constructor (request: CarriedRequest, exchange: Exchange, options: Http2RequestOptions) {
    this.#request = request
    this.#exchange = exchange
    this.#options = options
  }

  /** Sends the request, unless it has ended before. `onClose` is called once, when the session has room for another one. */
  send (session: ClientHttp2Session, onClose: () => void): void {
    const { body } = this.#request
    const exchange = this.#exchange
    exchange.onRequestStart(this)
    if (this.#isAborted) return onClose()
    let stream: ClientHttp2Stream
    try {
      stream = session.request(headersForStream(this.#request), { endStream: body === undefined })
    } catch (error) {
      exchange.onResponseError(this, error as Error)
      return onClose()
    }
    this.#stream = stream
    this.#read(stream, onClose)
    body?.once('close', () => {
      if (!body.readableEnded) exchange.onResponseError(this, new Error('The body of the request broke off'))
    }).pipe(stream)
  }

  #read (stream: ClientHttp2Stream, onClose: () => void): void {
    const exchange = this.#exchange
    let isWhole: boolean | undefined
    let cause = new Error('The stream was closed before its end')
    // Node ends a stream that was reset in the same way as one that is whole. Only a whole one is still open when its end is pushed.
    const push = stream.push
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk === null) isWhole ??= !stream.closed
      return push.call(stream, chunk, encoding)
    }
    const onHead = ({ ':status': status }: { ':status'?: number | undefined }, _flags: number, rawHeaders: readonly string[]): void => {
      // What was on its way when the request ended.
      if (this.#isAborted) return
      this.rawHeaders = withoutPseudoHeaders(rawHeaders)
      const size = this.rawHeaders.reduce((sum, { length }) => sum + length, 0)
      if (size > MAX_HEAD_BYTES) return exchange.end(new UpstreamError(502, 'The head of the answer is too large'))
      exchange.onResponseStart(this, status!)
      if (!isFinal(status!)) return
      this.#watch()
      // Not before: Node tells of the head a tick later, and may have the body by then.
      stream.on('data', (chunk: Buffer) => {
        if (this.#isAborted) return
        this.#watch()
        exchange.onResponseData(this, chunk)
      })
    }
    stream.on('headers', onHead as never)
    stream.on('response', onHead as never)
    stream.once('end', () => {
      if (isWhole && !this.#isAborted) exchange.onResponseEnd()
      // The upstream has said all. It does not want the rest of the request.
      if (!stream.writableFinished) stream.close(constants.NGHTTP2_CANCEL)
    })
    stream.on('error', error => { cause = error })
    stream.once('close', () => {
      this.#cancelTimer()
      this.#request.body?.destroy()
      // It changes nothing if the answer has come to its end.
      exchange.onResponseError(this, cause)
      onClose()
    })
  }

  abort ({ statusCode }: UpstreamError): void {
    this.#isAborted = true
    this.#cancelTimer()
    // Perhaps the other side is no longer there. Further requests need not learn that one by one.
    if (statusCode === 504) this.#stream?.session?.close()
    this.#stream?.close(constants.NGHTTP2_CANCEL)
  }

  /** A client that does not read makes the upstream wait. That is no silence. */
  pause (): void {
    this.#cancelTimer()
    this.#stream!.pause()
  }

  resume (): void {
    if (!this.#stream!.isPaused()) return
    this.#watch()
    this.#stream!.resume()
  }

  #watch (): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#options.after(this.#options.timeoutMs, () => this.#exchange.end(new UpstreamError(504, 'The upstream is too slow')))
  }
}

/**
 * The head of a request (RFC 9113 section 8.3.1). Lines of one name become one (RFC 9110 section 5.3), because Node refuses some names
 * that come twice.
 */
function headersForStream ({ method, target, headers }: CarriedRequest): OutgoingHttpHeaders {
  const fields: Record<string, string> = { ':method': method, ':path': target }
  for (let i = 0; i < headers.length; i += 2) {
    const given = headers[i]!.toLowerCase()
    const name = given === 'host' ? ':authority' : given
    // RFC 9113 section 8.2.3: only cookies are joined in another way.
    fields[name] = Object.hasOwn(fields, name) ? `${fields[name]}${name === 'cookie' ? '; ' : ', '}${headers[i + 1]}` : headers[i + 1]!
  }
  return fields
}

function withoutPseudoHeaders (rawHeaders: readonly string[]): readonly string[] {
  return rawHeaders.filter((_, i) => !rawHeaders[i - i % 2]!.startsWith(':'))
}
