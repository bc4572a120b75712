import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const SWAP = pathToFileURL(resolve('test/mutation/hooks/swap.js')).href
/** The first line of TAP that says what failed; what is skipped or still to do counts as passed. */
const FAILED = /^ *not ok \d+ - (?!.*# (?:TODO|SKIP))(.*)$/
const BEGUN = /^# Subtest: (.*)$/

export interface Run {
  /** Whole milliseconds of the clock on the wall. */
  readonly ms: number
  /** How it ended; `passed` is the only way in which a mutant lives on. */
  readonly end: 'passed' | 'failed' | 'timeout'
  /** The last test that failed, or what the process said at its end. */
  readonly failure: string
  /** The test at the top of the file in which that was. */
  readonly inTest?: string
}

interface Start {
  readonly env?: Record<string, string>
  readonly hooks?: readonly string[]
  /** Names of tests at the top of the file; all of them when left out. */
  readonly only?: readonly string[]
  readonly timeoutMs: number
  readonly clock: () => number
}

/** Runs one test file in a process of its own, and ends it and its children at the first failure. */
export function runTestFile (file: string, { env = {}, hooks = [SWAP], only, timeoutMs, clock }: Start): Promise<Run> {
  const began = clock()
  const child = spawn(process.execPath, ['--import', './cli/strip-types.js', file], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      NODE_OPTIONS: hooks.map(hook => `--import=${hook}`).join(' '),
      TAP_TYPE_STRIP_ONLY: '1',
      TAP_BAIL: '1',
      TAP_TIMEOUT: '600',
      TAP_FILTER_QUIETLY: '1',
      ...only && { TAP_GREP: `/^(?:${only.map(escape).join('|')})$/` },
      ...env
    }
  })
  const { promise, resolve } = withResolvers<Run>()
  let rest = ''
  let told = ''
  let inTest: string | undefined
  const finish = (end: Run['end'], failure: string): void => {
    clearTimeout(timer)
    // The whole group: a test may have started servers.
    try { process.kill(-child.pid!, 'SIGKILL') } catch {}
    resolve({ ms: Math.round(clock() - began), end, failure, inTest })
  }
  const timer = setTimeout(() => finish('timeout', `not ended after ${Math.round(timeoutMs / 1000)} s`), timeoutMs)
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      inTest = BEGUN.exec(line)?.[1] ?? inTest
      const [, failure] = FAILED.exec(line) ?? []
      if (failure) return finish('failed', failure)
    }
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => { told = (told + text).slice(-2000) })
  child.on('error', error => finish('failed', error.message))
  child.on('close', code => finish(code === 0 ? 'passed' : 'failed', /^\w*Error.*$/m.exec(told)?.[0] ?? `exit code ${code}`))
  return promise
}

function withResolvers<Value> (): { promise: Promise<Value>, resolve: (value: Value) => void } {
  let resolve!: (value: Value) => void
  return { promise: new Promise<Value>(_resolve => { resolve = _resolve }), resolve }
}

function escape (text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
}
