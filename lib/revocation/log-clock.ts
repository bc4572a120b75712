import type { Surroundings } from '../surroundings.ts'

export type LogClock = ReturnType<typeof createLogClock>

/**
 * The clock of a log: milliseconds that have passed for it, by the steady clocks of the instances that run. Each of
 * them takes it on from the value that it has seen, by the time that has passed there since. So it may stand still, and
 * it never runs faster than time, whatever is done to the clocks of instances or of the store. Where it begins says
 * nothing: only differences count.
 */
export function createLogClock ({ steadyMs }: Pick<Surroundings, 'steadyMs'>) {
  /** The value that was seen last, as the store has it. Empty until then. */
  let seen = ''
  let seenAtMs = steadyMs()
  const readMs = (): number => Number(seen) + steadyMs() - seenAtMs

  return {
    /** After all times until a value was seen: what is written before must not look older than it is. */
    nowMs: (): number => seen === '' ? Number.MAX_SAFE_INTEGER : readMs(),
    /** The value that was seen, and what the clock shows now. */
    offer: (): readonly [seen: string, nowMs: string] => [seen, String(Math.floor(readMs()))],
    see (value: string): void {
      if (value === seen) return
      seen = value
      seenAtMs = steadyMs()
    }
  }
}
