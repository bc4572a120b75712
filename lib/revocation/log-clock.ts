import type { Surroundings } from '../surroundings.ts'

export type LogClock = ReturnType<typeof createLogClock>

/**
 * The clock of a log: milliseconds that have passed for it, by the steady clocks of the instances that run. Each of
 * them takes it on from the value that it has seen, by the time that has passed there since. So it may stand still, and
 * it never runs faster than time, whatever is done to the clocks of instances or of the store.
 */
export function createLogClock ({ now, steadyMs }: Pick<Surroundings, 'now' | 'steadyMs'>) {
  /** The value that was seen last, as the store has it. Empty until then. */
  let seen = ''
  let seenAtMs = 0
  /** What this instance has taken it to, and when. */
  let offered = ''
  let offeredAtMs = 0

  function readMs (): number {
    return seen === '' ? now() * 1000 : Number(seen) + steadyMs() - seenAtMs
  }

  return {
    nowMs: readMs,
    /** The value that was seen, and what the clock shows now. */
    offer (): readonly [seen: string, nowMs: string] {
      offered = String(Math.floor(readMs()))
      offeredAtMs = steadyMs()
      return [seen, offered]
    },
    see (value: string): void {
      if (value === seen) return
      seenAtMs = value === offered ? offeredAtMs : steadyMs()
      seen = value
    }
  }
}
