import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startChild } from './child.ts'
import { root } from '../../cli/places.ts'

/** What tsx watches beside the files that are loaded: a new one is loaded by being there. */
const FOLDERS = ['lib', 'plugins', 'routes', 'schemas', 'server']

/** The real service: fastify-cli on the sources, in a process of its own, which tsx starts anew on every change. `isPretty`: logs for people instead of JSON lines. */
export function startApi (env: NodeJS.ProcessEnv, isPretty: boolean): ChildProcess {
  const [tsx, fastify] = ['tsx/cli', 'fastify-cli/cli.js'].map((name) => fileURLToPath(import.meta.resolve(name)))
  const included = FOLDERS.flatMap((name) => ['--include', join(root, name, '**', '*.ts')])
  // In a container the command line would open the port to the network.
  const address = env['FASTIFY_ADDRESS'] || 'localhost'
  const args = [tsx!, 'watch', '--clear-screen=false', ...included, fastify!, 'start', '-o', '-a', address, '-g', '3000', ...isPretty ? ['-P'] : [], join(root, 'app.ts')]
  // Not the top of the clone: `env` holds all settings, and no file there is to add to them.
  return startChild(args, import.meta.dirname, env, 'inherit')
}
