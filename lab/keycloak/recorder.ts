import { once } from 'node:events'
import { createServer, request as open, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** One request and its answer, as they went over the wire. */
interface Exchange {
  /** Such as `POST /revocation/events`, without the query. */
  what: string
  sent: string
  status: number
  came: string
  /** When the answer was complete, in milliseconds of the Unix epoch. */
  atMs: number
}

/** A server on loopback that hands every request on and remembers it. The far end sees the `Host` of the recorder. */
export interface Recorder {
  url: string
  exchanges: readonly Exchange[]
  close (): Promise<void>
}

/** @param target where requests go: its origin, read for each request */
export async function startRecorder (target: () => string): Promise<Recorder> {
  const exchanges: Exchange[] = []
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request
    try {
      const sent = await buffer(request)
      const far = open(new URL(url!, target()), { method, headers })
      far.end(sent)
      const [answer] = await once(far, 'response') as [IncomingMessage]
      const came = await buffer(answer)
      exchanges.push({
        what: `${method} ${url!.split('?')[0]}`,
        sent: String(sent),
        status: answer.statusCode!,
        came: String(came),
        atMs: Date.now()
      })
      response.writeHead(answer.statusCode!, answer.headers).end(came)
    } catch {
      response.destroy()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    async close () {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    }
  }
}
