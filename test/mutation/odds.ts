import type { Verdict } from './journal.ts'
import type { Candidate } from './reach.ts'

export interface Odds {
  /** The files of tests in the order in which they kill soonest, by what is known. */
  sort (source: string, candidates: readonly Candidate[]): Candidate[]
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

  const cost = (source: string, { file, ms }: Candidate): number => {
    const { kills, runs } = counts.get(`${source} ${file}`) ?? { kills: 0, runs: 0 }
    const [folder, name] = source.replace('.ts', '').split('/').slice(-2)
    // A test beside the source by its name is likelier to see.
    const near = file.includes(`/${name}.`) || file.includes(`/${name}s.`) ? 20 : file.includes(`/${folder}/`) ? 2 : 0.3
    return (ms + 300) * (runs + 2) / (kills + near)
  }

  return {
    note,
    sort: (source, candidates) => [...candidates].sort((a, b) => cost(source, a) - cost(source, b))
  }
}
