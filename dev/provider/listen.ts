import { once } from 'node:events'
import type { Server } from 'node:net'

/** Listens only on loopback unless told, because what runs here prints its keys and secrets. */
export async function listen (server: Server, port: number, host = '127.0.0.1'): Promise<number> {
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}

/** Closes a server, its idle and its busy connections. */
export async function stop (server: Server & { closeAllConnections?: () => void }): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections?.()
  await closed
}
