import type { Random } from '../../../test/fuzz/random.ts'

/** A fault as the plan sees it. */
export interface Planned {
  name: string
  lastsMs: readonly [least: number, most: number]
}

export interface Step<F extends Planned> {
  fault: F
  /** From the end of the step before, when all has recovered. */
  pauseMs: number
  lastsMs: number
  /** Any number: chooses what the fault hits, if it can hit several. */
  choice: number
}

const SHORTEST_PAUSE_MS = 300
const LONGEST_PAUSE_MS = 1500

/**
 * An endless sequence of faults that follows only from the random numbers: all faults in some order, then all in
 * another one.
 */
export function * plan<F extends Planned> (faults: readonly F[], random: Random): Generator<Step<F>, never> {
  while (true) {
    const left = [...faults]
    while (left.length > 0) {
      const [fault] = left.splice(random.below(left.length), 1) as [F]
      const [least, most] = fault.lastsMs
      yield {
        fault,
        pauseMs: SHORTEST_PAUSE_MS + random.below(LONGEST_PAUSE_MS - SHORTEST_PAUSE_MS),
        lastsMs: least + random.below(most - least + 1),
        choice: random.below(1 << 16)
      }
    }
  }
}
