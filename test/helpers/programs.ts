import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process'
import { connect } from 'node:net'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'

/**
 * The program of this name, or undefined. A variable of the environment, such as CADDY or OAUTH2_PROXY, names another
 * one than that on the PATH.
 */
export function programOf (name: string): string | undefined {
  const program = process.env[name.toUpperCase().replaceAll('-', '_')] ?? name
  return spawnSync(program, ['--version']).error === undefined ? program : undefined
}

/** Keeps what a program writes. Returns what gives it. */
export function outputOf ({ stdout, stderr }: ChildProcessByStdio<null, Readable, Readable>): () => string {
  let output = ''
  for (const stream of [stdout, stderr]) {
    stream.on('data', chunk => {
      output += chunk
    })
  }
  return () => output
}

export function isListening (port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

interface ProgramStart {
  args: readonly string[]
  /** Where it runs, and what it takes for the home of its user. */
  folder: string
  /** Where it listens when it has started. */
  ports: readonly number[]
}

/** Starts a server of this machine, and waits until it listens. It ends with the test. */
export async function startProgram (t: Test, program: string, { args, folder, ports }: ProgramStart) {
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...process.env, HOME: folder },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const output = outputOf(child)
  const ended = new Promise(resolve => child.on('exit', resolve))
  // Not SIGKILL: the workers of nginx would outlive it.
  t.teardown(() => {
    child.kill('SIGTERM')
    return ended
  })
  for (const port of ports) {
    while (!await isListening(port)) {
      if (child.exitCode !== null) throw new Error(`${program} did not start: ${output()}`)
      await new Promise(resolve => setTimeout(resolve, 25))
    }
  }
}
