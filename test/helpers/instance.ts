import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { AUDIENCE, type Issuer } from './issuer.ts'
import type { Owner } from './owner.ts'

const root = join(import.meta.dirname, '..', '..')
const fastify = join(root, 'node_modules/.bin/fastify')
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: { start: string } }

/**
 * Compiles the service into a folder of the test, so that a build at the same time does not interfere. Types are
 * another test's.
 */
export function buildService (t: Test): string {
  const directory = t.testdir()
  const args = [
    join(root, 'node_modules/typescript/bin/tsc'),
    '-p',
    'tsconfig.build.json',
    '--noCheck',
    '--noResolve',
    '--outDir',
    directory
  ]
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`the build failed: ${stdout}`)
  return directory
}

type Checks = Record<string, string>

/** The service as operators run it: the command of `npm start` in a process of its own. */
export interface Instance {
  url: string
  port: number
  /** Everything it wrote. */
  output (): string
  /** Its lines about answered requests to this route. */
  answered (route: string): number
  /** Waits until readiness is 200, or 503 with this reason of the replay store. Gives the checks. */
  untilReady (): Promise<Checks>
  untilReplay (reason: string): Promise<Checks>
  pid: number
  terminate (): void
  signal (signal: NodeJS.Signals): void
  /** The exit code, once it has ended. */
  ended: Promise<number | null>
}

export type Environment = Record<string, string>

/** Starts an instance and waits until it listens. It ends with the test, at the latest. */
export async function startInstance (
  t: Owner,
  directory: string,
  issuer: Pick<Issuer, 'url'>,
  env: Environment = {}
): Promise<Instance> {
  const { child, output, ended } = spawnInstance(t, directory, {
    IDP_ISSUER: issuer.url,
    IDP_AUDIENCE: AUDIENCE,
    PORT: '0',
    ...env
  })
  let url: string | undefined
  while ((url = /listening at (http:\/\/127\.0\.0\.1:\d+)/.exec(output())?.[1]) === undefined) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`it ended with ${child.exitCode}: ${output()}`)
    }
    await delay(10)
  }

  async function until (what: string, isTrue: (status: number, checks: Checks) => boolean) {
    let checks: Checks = {}
    for (let left = 6000; left > 0; left--) {
      const answer = await fetch(`${url}/health/ready`)
      checks = (await answer.json() as { checks: Checks }).checks
      if (isTrue(answer.status, checks)) return checks
      await delay(10)
    }
    throw new Error(`never ${what}: ${JSON.stringify(checks)}`)
  }

  return {
    url,
    port: Number(new URL(url).port),
    output,
    answered: route =>
      output().split('\n').filter(line => line.includes('"request answered"') && line.includes(`"route":"${route}"`))
        .length,
    untilReady: () => until('ready', status => status === 200),
    untilReplay: reason => until(reason, (status, checks) => status === 503 && checks.replay === reason),
    pid: child.pid!,
    terminate: () => {
      child.kill('SIGTERM')
    },
    signal: signal => {
      child.kill(signal)
    },
    ended
  }
}

/**
 * Only the process, for a start that fails. It runs in a folder without settings, and takes from the environment of the
 * tests only what a program needs to run at all.
 */
export function spawnInstance (
  t: Owner,
  directory: string,
  env: Environment
): { child: ReturnType<typeof spawn>, output: () => string, ended: Promise<number | null> } {
  const words = scripts.start.replaceAll('dist/', `${directory}/`).split(' ').slice(1)
  const { PATH, HOME } = process.env
  const child = spawn(process.execPath, [fastify, ...words, '--address', '127.0.0.1'], {
    cwd: directory,
    env: { PATH, HOME, _TAPJS_PROCESSINFO_COVERAGE_: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', chunk => {
      text += chunk
    })
  }
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  return { child, output: () => text, ended: new Promise(resolve => child.on('close', resolve)) }
}
