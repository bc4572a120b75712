import { Transform } from 'node:stream'

interface EventCutterOptions {
  /** Of one event. */
  readonly maxBytes: number
  readonly tooLarge: () => Error
  /**
   * Gives the data that takes the place of an event's. It may throw: then the stream fails.
   * @param data the lines of the event, joined by line feeds
   * @param isMessage whether the event has no other type
   */
  readonly cut: (data: Buffer, isMessage: boolean) => Buffer
}

// Each byte is a character, so no other character ends a line for `^`, `.` and `$`.
const LINE_ENDS = /(?<=[\r\n])/
const FIELD = /^(data|event)(?:: ?(.*))?$/gm
const DATA_LINE = /^data(?::.*)?(?:\r\n?|\n|$)/gm
const BYTE_ORDER_MARK = /^\u00ef\u00bb\u00bf/

/**
 * Reads a stream of server-sent events (HTML, section 9.2), and writes it with other data. An event is passed on when
 * all of it has come, and a comment before it at once. An event whose data stay the same passes as it came.
 */
export function createEventCutter ({ maxBytes, tooLarge, cut }: EventCutterOptions): Transform {
  /** The whole lines of an event, and the line that has begun. */
  let held = ''
  let begun = ''
  let isBehindReturn = false

  return new Transform({
    transform (chunk: Buffer, _encoding, done) {
      run(() => chunk.toString('latin1').split(LINE_ENDS).map(take).join(''), done)
    },
    // Some readers take an event that the end of the stream cuts off.
    flush (done) {
      run(() => cutEvent(held + begun, cut), done)
    }
  })

  function run (work: () => string, done: (error: Error | null, out?: Buffer) => void) {
    let out: Buffer
    try {
      out = Buffer.from(work(), 'latin1')
    } catch (error) {
      return done(error as Error)
    }
    done(null, out)
  }

  /**
   * Gives what is passed on.
   * @param piece up to the end of a line, or of what has come
   */
  function take (piece: string) {
    // A line feed behind a carriage return belongs to it, and may come in another chunk.
    const isRest = isBehindReturn && piece === '\n'
    isBehindReturn = piece.endsWith('\r')
    const line = begun + piece
    if (!isRest && (line === '\n' || line === '\r')) {
      const event = cutEvent(held, cut)
      held = ''
      // Both would be one end of a line, and no end of the event.
      return event.endsWith('\r') && line === '\n' ? `${event}\n\n` : event + line
    }
    if (held.length + line.length > maxBytes) throw tooLarge()
    begun = isBehindReturn || piece.endsWith('\n') ? '' : line
    if (begun !== '') return ''
    if (held === '' && (isRest || line.startsWith(':'))) return line
    held += line
    return ''
  }
}

function cutEvent (event: string, cut: EventCutterOptions['cut']): string {
  // The stream may begin with it.
  const lines = event.replace(BYTE_ORDER_MARK, '')
  const fields = [...lines.matchAll(FIELD)].map(([, name, value = '']) => ({ name, value }))
  const data = fields.filter(({ name }) => name === 'data').map(({ value }) => value)
  if (data.length === 0) return event
  const type = fields.findLast(({ name }) => name === 'event')?.value ?? ''
  const given = data.join('\n')
  const kept = cut(Buffer.from(given, 'latin1'), type === '' || type === 'message').toString('latin1')
  if (kept === given) return event
  // The one that stands before the end of the event makes no pair with it.
  const [end = '\n'] = /(?:\r\n?|\n)$/.exec(lines) ?? []
  let written = kept.split('\n').map(part => `data: ${part}${end}`).join('')
  // It takes the place of the first line. The others go.
  return lines.replace(DATA_LINE, () => {
    const first = written
    written = ''
    return first
  })
}
