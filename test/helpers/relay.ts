import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Owner } from './owner.ts'

/** What happens to a connection. */
type Behaviour = (socket: Socket) => void

/** A port whose far end can be changed, slowed and broken. */
export interface Relay {
  port: number
  /** Connections so far. */
  connections: number
  /** Bytes that came so far. */
  bytes: number
  /** Has new connections behave so. When it resolves, the others are closed, and both sides know. */
  use (behaviour: Behaviour): Promise<void>
  /** Nothing listens any more. All connections are cut. */
  stop (): Promise<void>
  /** Listens again, on the same port. */
  restart (): Promise<void>
}

function join (socket: Socket, port: number, onAnswer: (chunk: Buffer) => void) {
  const far = connect({ port, host: '127.0.0.1', noDelay: true })
  // What comes after that is read, or its end would not be seen.
  far.on('error', () => socket.destroy()).on('close', () => socket.end().resume())
  socket.on('error', () => far.destroy()).on('close', () => far.end())
  socket.pipe(far)
  far.on('data', onAnswer)
}

export const toPort = (port: number): Behaviour => socket =>
  join(socket, port, chunk => {
    socket.write(chunk)
  })
/** Takes what comes, and never answers. */
export const hung: Behaviour = socket => {
  socket.resume()
}
/** Cuts the connection when the answer comes, after that many bytes of it. */
export const cutAfter = (bytes: number, port: number): Behaviour => socket =>
  join(socket, port, chunk => {
    if (bytes > 0) socket.write(chunk.subarray(0, bytes))
    socket.destroySoon()
  })

/** A relay on a free port of loopback. It ends with the test. */
export async function startRelay (t: Owner): Promise<Relay> {
  const sockets = new Set<Socket>()
  let behaviour: Behaviour = hung
  const server = createServer({ noDelay: true }, socket => {
    relay.connections++
    socket.on('data', chunk => {
      relay.bytes += chunk.length
    })
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
    behaviour(socket)
  })
  const listen = (port: number): Promise<void> => new Promise(resolve => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const relay: Relay = {
    port,
    connections: 0,
    bytes: 0,
    async use (next) {
      behaviour = next
      await Promise.all(
        [...sockets].map(socket => new Promise<void>(resolve => socket.once('close', () => resolve()).end()))
      )
    },
    stop () {
      // Node cannot reset a connection whose end it is sending, and then never says that it is closed.
      for (const socket of sockets) socket[socket.writableEnded ? 'destroy' : 'resetAndDestroy']()
      return new Promise(resolve => server.close(() => resolve()))
    },
    restart: () => listen(port)
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return relay
}
