import { fork } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join, resolve as resolvePath } from 'node:path'
import { pathToFileURL } from 'node:url'
import { endGroup, patternOf, SWAP, TAP_ENV, watchOutput, type Run, type Start } from './trial.ts'

/** A file whose first test fails is given so long to end. */
const LEAVE_MS = 5000
/** Modules are never forgotten, so a process is left after so many runs or bytes. */
const MAX_RUNS = 150
const MAX_BYTES = 700 * 2 ** 20

/** The text that takes the place of one module. */
export interface Swap {
  readonly file: string
  readonly source: string
}

/** A process that runs one file of tests after the other. */
export interface WarmProcess {
  /** Whether a run has failed in it: what that left behind might make the next one fail too. */
  readonly isDirty: boolean
  /** Whether it can be used again. */
  readonly isUsable: boolean
  run (file: string, start: Start & { readonly swap?: Swap | undefined }): Promise<Run>
  end (): void
}

/**
 * Opens a process that loads packages once, and sources anew for each run: to load the packages and to warm them up
 * takes most of the time of a process that runs one file.
 * @param folder for the texts of mutants, which the process reads there
 */
export function openWarmProcess (folder: string): WarmProcess {
  const texts = mkdtempSync(join(folder, 'warm-'))
  const child = fork('test/mutation/hooks/warm.js', [texts], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, ...TAP_ENV, NODE_OPTIONS: '' }
  })
  let runs = 0
  let bytes = 0
  let isDirty = false
  let isOver = false
  let onFailure = (): void => {}
  let onMessage = (_message: { number: number, passed?: boolean, bytes?: number }): void => {}
  let onExit = (): void => {}
  const ready = new Promise<void>(resolve => {
    onMessage = ({ number }) => {
      if (number === 0) resolve()
    }
    onExit = resolve
  })
  const watch = watchOutput(child, () => onFailure())
  child.on('message', message => onMessage(message as { number: number }))
  child.on('exit', () => {
    isOver = true
    onExit()
  })
  const end = (): void => {
    isOver = true
    endGroup(child)
  }

  return {
    get isDirty () {
      return isDirty
    },
    get isUsable () {
      return !isOver && runs < MAX_RUNS && bytes < MAX_BYTES
    },
    async run (file, { swap, only, timeoutMs, clock }) {
      await ready
      const number = ++runs
      const source = join(texts, `${number}.js`)
      const url = swap ? pathToFileURL(resolvePath(swap.file)).href : ''
      writeFileSync(source, swap?.source ?? '')
      writeFileSync(join(texts, `${number}.json`), JSON.stringify({ url, source: swap?.source }))
      watch.clear()
      const began = clock()
      return new Promise(resolve => {
        const finish = (how: Run['end']): void => {
          clearTimeout(timer)
          clearTimeout(leave)
          if (how !== 'passed') isDirty = true
          resolve({ ms: Math.round(clock() - began), end: how, ...watch.found() })
        }
        const giveUp = (how: Run['end']): void => {
          end()
          finish(how)
        }
        const timer = setTimeout(giveUp, timeoutMs, 'timeout')
        let leave: NodeJS.Timeout | undefined
        onFailure = () => {
          leave = setTimeout(giveUp, LEAVE_MS, 'failed')
        }
        onExit = () => finish('failed')
        onMessage = message => {
          // tap sends messages of its own.
          if (message.number !== number) return
          bytes = message.bytes!
          if (message.passed || watch.found().failure !== undefined) return finish(message.passed ? 'passed' : 'failed')
          // What failed comes by another channel, perhaps later.
          onFailure = () => finish('failed')
          leave = setTimeout(finish, LEAVE_MS, 'failed')
        }
        const env = { NODE_OPTIONS: `--import=${SWAP}`, MUTANT_URL: url, MUTANT_SOURCE: source }
        if (isOver) onExit()
        else child.send({ number, file: resolvePath(file), only: only && patternOf(only), env })
      })
    },
    end
  }
}
