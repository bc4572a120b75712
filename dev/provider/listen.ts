import { once } from 'node:events'
import type { Server } from 'node:net'

/** Listens on loopback by default, because these servers print keys and secrets. */
export async function listen (server: Server, port: number, host = '127.0.0.1'): Promise<number> {
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}

/** Closes a server and all of its connections. */
export async function stop (server: Server & { closeAllConnections?: () => void }): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections?.()
  await closed
}
