import { spawn } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { root } from './documents.ts'
import { outputOf } from './programs.ts'

/** Command lines as a page prints them, in a shell that has nothing of our environment but where programs are. */

const { HOME, PATH } = process.env

export interface Outcome {
  code: number | null
  output: string
}

/** Runs a line to its end. */
export function runLine (cwd: string, line: string, env: Record<string, string> = {}): Promise<Outcome> {
  const child = spawn('bash', ['-c', line], { cwd, env: { HOME, PATH, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = outputOf(child)
  return new Promise(resolve => child.on('close', code => resolve({ code, output: output() })))
}

interface Program {
  output (): string
  stop (): Promise<void>
  /** It has ended, for whatever reason. */
  ended: Promise<void>
  /** Waits for a word of the program. It throws if the program ends without it. */
  says (pattern: RegExp): Promise<RegExpExecArray>
}

/** Starts a line that stays in the foreground, until the test ends at the latest. */
export function startLine (t: Test, cwd: string, line: string, env: Record<string, string> = {}): Program {
  const child = spawn('bash', ['-c', line], {
    cwd,
    env: { HOME, PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true
  })
  const output = outputOf(child)
  const ended = new Promise<void>(resolve => child.on('close', () => resolve()))
  const stop = () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGINT')
    return ended
  }
  t.teardown(stop)
  return {
    output,
    stop,
    ended,
    async says (pattern) {
      for (;;) {
        const found = pattern.exec(output())
        if (found !== null) return found
        if (child.exitCode !== null) throw new Error(`${line} ended without saying ${pattern}:\n${output()}`)
        await delay(50)
      }
    }
  }
}

/** Runs a command of a page at the top of the clone, with our environment, and gives what it prints by lines. */
export function linesOf (t: Test, line: string, env: Record<string, string>): Interface {
  const child = spawn('bash', ['-c', line], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true
  })
  t.teardown(() => {
    if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL')
  })
  return createInterface({ input: child.stdout })
}
