import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Verdict } from './journal.ts'
import { hashOf, mutate, shorten } from './mutants.ts'
import type { Mutant, Program } from './mutants.ts'
import type { Candidate } from './reach.ts'
import { runTestFile } from './trial.ts'
import type { Run } from './trial.ts'

export interface Court {
  /** Runs what may kill a mutant, the most promising first, until one test fails. */
  judge (mutant: Mutant, program: Program, candidates: readonly Candidate[]): Promise<Verdict>
  close (): void
}

export interface CourtOptions {
  /** What is known from before: what killed one mutant of a file most likely kills the next. */
  readonly past: readonly Verdict[]
  /** A mutant that no test has killed for so long counts as a survivor. At least three files of tests are tried. */
  readonly budgetMs: number
  readonly clock: () => number
}

/** Remembers, as long as it is open, which tests kill the mutants of which files. */
export function openCourt ({ past, budgetMs, clock }: CourtOptions): Court {
  const folder = mkdtempSync(join(tmpdir(), 'mutant-'))
  const odds = createOdds(past)
  /** Tests that pass by themselves, and files of which the tests need each other. */
  const alone = new Map<string, boolean>()

  async function passesAlone ({ file, hash, ms }: Candidate, test: string): Promise<boolean> {
    const key = [file, hash, test].join('\n')
    const known = alone.get(key)
    if (known !== undefined) return known
    const { end } = await runTestFile(file, { hooks: [], only: [test], timeoutMs: limit(ms), clock })
    alone.set(key, end === 'passed')
    return end === 'passed'
  }

  async function run (candidate: Candidate, env: Record<string, string>): Promise<Run> {
    const { file, only, ms } = candidate
    const first = await runTestFile(file, { env, only, timeoutMs: limit(ms), clock })
    if (first.end !== 'failed' || !only || !first.inTest || await passesAlone(candidate, first.inTest)) return first
    return runTestFile(file, { env, timeoutMs: limit(ms * 4), clock })
  }

  return {
    async judge (mutant, program, candidates) {
      const named = { id: mutant.id, file: mutant.file, program: program.hash, tests: testsOf(candidates) }
      if (candidates.length === 0) return { ...named, end: 'unreached', runs: 0 }
      const source = join(folder, `${mutant.id}.js`)
      writeFileSync(source, mutate(program, mutant))
      const env = { MUTANT_URL: pathToFileURL(resolve(mutant.file)).href, MUTANT_SOURCE: source }
      let spentMs = 0
      let runs = 0
      for (const candidate of odds.sort(mutant.file, candidates)) {
        if (runs > 2 && spentMs > budgetMs) break
        const { end, failure, inTest, ms } = await run(candidate, env)
        runs++
        spentMs += ms
        odds.note(mutant.file, candidate.file, end !== 'passed')
        if (end === 'passed') continue
        return { ...named, end: end === 'failed' ? 'killed' : 'timeout', by: candidate.file, failure: shorten(`${inTest ?? ''}: ${failure}`), runs }
      }
      return { ...named, end: 'survived', runs }
    },
    close () {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

/** One text for all the tests that can see a mutant, as they are now. */
export function testsOf (candidates: readonly Candidate[]): string {
  return hashOf(candidates.map(({ file, hash }) => file + hash).sort().join('\n'))
}

/** Generous: the machine may have other things to do. */
function limit (ms: number): number {
  return 15_000 + 6 * ms
}

interface Odds {
  sort (source: string, candidates: readonly Candidate[]): Candidate[]
  note (source: string, test: string, isKill: boolean): void
}

function createOdds (past: readonly Verdict[]): Odds {
  const counts = new Map<string, { kills: number, runs: number }>()
  const note = (source: string, test: string, isKill: boolean): void => {
    const key = `${source} ${test}`
    const { kills, runs } = counts.get(key) ?? { kills: 0, runs: 0 }
    counts.set(key, { kills: kills + Number(isKill), runs: runs + 1 })
  }
  for (const { file, by } of past) if (by) note(file, by, true)
  const cost = (source: string, { file, ms }: Candidate): number => {
    const { kills, runs } = counts.get(`${source} ${file}`) ?? { kills: 0, runs: 0 }
    // A process takes about a second to start. A test beside the source, by its folder, is likelier to see.
    const isNear = file.includes(`/${source.split('/').at(-2)}/`) || file.includes(`/${source.split('/').at(-1)?.replace('.ts', '')}.`)
    return (ms + 1000) * (runs + 2) / (kills + (isNear ? 1 : 0.3))
  }
  return {
    note,
    sort: (source, candidates) => [...candidates].sort((a, b) => cost(source, a) - cost(source, b))
  }
}
