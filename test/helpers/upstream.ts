import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** A request as the upstream got it. */
export interface Arrived {
  readonly method: string
  readonly target: string
  readonly rawHeaders: readonly string[]
  /** The only value of each header, by its name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly trailers: readonly string[]
  readonly body: string
}

export interface TestUpstream {
  readonly origin: string
  readonly server: Server
  /** What came so far. */
  readonly arrived: Arrived[]
  /** Connections so far. */
  connections: number
}

export type Answerer = (request: IncomingMessage, response: ServerResponse) => void

/**
 * A server behind the gate. Unless `answer` does it, it answers with 200 and `{"ok":true}` when the body has come, or
 * with its length if the path ends in `/upload`. It ends with the test.
 */
export async function startUpstream (t: Test, answer?: Answerer): Promise<TestUpstream> {
  const server = createServer({ maxHeaderSize: 64 * 1024 }, (request, response) => {
    if (answer) return answer(request, response)
    if (request.url!.endsWith('/upload')) return count(request, response)
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      upstream.arrived.push(describe(request, Buffer.concat(chunks).toString('latin1')))
      response.writeHead(200, { 'content-type': 'application/json', 'x-upstream': 'yes' }).end('{"ok":true}')
    })
  })
  // A pause of the machine is no reason to close a connection that a test means to use again.
  server.keepAliveTimeout = 60_000
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const upstream: TestUpstream = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    arrived: [],
    connections: 0
  }
  server.on('connection', () => {
    upstream.connections++
  })
  return upstream
}

/** Answers with the length of the body, without keeping it. */
function count (request: IncomingMessage, response: ServerResponse) {
  let size = 0
  request.on('data', chunk => {
    size += chunk.length
  }).on('end', () => response.end(String(size)))
}

export function describe ({ method, url, rawHeaders, rawTrailers }: IncomingMessage, body: string): Arrived {
  const headers: Record<string, string> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    headers[name] = name in headers ? `${headers[name]}, ${rawHeaders[i + 1]}` : rawHeaders[i + 1]!
  }
  return { method: method!, target: url!, rawHeaders, headers, trailers: rawTrailers, body }
}
