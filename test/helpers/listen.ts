import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Owner } from './owner.ts'

/** Lets a server listen on loopback until the end of the test. Gives its port. */
export async function listen (t: Owner, server: Server & { closeAllConnections? (): void }) {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections?.()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** Closes a server, with its connections. */
export async function closeWith (server: Server, connections: Iterable<Duplex>) {
  const closed = once(server, 'close')
  server.close()
  for (const connection of connections) connection.destroy()
  await closed
}
