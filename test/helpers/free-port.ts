import getPort, { portNumbers } from 'get-port'

/**
 * A port on which a server may listen some time later. It is below those that the system gives to outgoing connections
 * and to port 0 (on Linux from 32768), which could take it until then. The range begins anywhere, because other test
 * processes look for ports as well.
 */
export function freePort (): Promise<number> {
  const first = 20_000 + Math.floor(Math.random() * 12_000)
  return getPort({ port: portNumbers(first, first + 500) })
}
