import type { ServerResponse } from 'node:http'
import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { RequestAuth, TokenEndedError } from '../../lib/guard/request-auth.ts'
import type { Surroundings } from '../../lib/base/surroundings.ts'

/** A request that was admitted, and what may stay open for it. */
interface Admitted {
  readonly request: FastifyRequest
  readonly response: ServerResponse
  /** That of its admission: an app may change `request.auth`. Its signal is read only if the answer stays open. */
  readonly auth: RequestAuth
}

/** A link of a list that is linked both ways. With a set, each request cost 0.4 µs more. */
export interface OpenAnswer extends Admitted {
  newer: OpenAnswer
  older: OpenAnswer
}

/**
 * RFC 6455 section 7.4.1: the endpoint has received what violates its policy. A close frame of the server is not
 * masked.
 */
const CLOSE_1008 = Buffer.from([0x88, 0x02, 0x03, 0xf0])
const LOOK_MS = 250
const LINGER_MS = 500

export type OpenAnswers = ReturnType<typeof createOpenAnswers>

/**
 * Ends what an admitted request has opened when its token ends: answers that still stream, and WebSockets. Most answers
 * are whole before anybody looks, so a request costs one link of a list, which goes with its answer: what lived on
 * would burden each small collection.
 * @param onEnd called when an answer was ended, with the code of the reason
 */
export function createOpenAnswers (
  { every, after }: Pick<Surroundings, 'every' | 'after'>,
  onEnd: (answer: Admitted, code: TokenEndedError['code']) => void
) {
  /** Both ends of the list of those that were admitted since the last look. */
  const ends = {} as OpenAnswer
  ends.newer = ends.older = ends
  const open = new Set<OpenAnswer>()
  let ended = 0
  let stop: (() => void) | undefined

  function look (): void {
    const isBusy = ends.older !== ends
    while (ends.older !== ends) {
      const answer = ends.older
      leave(answer)
      if (isOpen(answer)) watch(answer)
    }
    for (const answer of open) if (!isOpen(answer)) open.delete(answer)
    if (isBusy || open.size > 0) return
    stop!()
    stop = undefined
  }

  /** May be called again. */
  function leave (answer: OpenAnswer): void {
    answer.older.newer = answer.newer
    answer.newer.older = answer.older
    answer.older = answer.newer = answer
  }

  function watch (answer: OpenAnswer): void {
    const { signal } = answer.auth
    open.add(answer)
    if (signal.aborted) end(answer)
    else signal.addEventListener('abort', () => end(answer), { once: true })
  }

  function end (answer: OpenAnswer): void {
    // What has become whole is left alone.
    if (!open.delete(answer) || !isOpen(answer)) return
    ended++
    onEnd(answer, (answer.auth.signal.reason as TokenEndedError).code)
    const { request, response } = answer
    if (isWebSocket(request)) return closeSocket(request.raw.socket)
    // Cut off, so that no client takes a part for the whole. A handler that goes on writing would raise an unhandled
    // error.
    response.on('error', () => {})
    const stream = streamOf(response)
    if (stream) stream.close(constants.NGHTTP2_CANCEL)
    else response.destroy()
  }

  function closeSocket (socket: Socket): void {
    // A client that ignores the close is not heard any more.
    socket.removeAllListeners('data').resume()
    socket.write(CLOSE_1008)
    after(LINGER_MS, () => socket.destroy())
  }

  return {
    /** Returns its link, to be taken out when its answer is whole. */
    add (admitted: Admitted): OpenAnswer {
      const answer = { ...admitted, newer: ends, older: ends.older }
      ends.older.newer = answer
      ends.older = answer
      stop ??= every(LOOK_MS, look)
      return answer
    },
    leave,
    /** The numbers of answers that are watched now, and of those that were ended. */
    state: () => ({ open: open.size, ended }),
    close (): void {
      stop?.()
      stop = undefined
    }
  }
}

/**
 * Whether a request has become a WebSocket. A header that asks for one says nothing: Node may answer it as any request.
 */
function isWebSocket (request: FastifyRequest & { readonly ws?: unknown }): boolean {
  return request.ws === true
}

function isOpen ({ request, response }: Admitted): boolean {
  if (isWebSocket(request)) return !request.raw.socket.destroyed
  return !response.writableEnded && !(streamOf(response) ?? response).destroyed
}

/** That of an answer over HTTP/2, which does not say by itself that its client has gone. */
function streamOf (response: object): ServerHttp2Stream | undefined {
  return (response as { readonly stream?: ServerHttp2Stream }).stream
}
