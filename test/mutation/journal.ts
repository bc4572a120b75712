import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Everything that a run keeps for the next one. Git does not see it, and nothing is lost without it but time. */
export const CACHE = 'node_modules/.cache/mutation'

/** How one mutant ended. */
export interface Verdict {
  readonly id: string
  readonly file: string
  /** Of the source file, and of all tests that could have seen the mutant. */
  readonly program: string
  readonly tests: string
  readonly end: 'killed' | 'timeout' | 'survived' | 'unreached'
  /** The test file that killed it, and the test in it. */
  readonly by?: string
  readonly failure?: string
  /** How many test files were run. */
  readonly runs: number
  readonly ms?: number
}

export interface Journal {
  /** The verdict on a mutant, if it still holds: a survivor is tried again when a test has changed. */
  find (id: string, program: string, tests: string): Verdict | undefined
  /** All that was ever written, the newest last. */
  readonly all: readonly Verdict[]
  /** The names of those that lived when they were tried last. */
  survivors (): string[]
  write (verdict: Verdict): void
}

/** Verdicts in a file, one a line, so that a run that was stopped goes on where it was. */
export function openJournal (path = join(CACHE, 'journal.jsonl')): Journal {
  const all = readLines(path)
  const byId = new Map(all.map(verdict => [verdict.id, verdict]))
  mkdirSync(dirname(path), { recursive: true })
  return {
    all,
    find (id, program, tests) {
      const verdict = byId.get(id)
      if (verdict?.program !== program) return undefined
      return isDead(verdict) || verdict.tests === tests ? verdict : undefined
    },
    survivors: () => [...byId.values()].filter(verdict => !isDead(verdict)).map(({ id }) => id),
    write (verdict) {
      byId.set(verdict.id, verdict)
      all.push(verdict)
      appendFileSync(path, JSON.stringify(verdict) + '\n')
    }
  }
}

export function isDead ({ end }: Verdict): boolean {
  return end === 'killed' || end === 'timeout'
}

function readLines (path: string): Verdict[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return []
  }
  return text.split('\n').flatMap(line => {
    try {
      return [JSON.parse(line) as Verdict]
    } catch {
      // The last line of a run that was killed while it wrote.
      return []
    }
  })
}
