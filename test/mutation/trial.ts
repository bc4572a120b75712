import { spawn } from 'node:child_process'
import { resolve as resolvePath } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The hook that swaps one module, for `--import`. */
const SWAP = pathToFileURL(resolvePath('test/mutation/hooks/swap.js')).href
const ENV = { TAP_TYPE_STRIP_ONLY: '1', TAP_BAIL: '1', TAP_TIMEOUT: '600', TAP_FILTER_QUIETLY: '1' }

interface Trial {
  readonly hook?: string
  readonly env?: Readonly<Record<string, string>>
  /** Names of tests at the top of the file; all of them when left out. */
  readonly only?: readonly string[] | undefined
  readonly args?: readonly string[]
  readonly timeoutMs: number
}

/** Whether the tests of a file pass, in a process of its own, which ends with its children at the first failure. */
export function runTestFile (
  file: string,
  { hook = SWAP, env = {}, only, args = [], timeoutMs }: Trial
): Promise<boolean> {
  const names = only?.map(name => name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&'))
  const child = spawn(process.execPath, ['--import', './cli/strip-types.js', file, ...args], {
    detached: true,
    stdio: 'ignore',
    env: {
      ...process.env,
      ...ENV,
      NODE_OPTIONS: `--import=${hook}`,
      ...names && { TAP_GREP: `/^(?:${names.join('|')})$/` },
      ...env
    }
  })
  const end = () => {
    try {
      // The whole group: a test may have started servers.
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // It has ended already.
    }
  }
  const timer = setTimeout(end, timeoutMs)
  return new Promise(resolve =>
    child.on('close', code => {
      clearTimeout(timer)
      end()
      resolve(code === 0)
    })
  )
}
