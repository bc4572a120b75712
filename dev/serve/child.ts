import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Loaded into the child: it ends with us, however we ended. */
const LEASH = 'data:text/javascript,process.once("disconnect", () => process.kill(process.pid)); process.channel.unref()'

/** Starts a Node program in a process group of its own, so that Ctrl-C reaches only us, and everything is stopped once, in order. */
export function startChild (args: readonly string[], cwd: string, env: NodeJS.ProcessEnv, stdout: 'pipe' | 'inherit'): ChildProcess {
  return spawn(process.execPath, ['--import', LEASH, ...args], { cwd, env, detached: true, stdio: ['ignore', stdout, 'inherit', 'ipc'] })
}

export async function stopChild (child: ChildProcess): Promise<void> {
  if (child.kill()) await once(child, 'exit')
}
