import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Server } from 'node:net'

/** Listens on loopback alone: what runs here has keys and secrets that are printed. */
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

/** The first port from `port` on that is free under both addresses that `localhost` can mean. */
export async function freePort (port: number): Promise<number> {
  for (let candidate = port; candidate < port + 200 && candidate < 65_536; candidate++) {
    if (await isFree(candidate, '127.0.0.1') && await isFree(candidate, '::1')) return candidate
  }
  throw new Error(`no free port from ${port} on`)
}

async function isFree (port: number, host: string): Promise<boolean> {
  const probe = createServer()
  try {
    await listen(probe, port, host)
    await stop(probe)
    return true
  } catch (error) {
    // A host without IPv6 has no ::1 on which the port could be busy.
    const { code } = error as NodeJS.ErrnoException
    return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT'
  }
}
