import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
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
