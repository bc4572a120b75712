import type { Surroundings } from '../surroundings.ts'
import { isBefore } from './redis-entries.ts'

/** Before the first entry. */
export const START = '0-0'

/** Places that are remembered, to find out how much a server has lost. */
const MAX_CHECKPOINTS = 128

export type LogPlace = ReturnType<typeof createLogPlace>

/** Up to which entry a process has read the log, and how many entries it has read or written again so far. */
export function createLogPlace () {
  let id = START
  let count = 0
  /** Earlier values of the two, the newest last. */
  let checkpoints: Array<readonly [id: string, count: number]> = []
  /** Called when the place is another. */
  const waiting = new Set<() => void>()

  return {
    id: (): string => id,
    count: (): number => count,
    next: (): number => ++count,
    moveTo (to: string): void {
      if (to === id) return
      id = to
      checkpoints.push([id, count])
      // The older, the fewer are needed.
      if (checkpoints.length > MAX_CHECKPOINTS) {
        checkpoints = checkpoints.filter((_, index) => index % 2 === 0 || index > MAX_CHECKPOINTS / 2)
      }
      for (const look of waiting) look()
    },
    /** Earlier ids, the newest first. */
    earlier: (): readonly string[] => checkpoints.map(([id]) => id).reverse(),
    /**
     * Goes back to one of the earlier ids: `1` is the newest, `0` the start of the log.
     * @returns the count there, -1 at the start
     */
    goBack (to: number): number {
      const [common = START, at = -1] = (to === 0 ? undefined : checkpoints.at(-to)) ?? []
      checkpoints = to === 0 ? [] : checkpoints.slice(0, checkpoints.length - to + 1)
      id = common
      return at
    },
    /**
     * Resolves with true when the process has read up to an id.
     * @param inTime ends the wait
     */
    async reaches (
      wanted: string,
      inTime: (isReached: Promise<true>) => Promise<true | undefined>
    ): Promise<true | undefined> {
      let look!: () => void
      const isReached = await inTime(
        new Promise<true>(resolve => {
          look = () => {
            if (!isBefore(id, wanted)) resolve(true)
          }
          waiting.add(look)
          look()
        })
      )
      waiting.delete(look)
      return isReached
    }
  }
}

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
