import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Verdict } from './journal.ts'
import { hashOf, mutate, shorten, type Mutant, type Program } from './mutants.ts'
import { createOdds } from './odds.ts'
import type { Candidate } from './reach.ts'
import type { Run } from './trial.ts'
import { openWarmProcess, type Swap, type WarmProcess } from './warm.ts'

/**
 * If a test takes longer, the change is tried again in a new process instead of the test without the change in this
 * one.
 */
const CHEAP_MS = 2000

export interface CourtOptions {
  /** What is known from before: what killed one mutant of a file most likely kills the next. */
  readonly past: readonly Verdict[]
  /** A mutant that no test has killed for so long counts as a survivor. At least three files of tests are tried. */
  readonly budgetMs: number
  readonly clock: () => number
}

export interface Court {
  /** Runs what may kill a mutant, the most promising first, until one test fails. */
  judge (mutant: Mutant, program: Program, candidates: readonly Candidate[]): Promise<Verdict>
  close (): void
}

/** Judges mutants, one in each process at a time. It remembers which tests kill the mutants of which files. */
export function openCourt ({ past, budgetMs, clock }: CourtOptions): Court {
  const folder = mkdtempSync(join(tmpdir(), 'mutant-'))
  const odds = createOdds(past)
  const idle: WarmProcess[] = []
  /** Whether a test passes without a change, and without the tests before it. */
  const passing = new Map<string, boolean>()

  /** Gives a process for one run, and takes it back. */
  async function within<Result> (use: (warm: WarmProcess) => Promise<Result>, isFresh = false): Promise<Result> {
    const warm = (isFresh ? undefined : idle.pop()) ?? openWarmProcess(folder)
    try {
      return await use(warm)
    } finally {
      if (warm.isUsable) idle.push(warm)
      else warm.end()
    }
  }

  /** Runs a change. A failure counts only if the test that failed passes in the same process without the change. */
  async function run (candidate: Candidate, swap: Swap, isFresh = false): Promise<Run> {
    const { file, only, ms } = candidate
    const [result, isTrue] = await within(async warm => {
      const wasDirty = warm.isDirty
      const result = await warm.run(file, { swap, only, timeoutMs: limit(ms), clock })
      if (result.end === 'passed') return [result, true]
      if (result.end === 'timeout' || !warm.isUsable) return [result, !wasDirty]
      const isTrue = await passes(warm, candidate, result.inTest, wasDirty)
      // Some files must be the first in their process that loads a package, so the second run there says nothing about
      // them.
      return [result, isTrue || (isFresh && await within(other => runsAlone(other, candidate, result.inTest), true))]
    }, isFresh)
    if (isTrue) return result
    if (!isFresh) return run(candidate, swap, true)
    // The tests of the file need each other. Without the whole file nothing can be said.
    return only ? run({ ...candidate, only: undefined, ms: ms * 4 }, swap, true) : { ...result, end: 'passed' }
  }

  async function passes (
    warm: WarmProcess,
    candidate: Candidate,
    test: string | undefined,
    wasDirty: boolean
  ): Promise<boolean> {
    const key = [candidate.file, candidate.hash, test].join('\n')
    const known = passing.get(key)
    if (known !== undefined && !wasDirty) return known
    if (known !== undefined && msOf(candidate, test) > CHEAP_MS) return false
    const isPassed = await runsAlone(warm, candidate, test)
    if (isPassed || !wasDirty) passing.set(key, isPassed)
    return isPassed
  }

  /** Whether a test passes without a change. If it failed before any test, it is enough that the file loads. */
  async function runsAlone (warm: WarmProcess, candidate: Candidate, test: string | undefined): Promise<boolean> {
    const { end } = await warm.run(candidate.file, {
      only: test === undefined ? [] : [test],
      timeoutMs: limit(msOf(candidate, test)),
      clock
    })
    return end === 'passed'
  }

  /**
   * A kill counts only if the test fails with the change again. One that takes too long either time must also end
   * without it.
   */
  async function isKill (candidate: Candidate, swap: Swap, { end, inTest }: Run): Promise<boolean> {
    const isOne = inTest !== undefined && candidate.msOf[inTest] !== undefined
    const ms = isOne ? candidate.msOf[inTest]! : candidate.ms
    const start = { only: isOne ? [inTest] : candidate.only, timeoutMs: limit(ms), clock }
    const again = await within(warm => warm.run(candidate.file, { ...start, swap }))
    // Alone the test may see nothing: it may need those before it.
    if (again.end === 'passed') {
      return isOne && isKill({ ...candidate, msOf: {} }, swap, { end, inTest, ms, failure: undefined })
    }
    const isSlow = end === 'timeout' || again.end === 'timeout'
    return !isSlow || (await within(warm => warm.run(candidate.file, start), true)).end === 'passed'
  }

  return {
    async judge (mutant, program, candidates) {
      const named = { id: mutant.id, file: mutant.file, program: program.hash, tests: testsOf(candidates) }
      if (candidates.length === 0) return { ...named, end: 'unreached', runs: 0 }
      const swap = { file: mutant.file, source: mutate(program, mutant) }
      let spentMs = 0
      let runs = 0
      for (const candidate of odds.sort(mutant, candidates)) {
        if (runs > 2 && spentMs > budgetMs) break
        const result = await run(candidate, swap)
        const { end, failure, inTest, ms } = result
        runs++
        spentMs += ms
        const isDead = end !== 'passed' && await isKill(candidate, swap, result)
        odds.note(mutant.file, candidate.file, isDead)
        if (!isDead) continue
        return {
          ...named,
          end: end === 'failed' ? 'killed' : 'timeout',
          by: candidate.file,
          failure: shorten(`${inTest ?? ''}: ${failure ?? ''}`),
          runs,
          ms: spentMs
        }
      }
      return { ...named, end: 'survived', runs, ms: spentMs }
    },
    close () {
      for (const warm of idle) warm.end()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

/** One text for all the tests that can see a mutant, as they are now. */
export function testsOf (candidates: readonly Candidate[]): string {
  return hashOf(candidates.map(({ file, hash }) => file + hash).sort().join('\n'))
}

function msOf ({ msOf }: Candidate, test: string | undefined): number {
  return test === undefined ? 0 : msOf[test] ?? 0
}

/** Generous: the machine may have other things to do. */
function limit (ms: number): number {
  return 12_000 + 5 * ms
}
