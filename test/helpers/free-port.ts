import getPort, { portNumbers } from 'get-port'

/** Of a process. More than one test needs. */
const PORTS = 40
const SLICES = 300

/**
 * A port on which a server may listen some time later. It is below those that the system gives to outgoing connections
 * and to port 0 (on Linux from 32768), which could take it until then. Test processes that run at once have ids near
 * each other, so none looks where another does.
 */
export function freePort (): Promise<number> {
  const first = 20_000 + process.pid % SLICES * PORTS
  return getPort({ port: portNumbers(first, first + PORTS - 1) })
}
