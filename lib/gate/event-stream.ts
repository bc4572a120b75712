import { Transform } from 'node:stream'

export interface EventCutterOptions {
  /** Of one event, without what comes before its data. */
  readonly maxBytes: number
  readonly tooLarge: () => Error
  /**
   * Gives the data that takes the place of an event's. It may throw: then the stream fails.
   * @param data the lines of the event, joined by line feeds
   * @param isMessage whether the event has no other type
   */
  readonly cut: (data: Buffer, isMessage: boolean) => Buffer
}

/**
 * Reads a stream of server-sent events (HTML, section 9.2), and writes it with other data. Bytes are passed on as soon
 * as they can be: all lines but those from the first data of an event to its end. An event whose data stay the same
 * passes as it came. Each byte is a character.
 */
export function createEventCutter ({ maxBytes, tooLarge, cut }: EventCutterOptions): Transform {
  /** The beginning of a line, without a carriage return at its end: a line feed may follow. */
  let begun = ''
  let carriageReturn = ''
  let isFirst = true
  /** Of an event, from its first data on: all lines as they came, its data, and its other lines. */
  let held = ''
  let data: string[] = []
  let others = ''
  let type = ''

  return new Transform({
    transform (chunk: Buffer, _encoding, done) {
      run(() => read(chunk.toString('latin1')), done)
    },
    // Some readers take an event that the end of the stream cuts off.
    flush (done) {
      run(() => endLine(carriageReturn) + release(), done)
    }
  })

  function run (work: () => string, done: (error: Error | null, out?: Buffer) => void): void {
    let out: Buffer
    try {
      out = Buffer.from(work(), 'latin1')
    } catch (error) {
      return done(error as Error)
    }
    done(null, out)
  }

  function read (chunk: string): string {
    let out = ''
    let at = 0
    const text = carriageReturn + chunk
    carriageReturn = text.endsWith('\r') ? '\r' : ''
    const whole = text.slice(0, text.length - carriageReturn.length)
    for (const { 0: end, index } of whole.matchAll(/\r\n?|\n/g)) {
      begun += whole.slice(at, index)
      out += endLine(end)
      at = index + end.length
    }
    begun += whole.slice(at)
    verifySize()
    return out
  }

  function verifySize (): void {
    if (held.length + begun.length > maxBytes) throw tooLarge()
  }

  /** What is passed on when a line has come to its end. */
  function endLine (end: string): string {
    const line = begun
    begun = ''
    // The stream may begin with a byte order mark.
    const [name, value = ''] = splitField(isFirst ? line.replace(/^\u00ef\u00bb\u00bf/, '') : line)
    isFirst = false
    if (line === '') {
      const out = release() + end
      type = ''
      return out
    }
    if (name === 'event') type = value
    if (name === 'data') data.push(value)
    else if (held === '') return line + end
    else others += line + end
    held += line + end
    verifySize()
    return ''
  }

  /** The lines that are held, with the data that take the place of theirs. */
  function release (): string {
    if (held === '') return ''
    const given = data.join('\n')
    const kept = cut(Buffer.from(given, 'latin1'), type === '' || type === 'message').toString('latin1')
    const [end = '\n'] = /\r\n?|\n/.exec(held) ?? []
    const out = kept === given
      ? held
      : kept.split('\n').map(part => `data: ${part}${end}`).join('') + others
    held = others = ''
    data = []
    return out
  }
}

function splitField (line: string): [name: string, value?: string] {
  const colon = line.indexOf(':')
  return colon === -1 ? [line] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')]
}
