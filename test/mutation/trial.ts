import { spawn, type ChildProcess } from 'node:child_process'
import { resolve as resolvePath } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The hook that swaps one module, for `--import`. */
export const SWAP = pathToFileURL(resolvePath('test/mutation/hooks/swap.js')).href
export const TAP_ENV = { TAP_TYPE_STRIP_ONLY: '1', TAP_BAIL: '1', TAP_TIMEOUT: '600', TAP_FILTER_QUIETLY: '1' }

/** A line of TAP that says what failed; what is skipped or still to do counts as passed. */
const FAILED = /^ *not ok \d+ - (?!.*# (?:TODO|SKIP))(.*)$/
const BEGUN = /^# Subtest: (.*)$/

export interface Run {
  /** Whole milliseconds of the clock on the wall. */
  readonly ms: number
  /** How it ended; `passed` is the only way in which a mutant lives on. */
  readonly end: 'passed' | 'failed' | 'timeout'
  /** The first test that failed, or what the process said at its end. */
  readonly failure: string | undefined
  /** The test at the top of the file in which that was. */
  readonly inTest: string | undefined
}

export interface Start {
  /** Names of tests at the top of the file; all of them when left out. */
  readonly only?: readonly string[] | undefined
  readonly timeoutMs: number
  readonly clock: () => number
}

/** Runs one test file in a process of its own, and ends it and its children at the first failure. */
export function runTestFile (
  file: string,
  { hook = SWAP, env = {}, only, timeoutMs, clock }: Start & { hook?: string, env?: Record<string, string> }
): Promise<Run> {
  const began = clock()
  const child = spawn(process.execPath, ['--import', './cli/strip-types.js', file], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      ...TAP_ENV,
      NODE_OPTIONS: `--import=${hook}`,
      ...only && { TAP_GREP: `/${patternOf(only)}/` },
      ...env
    }
  })
  return new Promise(resolve => {
    const watch = watchOutput(child, () => finish('failed'))
    const finish = (end: Run['end']): void => {
      clearTimeout(timer)
      endGroup(child)
      resolve({ ms: Math.round(clock() - began), end, ...watch.found() })
    }
    const timer = setTimeout(finish, timeoutMs, 'timeout')
    child.on('close', code => finish(code === 0 ? 'passed' : 'failed'))
  })
}

/** Reads what tests report. `found` is the first failure since the last `clear`. */
export function watchOutput (
  child: ChildProcess,
  onFailure: () => void
): { found (): Pick<Run, 'failure' | 'inTest'>, clear (): void } {
  let rest = ''
  let errors = ''
  let failure: string | undefined
  let inTest: string | undefined
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      if (failure !== undefined) return
      inTest = BEGUN.exec(line)?.[1] ?? inTest
      failure = FAILED.exec(line)?.[1]
      if (failure !== undefined) onFailure()
    }
  })
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-2000)
  })
  return {
    found: () => ({ failure: failure ?? /^\w*Error.*$/m.exec(errors)?.[0], inTest }),
    clear () {
      rest = errors = ''
      failure = inTest = undefined
    }
  }
}

/** The whole group: a test may have started servers. */
export function endGroup (child: ChildProcess): void {
  try {
    process.kill(-child.pid!, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}

export function patternOf (names: readonly string[]): string {
  return `^(?:${names.map(name => name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')).join('|')})$`
}
