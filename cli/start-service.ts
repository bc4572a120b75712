import { createRequire } from 'node:module'
import { join } from 'node:path'
import { root } from './tenants.ts'

/** Where the service listens. What is undefined is left to the settings and to fastify-cli. */
export interface Listening {
  readonly port?: string
  readonly address?: string
}

/**
 * Runs fastify-cli in this process, with the compiled service, as `npm start` does. Resolves when it listens. It ends
 * with a signal, or with exit code 1 and one message if it cannot start.
 */
export async function startService ({ port, address }: Listening): Promise<void> {
  const { start } = createRequire(import.meta.url)('fastify-cli/start.js') as {
    start: (args: string[]) => Promise<unknown>
  }
  // In a package, this file is compiled too, and lies beside the service.
  const folder = import.meta.filename.endsWith('.ts') ? join(root, 'dist') : root
  await start([
    ...port === undefined ? [] : ['-p', port],
    ...address === undefined ? [] : ['-a', address],
    '-c',
    join(folder, 'start-options.js'),
    join(folder, 'app.js')
  ])
}
