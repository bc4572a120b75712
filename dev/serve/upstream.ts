import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { BadUsage } from '../../cli/bad-usage.ts'
import { root } from '../../cli/tenants.ts'
import type { Running } from './children.ts'

/**
 * Starts dev/upstream.py, the application behind the gate. Resolves when it listens. @throws BadUsage if there is no
 * Python
 */
export async function startUpstream (port: number): Promise<Running> {
  const child = spawn('python3', [join(root, 'dev', 'upstream.py'), String(port)], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = once(child, 'close')
  // Whichever comes first: its line, its end, or the error that there is no such program.
  const isUp = await Promise.race([once(child.stdout, 'data').then(() => true), ended.then(() => false)]).catch(() =>
    false
  )
  if (!isUp) {
    throw new BadUsage('--gate needs Python 3 for the application behind the gate, and python3 does not run here')
  }
  return {
    async stop () {
      if (child.kill()) await ended
    }
  }
}
