import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { AUDIENCE } from './issuer.ts'

/**
 * The compiled app as operators run it: built once, then started by the command of `npm start` in a process of its own
 * and in a directory of its own, so that no file of the clone counts.
 */
export const root = join(import.meta.dirname, '../..')
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
const absolute = (command: string) => command.split(' ').slice(1).map(word => word.replace(/^dist\//, join(root, 'dist/')))
export const START = absolute(scripts.start!)
export const APP = join(root, 'dist/app.js')

/** Nothing of the environment of the tests but what a program needs to run at all. */
const PLAIN = { PATH: process.env['PATH'], HOME: process.env['HOME'] }
export type Environment = Record<string, string>
export const GOOD: Environment = { IDP_ISSUER: 'http://127.0.0.1:9/', IDP_AUDIENCE: AUDIENCE }

export interface Outcome {
  code: number | null
  stdout: string
  stderr: string
}

export function run (file: string, args: string[], env: Environment, cwd: string): Promise<Outcome> {
  return new Promise(resolve => {
    const child = execFile(
      file,
      args,
      { cwd, env: { ...PLAIN, ...env } },
      (_error, stdout, stderr) => resolve({ code: child.exitCode, stdout, stderr })
    )
  })
}

export const fastify = (args: string[], env: Environment, cwd: string): Promise<Outcome> =>
  run(process.execPath, [join(root, 'node_modules/.bin/fastify'), ...args], env, cwd)

export interface Service {
  url: string
  port: number
  log (): Array<{ level: number, msg: string, event?: string }>
  terminate (): void
  ended: Promise<{ code: number | null, stderr: string }>
}

/** Starts the service and waits until it listens. It ends with the test, at the latest. */
export function startService (t: Test, env: Environment, args: string[] = [], cwd = t.testdir()): Promise<Service> {
  const child = spawn(process.execPath, [
    join(root, 'node_modules/.bin/fastify'),
    ...START,
    '--address',
    '127.0.0.1',
    ...args
  ], { cwd, env: { ...PLAIN, ...env } })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  let stdout = ''
  let stderr = ''
  child.stderr.on('data', chunk => {
    stderr += chunk
  })
  const ended = new Promise<{ code: number | null, stderr: string }>(resolve =>
    child.on('close', code => resolve({ code, stderr }))
  )
  return new Promise((resolve, reject) => {
    ended.then(({ code }) => reject(new Error(`it ended with ${code}: ${stderr}`)))
    child.stdout.on('data', chunk => {
      stdout += chunk
      const [, url, port] = /listening at (http:\/\/127\.0\.0\.1:(\d+))/.exec(stdout) ?? []
      if (!url) return
      resolve({
        url,
        port: Number(port),
        log: () => stdout.trim().split('\n').map(line => JSON.parse(line)),
        terminate: () => {
          child.kill('SIGTERM')
        },
        ended
      })
    })
  })
}

/** Compiles if need be, as `npm start` does. */
export async function build () {
  const { code, stdout, stderr } = await run(process.execPath, ['cli/compile.cjs'], {}, root)
  if (code !== 0) throw new Error(`the build failed: ${stdout}${stderr}`)
}
