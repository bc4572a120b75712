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

interface HeldLine {
  /** As it came, with its end. */
  readonly text: string
  readonly end: string
  /** Undefined if the line is of another field. */
  readonly data: string | undefined
}

/**
 * Reads a stream of server-sent events (HTML, section 9.2), and writes it with other data. Bytes are passed on as soon
 * as they can be: all lines but those from the first data of an event to its end. An event whose data stay the same
 * passes as it came. Each byte is a character.
 */
export function createEventCutter ({ maxBytes, tooLarge, cut }: EventCutterOptions): Transform {
  /** The beginning of a line. */
  let parts: string[] = []
  let held: HeldLine[] = []
  /** Of both. */
  let heldBytes = 0
  let type = ''
  let isFirst = true
  let isAfterReturn = false

  return new Transform({
    transform (chunk: Buffer, _encoding, done) {
      run(() => read(chunk.toString('latin1')), done)
    },
    // Some readers take an event that the end of the stream cuts off.
    flush (done) {
      run(() => (parts.length === 0 ? '' : endLine('', '')) + release(), done)
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
    // CRLF in two chunks is one end.
    let at = isAfterReturn && chunk.startsWith('\n') ? 1 : 0
    let out = at === 1 ? completeEnd() : ''
    isAfterReturn = chunk.endsWith('\r')
    const ends = /\r\n|\n|\r/g
    ends.lastIndex = at
    for (let found = ends.exec(chunk); found; found = ends.exec(chunk)) {
      out += endLine(chunk.slice(at, found.index), found[0])
      at = ends.lastIndex
    }
    if (at < chunk.length) hold(parts, chunk.slice(at), chunk.length - at)
    return out
  }

  function completeEnd (): string {
    const last = held.pop()
    if (!last) return '\n'
    hold(held, { ...last, text: `${last.text}\n`, end: '\r\n' }, 1)
    return ''
  }

  function hold<Part> (list: Part[], part: Part, bytes: number): void {
    heldBytes += bytes
    if (heldBytes > maxBytes) throw tooLarge()
    list.push(part)
  }

  /** What is passed on when a line has come to its end. */
  function endLine (last: string, end: string): string {
    const line = parts.join('') + last
    heldBytes -= line.length - last.length
    parts = []
    // The stream may begin with a byte order mark.
    const [name = '', value = ''] = splitField(isFirst ? line.replace(/^\u00ef\u00bb\u00bf/, '') : line)
    isFirst = false
    if (line === '') {
      const out = release() + end
      type = ''
      return out
    }
    if (name === 'event') type = value
    if (held.length === 0 && name !== 'data') return line + end
    hold(held, { text: line + end, end, data: name === 'data' ? value : undefined }, line.length + end.length)
    return ''
  }

  /** The lines that are held, with the data that take the place of theirs. */
  function release (): string {
    const lines = held
    const [first] = lines
    if (!first) return ''
    held = []
    heldBytes = 0
    const data = lines.flatMap(({ data }) => data ?? []).join('\n')
    const kept = cut(Buffer.from(data, 'latin1'), type === '' || type === 'message').toString('latin1')
    if (kept === data) return lines.map(({ text }) => text).join('')
    return kept.split('\n').map(part => `data: ${part}${first.end || '\n'}`).join('') +
      lines.map(({ text, data }) => data === undefined ? text : '').join('')
  }
}

function splitField (line: string): [name: string, value?: string] {
  const colon = line.indexOf(':')
  return colon === -1 ? [line] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')]
}
