import { connect } from 'node:net'

export interface WireAnswer {
  status: number
  /** The last value of each header. */
  headers: Record<string, string>
  /** Every header line, name in lower case. */
  lines: ReadonlyArray<readonly [name: string, value: string]>
  body: string
}

/**
 * Sends the very bytes of a request and reads the answer until the server closes. Lines are joined by CR LF.
 * @param localAddress of the client
 */
export function sendRaw (url: string, lines: readonly string[], localAddress?: string): Promise<WireAnswer> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(
      { port: Number(port), host: hostname, localAddress },
      () => socket.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'))
    )
    socket.setEncoding('latin1')
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', error => text ? resolve(parseAnswer(text)) : reject(error))
    socket.on(
      'close',
      () => text ? resolve(parseAnswer(text)) : reject(new Error('the server closed without an answer'))
    )
    socket.setTimeout(60_000, () => socket.destroy(new Error('no answer in 60 s')))
  })
}

function parseAnswer (text: string) {
  const end = text.indexOf('\r\n\r\n')
  const [statusLine = '', ...headerLines] = text.slice(0, end).split('\r\n')
  const lines = headerLines.map(line => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
  })
  return {
    status: Number(statusLine.split(' ')[1]),
    headers: Object.fromEntries(lines),
    lines,
    body: text.slice(end + 4)
  }
}
