import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isRunning, startChild, stopChild } from './child.ts'
import { buildDir } from './places.ts'

const READY_MS = 20_000

export interface ApiOptions {
  port: number
  env: NodeJS.ProcessEnv
  /** Logs for people instead of JSON lines. */
  pretty: boolean
  /** The API ended by itself. */
  onExit: (code: number | null) => void
}

export interface Api {
  readonly url: string
  /** True once it answers, false when it ended before or did not answer in time. */
  start (): Promise<boolean>
  stop (): Promise<void>
}

/** The real service: fastify-cli on the compiled app, in a process of its own. */
export function createApi ({ port, env, pretty, onExit }: ApiOptions): Api {
  const url = `http://localhost:${port}`
  let child: ChildProcess | undefined
  return { url, start, stop }

  async function start (): Promise<boolean> {
    await stop()
    const program = fileURLToPath(import.meta.resolve('fastify-cli/cli.js'))
    // In a container the command line would open the port to the network.
    const address = env['FASTIFY_ADDRESS'] || 'localhost'
    const args = [program, 'start', '-o', '-a', address, '-g', '3000', ...pretty ? ['-P'] : [], join(buildDir, 'app.js')]
    // Not the top of the clone: `env` holds all settings, and no file there is to add to them.
    const started = startChild(args, { cwd: buildDir, env: { ...env, PORT: String(port) } })
    child = started
    started.once('exit', (code) => {
      if (child === started) onExit(code)
    })
    return answers(started)
  }

  async function stop (): Promise<void> {
    const running = child
    child = undefined
    if (running !== undefined) await stopChild(running)
  }

  async function answers (started: ChildProcess): Promise<boolean> {
    const untilMs = Date.now() + READY_MS
    while (isRunning(started) && Date.now() < untilMs) {
      const response = await fetch(`${url}/api/public`, { signal: AbortSignal.timeout(2000) }).catch(() => undefined)
      if (response?.ok === true && isRunning(started)) return true
      await delay(50)
    }
    return false
  }
}
