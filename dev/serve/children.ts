import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { watch } from 'chokidar'
import { root } from '../../cli/tenants.ts'

/** Loaded into the child: it ends with us, however we ended. Its workers load it too, and have no channel. */
const LEASH =
  'data:text/javascript,process.once("disconnect", () => process.kill(process.pid)); process.channel?.unref()'

/** What the service is made of. */
const SOURCES = ['app.ts', 'holdfast.ts', 'start-options.ts', 'lib', 'server', 'plugins', 'routes', 'schemas'].map(
  name => join(root, name)
)

/**
 * Starts a Node program in a process group of its own, so that Ctrl-C reaches only us, and everything is stopped once,
 * in order.
 */
function startChild (args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(process.execPath, ['--import', LEASH, ...args], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
}

async function stopChild (child: ChildProcess) {
  if (child.kill()) await once(child, 'exit')
}

/**
 * Starts the real service, with three extra routes: fastify-cli on the sources. Every change calls `onChange` and
 * restarts it. `isPretty`: logs for people instead of JSON lines.
 */
export function startApi (
  env: NodeJS.ProcessEnv,
  { isPretty, onChange }: { isPretty: boolean, onChange: (file: string) => void }
): { stop (): Promise<void> } {
  // In a container, fastify-cli listens on all addresses by default.
  const address = env['FASTIFY_ADDRESS'] || 'localhost'
  const args = [
    '--import',
    import.meta.resolve('../../cli/strip-types.js'),
    fileURLToPath(import.meta.resolve('fastify-cli/cli.js')),
    'start',
    '-o',
    '-a',
    address,
    '-g',
    '3000',
    ...isPretty ? ['-P'] : [],
    join(import.meta.dirname, 'api.ts')
  ]
  // `env` holds all settings. At the top of the clone, files could add to them.
  const start = () => startChild(args, import.meta.dirname, env)
  let child = start()
  let restart: Promise<void> | undefined
  const watcher = watch(SOURCES, {
    ignoreInitial: true,
    ignored: (path, stats) => stats?.isFile() === true && !path.endsWith('.ts')
  })
  watcher.on('all', (_event, path) => {
    onChange(relative(root, path))
    // An editor may save several files at once, and each in several steps.
    restart ??= delay(100).then(() => stopChild(child)).then(() => {
      restart = undefined
      child = start()
    })
  })
  return {
    async stop () {
      await watcher.close()
      await restart
      await stopChild(child)
    }
  }
}
