import { pipeline, Transform } from 'node:stream'
import type { Surroundings } from '../base/surroundings.ts'
import { isCoded, isEventStream, type UpstreamAnswer } from './upstream/answer.ts'

interface KeepAliveOptions extends Pick<Surroundings, 'after' | 'steadyMs'> {
  /** Milliseconds of silence after which a stream gets a comment. 0: it gets none. */
  readonly everyMs: number
}

/**
 * Proxies and clients give up a stream of events that is silent for long. Such an answer gets comments (HTML, section
 * 9.2), which its readers skip. A proxy in front must not hold them back.
 * @param method of the request
 */
export function keepAlive (answer: UpstreamAnswer, method: string, options: KeepAliveOptions): UpstreamAnswer {
  const { status, headers, body } = answer
  if (method === 'HEAD' || !isEventStream(answer) || isCoded(headers)) return answer
  if (headers['content-length'] !== undefined) return answer
  return {
    status,
    headers: { ...headers, 'x-accel-buffering': 'no' },
    body: Buffer.isBuffer(body)
      ? withoutMark(body)
      // The reader sees an error of either.
      : pipeline(body, createKeeper(options, body.readableLength === 0), () => {})
  }
}

const COMMENT = Buffer.from(':\n\n')
const [COLON, RETURN, FEED] = Buffer.from(':\r\n')
// Behind a comment it would be part of a line.
const BYTE_ORDER_MARK = Buffer.from('\ufeff')

function withoutMark (bytes: Buffer): Buffer {
  return bytes.indexOf(BYTE_ORDER_MARK) === 0 ? bytes.subarray(BYTE_ORDER_MARK.length) : bytes
}

/** @param isSilent whether no event comes with the head */
function createKeeper ({ everyMs, after, steadyMs }: KeepAliveOptions, isSilent: boolean): Transform {
  /** The first bytes, while they may be those of a byte order mark. */
  let mark: Buffer | undefined = Buffer.alloc(0)
  let isInEvent = false
  let isInLine = false
  let last = FEED
  let aliveMs = steadyMs()
  let stop = () => {}
  const keeper = new Transform({
    transform (chunk: Buffer, _encoding, done) {
      aliveMs = steadyMs()
      const bytes = mark ? Buffer.concat([mark, chunk]) : chunk
      const mayBeMark = mark && bytes.length < BYTE_ORDER_MARK.length && BYTE_ORDER_MARK.indexOf(bytes) === 0
      if (mayBeMark) {
        mark = bytes
        return done()
      }
      const taken = mark ? withoutMark(bytes) : bytes
      mark = undefined
      for (const byte of taken) read(byte)
      done(null, taken)
    },
    flush (done) {
      stop()
      done(null, mark)
    },
    destroy (error, done) {
      stop()
      done(error)
    }
  })
  if (everyMs > 0) {
    if (isSilent) keeper.push(COMMENT)
    stop = after(everyMs, look)
  }
  return keeper

  function read (byte: number) {
    const isEnd = byte === FEED || byte === RETURN
    // A line feed behind a carriage return belongs to it.
    if (isEnd && !isInLine && !(byte === FEED && last === RETURN)) isInEvent = false
    if (!isEnd && !isInLine && byte !== COLON) isInEvent = true
    isInLine = !isEnd
    last = byte
  }

  /** One timer for all of a stream. What waits for its reader needs no comment. */
  function look () {
    const restMs = everyMs - (steadyMs() - aliveMs)
    // Times are fractions: a rest below a millisecond is none.
    const isDue = restMs < 1
    if (isDue) {
      if (!isInEvent && !isInLine && keeper.readableLength === 0) keeper.push(COMMENT)
      aliveMs = steadyMs()
    }
    stop = after(isDue ? everyMs : restMs, look)
  }
}
