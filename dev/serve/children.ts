import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { watch } from 'chokidar'
import { root } from '../../cli/places.ts'

/** What runs in a process of its own, until it is told to stop. */
export interface Running {
  stop (): Promise<void>
}

/** Loaded into the child: it ends with us, however we ended. */
const LEASH = 'data:text/javascript,process.once("disconnect", () => process.kill(process.pid)); process.channel.unref()'

/** What the service is made of. */
const SOURCES = ['app.ts', 'holdfast.ts', 'start-options.ts', 'lib', 'server', 'plugins', 'routes', 'schemas'].map((name) => join(root, name))

/** Starts a Node program in a process group of its own, so that Ctrl-C reaches only us, and everything is stopped once, in order. */
function startChild (args: readonly string[], cwd: string, env: NodeJS.ProcessEnv, stdout: 'pipe' | 'inherit'): ChildProcess {
  return spawn(process.execPath, ['--import', LEASH, ...args], { cwd, env, detached: true, stdio: ['ignore', stdout, 'inherit', 'ipc'] })
}

async function stopChild (child: ChildProcess): Promise<void> {
  if (child.kill()) await once(child, 'exit')
}

const programOf = (name: string): string => fileURLToPath(import.meta.resolve(name))

/** The real service: fastify-cli on the sources, started anew on every change, which `onChange` is told. `isPretty`: logs for people instead of JSON lines. */
export function startApi (env: NodeJS.ProcessEnv, isPretty: boolean, onChange: (file: string) => void): Running {
  // In a container the command line would open the port to the network.
  const address = env['FASTIFY_ADDRESS'] || 'localhost'
  const args = ['--import', import.meta.resolve('../../cli/strip-types.js'), programOf('fastify-cli/cli.js'), 'start', '-o', '-a', address, '-g', '3000', ...isPretty ? ['-P'] : [], join(root, 'app.ts')]
  // Not the top of the clone: `env` holds all settings, and no file there is to add to them.
  const start = (): ChildProcess => startChild(args, import.meta.dirname, env, 'inherit')
  let child = start()
  let restart: Promise<void> | undefined
  const watcher = watch(SOURCES, { ignoreInitial: true, ignored: (path, stats) => stats?.isFile() === true && !path.endsWith('.ts') })
  watcher.on('all', (_event, path) => {
    onChange(relative(root, path))
    // An editor saves many files at once, and one in more than one step.
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

/** Checks the types of the service on every change; the API runs whatever they are. `onChecked` gets what the compiler complained about, if anything. */
export function startTypeChecker (onChecked: (complaints: string[]) => void): Running {
  const args = [programOf('typescript/bin/tsc'), '-p', 'tsconfig.build.json', '--noEmit', '--watch', '--preserveWatchOutput', '--pretty', 'false']
  const child = startChild(args, root, process.env, 'pipe')
  let complaints: string[] = []
  createInterface({ input: child.stdout! }).on('line', (line) => {
    if (/Found \d+ errors?\. Watching/.test(line)) {
      onChecked(complaints)
      complaints = []
    } else if (/^\S.*\(\d+,\d+\): error |^error TS|^\s+\S/.test(line)) {
      complaints.push(line)
    }
  })
  return { stop: () => stopChild(child) }
}
