import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Owner } from '../../../test/helpers/owner.ts'

export interface TroubledServer {
  origin: string
  isWell (): boolean
  /** How often it has been in trouble. */
  troubles (): number
  /** As it should be. Requests that came while it hung are answered now. */
  recover (): Promise<void>
  /** Nothing listens, and all connections are cut. */
  stop (): Promise<void>
  hang (): void
  /** Each answer takes so much longer. */
  slow (ms: number): void
  fail (status: number): void
  /** Each answer breaks off. */
  breakOff (): void
}

/** A server on loopback that answers by `answer`, unless it is in trouble. It ends with its owner. */
export async function startTroubled (t: Owner, answer: RequestListener): Promise<TroubledServer> {
  let behave: RequestListener = answer
  let troubles = 0
  const misbehave = (next: RequestListener) => {
    troubles++
    behave = next
  }
  const waiting: Array<[IncomingMessage, ServerResponse]> = []
  const server = createServer((request, response) => {
    behave(request, response)
  })
  const listen = (port: number): Promise<void> => new Promise(resolve => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const stop = async () => {
    if (!server.listening) return
    const closed = new Promise(resolve => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
  t.teardown(stop)
  return {
    origin: `http://127.0.0.1:${port}`,
    isWell: () => server.listening && behave === answer,
    troubles: () => troubles,
    stop () {
      troubles++
      return stop()
    },
    async recover () {
      behave = answer
      for (const [request, response] of waiting.splice(0)) answer(request, response)
      if (!server.listening) await listen(port)
    },
    hang () {
      misbehave((...pair) => {
        waiting.push(pair)
      })
    },
    slow (ms) {
      misbehave(async (...pair) => {
        await delay(ms)
        answer(...pair)
      })
    },
    fail (status) {
      misbehave((request, response) => {
        request.resume()
        response.writeHead(status).end('{}')
      })
    },
    breakOff () {
      misbehave((request, response) => {
        request.resume()
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' }).write(
          '{',
          () => request.socket.destroy()
        )
      })
    }
  }
}
