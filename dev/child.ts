import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

const GRACE_MS = 5000

export interface ChildOptions {
  env?: NodeJS.ProcessEnv
  cwd: string
  /** Standard output is piped to who started the child; else it goes where ours goes. */
  capture?: boolean
}

/**
 * Starts a Node program on a leash. It has a process group of its own, so that Ctrl-C reaches us alone
 * and everything is stopped once, in order.
 */
export function startChild (args: readonly string[], { env = process.env, cwd, capture = false }: ChildOptions): ChildProcess {
  const leash = new URL('./leash.js', import.meta.url).href
  const output = capture ? 'pipe' : 'inherit'
  return spawn(process.execPath, ['--import', leash, ...args], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', output, 'inherit', 'ipc']
  })
}

export const isRunning = (child: ChildProcess): boolean => child.exitCode === null && child.signalCode === null

/** Asks first, and does not ask a second time. */
export async function stopChild (child: ChildProcess): Promise<void> {
  if (!isRunning(child)) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), GRACE_MS)
  await exited
  clearTimeout(timer)
}
