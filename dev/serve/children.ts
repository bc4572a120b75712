import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { watch } from 'chokidar'
import { root } from '../../cli/tenants.ts'

/** A process that runs until `stop`. */
interface Running {
  stop (): Promise<void>
}

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
function startChild (
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv,
  stdout: 'pipe' | 'inherit'
): ChildProcess {
  return spawn(process.execPath, ['--import', LEASH, ...args], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', stdout, 'inherit', 'ipc']
  })
}

async function stopChild (child: ChildProcess) {
  if (child.kill()) await once(child, 'exit')
}

const programOf = (name: string) => fileURLToPath(import.meta.resolve(name))

/**
 * Starts the real service, with three extra routes: fastify-cli on the sources. Every change calls `onChange` and
 * restarts it, and then `onRestart`. `isPretty`: logs for people instead of JSON lines.
 */
export function startApi (
  env: NodeJS.ProcessEnv,
  { isPretty, onChange, onRestart }: { isPretty: boolean, onChange: (file: string) => void, onRestart: () => void }
): Running {
  // In a container, fastify-cli listens on all addresses by default.
  const address = env['FASTIFY_ADDRESS'] || 'localhost'
  const args = [
    '--import',
    import.meta.resolve('../../cli/strip-types.js'),
    programOf('fastify-cli/cli.js'),
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
  const start = () => startChild(args, import.meta.dirname, env, 'inherit')
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
      onRestart()
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

/**
 * Checks the types of the service, as its files are at each `check`. The API runs in any case. `onChecked` gets the
 * lines of the compiler, none if all is well.
 */
export function createTypeChecker (onChecked: (complaints: string[]) => void): Running & { check (): void } {
  const args = [
    programOf('typescript/bin/tsc'),
    '-p',
    'tsconfig.build.json',
    '--noEmit',
    '--incremental',
    '--tsBuildInfoFile',
    'node_modules/.cache/dev.json',
    '--pretty',
    'false'
  ]
  let child: ChildProcess | undefined
  return {
    check () {
      child?.kill()
      const own = child = startChild(args, root, process.env, 'pipe')
      let text = ''
      own.stdout!.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      own.once('close', code => {
        if (own === child && code !== null) onChecked(code === 0 ? [] : text.trimEnd().split('\n'))
      })
    },
    async stop () {
      if (child?.exitCode === null) await stopChild(child)
    }
  }
}
