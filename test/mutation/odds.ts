import { readFileSync } from 'node:fs'
import type { Verdict } from './journal.ts'
import type { Mutant } from './mutants.ts'
import type { Candidate } from './reach.ts'

export interface Odds {
  /** The files of tests in the order in which they kill soonest, by what is known. */
  sort (mutant: Pick<Mutant, 'file' | 'line'>, candidates: readonly Candidate[]): Candidate[]
  note (source: string, test: string, isKill: boolean): void
}

/** Remembers how often a file of tests kills mutants of a source file. */
export function createOdds (past: readonly Verdict[]): Odds {
  const counts = new Map<string, { kills: number, runs: number }>()
  const note = (source: string, test: string, isKill: boolean): void => {
    const key = `${source} ${test}`
    const { kills, runs } = counts.get(key) ?? { kills: 0, runs: 0 }
    counts.set(key, { kills: kills + Number(isKill), runs: runs + 1 })
  }
  for (const { file, by } of past) if (by) note(file, by, true)

  const cost = (source: string, { file, ms }: Candidate, shared: number): number => {
    const { kills, runs } = counts.get(`${source} ${file}`) ?? { kills: 0, runs: 0 }
    const [folder, name] = source.replace('.ts', '').split('/').slice(-2)
    // A test beside the source by its name is likelier to see.
    const near = file.includes(`/${name}.`) || file.includes(`/${name}s.`)
      ? 20
      : file.includes(`/${folder}/`) || file.includes(`/${folder}.`)
        ? 2
        : 0.3
    return (ms + 300) * (runs + 2) / (kills + near + shared)
  }

  return {
    note,
    sort ({ file, line }, candidates) {
      const shared = sharedWords(line, candidates)
      const costs = new Map(candidates.map((candidate, index) => [candidate, cost(file, candidate, shared[index]!)]))
      return [...candidates].sort((a, b) => costs.get(a)! - costs.get(b)!)
    }
  }
}

/** How much of the words of a line each file of tests has. A word that few of them have counts most. */
function sharedWords (line: string, candidates: readonly Candidate[]): number[] {
  const texts = candidates.map(({ file }) => readText(file))
  const found = [...new Set(line.match(/\w{5,}/g))].map(word => texts.map(text => text.includes(word)))
  return texts.map((_, index) =>
    found.reduce((sum, has) => sum + (has[index] ? 20 / has.filter(Boolean).length : 0), 0)
  )
}

const textOf = new Map<string, string>()
function readText (file: string): string {
  const text = textOf.get(file) ?? readFileSync(file, 'utf8')
  textOf.set(file, text)
  return text
}
