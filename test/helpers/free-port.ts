import { once } from 'node:events'
import { createServer } from 'node:net'
import getPort, { portNumbers } from 'get-port'

/** Of a process. More than one test needs. */
const PORTS = 40
const SLICES = 300

let claimed: Promise<number> | undefined

/**
 * A port on which a server may listen some time later. It is below those that the system gives to outgoing connections
 * and to port 0 (on Linux from 32768), which could take it until then, and in a slice of this process only.
 */
export async function freePort (): Promise<number> {
  const first = await (claimed ??= claimSlice())
  return getPort({ port: portNumbers(first + 1, first + PORTS - 1) })
}

/** Holds the first port of a slice for as long as this process runs: ids of processes that are alike meet there. */
async function claimSlice (): Promise<number> {
  for (let n = process.pid; ; n++) {
    const first = 20_000 + n % SLICES * PORTS
    const holder = createServer().unref().listen(first, '127.0.0.1')
    if (await once(holder, 'listening').then(() => true, () => false)) return first
  }
}
