import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { hashOf, type Mutant, type Program } from './mutants.ts'
import { runTestFile } from './trial.ts'

/** Git does not see it, and nothing is lost without it but time. */
const CACHE = 'node_modules/.cache/mutation'
const HOOK = pathToFileURL(resolve('test/mutation/hooks/reach.js')).href
/**
 * The right operand of these runs only sometimes. A change of the operator makes a difference even if it does not run.
 */
const SHORT_CIRCUITS: ReadonlySet<string> = new Set(['&&', '||', '??=', '?.'])
/** What runs while a file of tests loads, or in a process that a test starts: it belongs to all of its tests. */
const NO_TEST = ''

const SHORT_MS = 10_000

type Spans = readonly (readonly [start: number, end: number])[]
/** By test, then by source file. */
type Reached = Record<string, Record<string, Spans>>

/** What the tests of one file run of the sources. */
export interface Reach {
  readonly file: string
  /** Of the test file. */
  readonly hash: string
  /** Of each source file then. */
  readonly programs: Readonly<Record<string, string>>
  /** How long each test takes; under '' what comes before the first one. */
  readonly ms: Readonly<Record<string, number>>
  readonly reached: Reached
  /** It fails without any change, so it cannot be used. */
  readonly isBroken: boolean
}

/** A file of tests to be run, and which of its tests; all of them when left out. */
export interface Candidate {
  readonly file: string
  readonly only?: readonly string[] | undefined
  readonly args?: readonly string[]
  readonly ms: number
}

/** What is known about a file of tests, measured if it is not known or if the file has changed. */
export async function readReach (
  file: string,
  programHash: (file: string) => string | undefined,
  isFresh: boolean
): Promise<Reach> {
  const hash = hashOf(readFileSync(file, 'utf8'))
  const path = join(CACHE, 'reach', `${file.replaceAll('/', '+')}.json`)
  const known = readJson(path) as Reach | undefined
  const isStale = known && isFresh &&
    Object.entries(known.programs).some(([source, then]) => programHash(source) !== then)
  if (known?.hash === hash && !isStale && !known.isBroken) return known
  const reach = await measure(file, hash, programHash)
  mkdirSync(join(CACHE, 'reach'), { recursive: true })
  writeFileSync(path, JSON.stringify(reach))
  return reach
}

/** Runs a file of tests once, and notes what each of its tests runs. */
async function measure (
  file: string,
  hash: string,
  programHash: (file: string) => string | undefined
) {
  const folder = mkdtempSync(join(tmpdir(), 'reach-'))
  try {
    const isPassed = await runTestFile(file, {
      hook: HOOK,
      env: { REACH_INTO: folder, REACH_TEST: resolve(file) },
      timeoutMs: 600_000
    })
    const reached: Reached = {}
    const ms: Record<string, number> = {}
    for (const name of readdirSync(folder)) {
      const noted = readJson(join(folder, name)) as { reached: Reached, ms: Record<string, number> }
      for (const [test, time] of Object.entries(noted.ms)) ms[test] = Math.max(ms[test] ?? 0, time)
      for (const [test, files] of Object.entries(noted.reached)) {
        for (const [source, spans] of Object.entries(files)) {
          if (programHash(source)) (reached[test] ??= {})[source] = [...reached[test]?.[source] ?? [], ...spans]
        }
      }
    }
    const sources = new Set(Object.values(reached).flatMap(files => Object.keys(files)))
    const programs = Object.fromEntries([...sources].map(source => [source, programHash(source)!]))
    return { file, hash, programs, ms, reached, isBroken: !isPassed }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The tests of a file that run the place of a mutant, or undefined if none does. */
export function findCandidate (
  { file, programs, ms, reached, isBroken }: Reach,
  mutant: Mutant,
  program: Program
): Candidate | undefined {
  if (isBroken || programs[mutant.file] === undefined) return undefined
  // If the source has changed since, its places have moved: a test that ran anything of it may run this.
  const isSame = programs[mutant.file] === program.hash
  const place = SHORT_CIRCUITS.has(mutant.original) ? mutant.start - 1 : mutant.start
  const names = Object.keys(reached).filter(test => {
    const spans = reached[test]?.[mutant.file]
    return spans && (!isSame || spans.some(([start, end]) => start <= place && place < end))
  })
  if (names.length === 0) return undefined
  // What runs while a file loads, perhaps in the first test of many, matters most likely to the tests that run
  // something of it later.
  const users = Object.keys(reached).filter(test => test !== NO_TEST && reached[test]?.[mutant.file])
  const tests = mutant.isTop || names.includes(NO_TEST) ? users : names
  // Or to tests that only use its values: a short file is run as a whole.
  const isWhole = tests.length === 0 ||
    (mutant.isTop && Object.values(ms).reduce((sum, time) => sum + time, 0) <= SHORT_MS)
  const total = [NO_TEST, ...isWhole ? Object.keys(reached) : tests].reduce((sum, name) => sum + (ms[name] ?? 0), 0)
  return { file, only: isWhole ? undefined : tests, ms: total }
}

function readJson (path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}
