import type { ServerResponse } from 'node:http'
import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { TokenEndedError } from '../../lib/guard/request-auth.ts'
import type { Surroundings } from '../../lib/base/surroundings.ts'

/** A request that was admitted, and what may stay open for it. */
export interface OpenAnswer {
  /** Of a WebSocket, it has its connection. A request that a test made up has none. */
  readonly response: ServerResponse
  /** Aborts when the token ends. It is read only if the answer is still open after a while. */
  readonly auth: { readonly signal: AbortSignal }
  /**
   * Whether the request has become a WebSocket. A header that asks for one says nothing: Node may answer it as any
   * request.
   */
  isWebSocket (): boolean
  /** Called with the reason of the signal when the answer was ended. */
  onEnd (reason: TokenEndedError): void
}

/** A link of a list that is linked both ways. With a set, each request cost 0.4 µs more. */
export interface Link<Admitted> {
  readonly admitted: Admitted | undefined
  newer: Link<Admitted>
  older: Link<Admitted>
}

/**
 * RFC 6455 section 7.4.1: the endpoint has received what violates its policy. A close frame of the server is not
 * masked.
 */
const CLOSE_1008 = Buffer.from([0x88, 0x02, 0x03, 0xf0])
const LOOK_MS = 250
const LINGER_MS = 500

export type OpenAnswers<Admitted extends object> = ReturnType<typeof createOpenAnswers<Admitted>>

/**
 * Ends what an admitted request has opened when its token ends: answers that still stream, and WebSockets. Most answers
 * are whole before they are looked at, so a request costs one link of a list, which goes with its answer: what lived on
 * would burden each small collection.
 * @param openAnswerOf called for a request whose answer is still open after a while
 */
export function createOpenAnswers<Admitted extends object> (
  { every, after }: Pick<Surroundings, 'every' | 'after'>,
  openAnswerOf: (admitted: Admitted) => OpenAnswer
) {
  /** Both ends of the list of those that were admitted since the last look. */
  const ends = {} as Link<Admitted>
  ends.newer = ends.older = ends
  const open = new Map<Admitted, OpenAnswer>()
  let ended = 0
  let stop: (() => void) | undefined

  function look () {
    const isBusy = ends.older !== ends
    while (ends.older !== ends) {
      const admitted = ends.older.admitted!
      leave(ends.older)
      const answer = openAnswerOf(admitted)
      if (isOpen(answer)) watch(admitted, answer)
    }
    for (const [admitted, answer] of open) if (!isOpen(answer)) open.delete(admitted)
    if (isBusy || open.size > 0) return
    stop!()
    stop = undefined
  }

  /** May be called again. */
  function leave (link: Link<Admitted>) {
    link.older.newer = link.newer
    link.newer.older = link.older
    link.older = link.newer = link
    open.delete(link.admitted!)
  }

  function watch (admitted: Admitted, answer: OpenAnswer) {
    const { signal } = answer.auth
    open.set(admitted, answer)
    const endIt = () => {
      if (open.delete(admitted)) end(answer, signal)
    }
    if (signal.aborted) endIt()
    else signal.addEventListener('abort', endIt, { once: true })
  }

  function end (answer: OpenAnswer, { reason }: Pick<AbortSignal, 'reason'>) {
    // What has become whole is left alone.
    if (!isOpen(answer)) return
    ended++
    answer.onEnd(reason)
    const { response } = answer
    if (answer.isWebSocket()) return closeSocket(response.socket!)
    // Cut off, so that no client takes a part for the whole. A handler that goes on writing would raise an unhandled
    // error.
    response.on('error', () => {})
    const stream = streamOf(response)
    if (stream) stream.close(constants.NGHTTP2_CANCEL)
    else response.destroy()
  }

  function closeSocket (socket: Socket) {
    // A client that ignores the close is not heard any more.
    socket.removeAllListeners('data').resume()
    socket.write(CLOSE_1008)
    after(LINGER_MS, () => socket.destroy())
  }

  return {
    /** Returns its link, to be taken out when its answer is whole. */
    add (admitted: Admitted): Link<Admitted> {
      const link = { admitted, newer: ends, older: ends.older }
      ends.older.newer = link
      ends.older = link
      stop ??= every(LOOK_MS, look)
      return link
    },
    leave,
    /** The numbers of answers that are watched now, and of those that were ended. */
    state: () => ({ open: open.size, ended }),
    close () {
      stop?.()
      stop = undefined
    }
  }
}

function isOpen (answer: OpenAnswer): boolean {
  const { response } = answer
  if (answer.isWebSocket()) return !response.socket!.destroyed
  return !response.writableEnded && !(streamOf(response) ?? response).destroyed
}

/** That of an answer over HTTP/2, which does not say by itself that its client has gone. */
function streamOf (response: object): ServerHttp2Stream | undefined {
  return (response as { readonly stream?: ServerHttp2Stream }).stream
}
