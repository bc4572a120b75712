/** A clock that is ahead by less than this many seconds has drifted, not leapt. */
const DRIFT = 1

/** Tells a store which seconds have passed for good, by a wall clock that may be set forwards and backwards. */
export interface StoreClock {
  /**
   * Reads the clocks.
   *
   * @param window the longest time, in seconds, for which a record lives.
   * @returns the last second, in Unix time, whose records may be forgotten.
   */
  passed (window: number): number
  /** The Unix second of the wall clock at the last reading. */
  readonly wall: number
}

/**
 * A record may be forgotten only when its proof is refused for age, and that is judged by the wall clock. So a clock
 * that leaps forwards is not believed before the monotonic clock has run for one whole window: should it leap back by
 * then, nothing was forgotten.
 *
 * @param now Unix seconds.
 * @param monotonic seconds from any start, never set; left out where `now` itself never leaps.
 */
export function createStoreClock (now: () => number, monotonic: () => number = now): StoreClock {
  let wall = Math.floor(now())
  /** What the wall clock showed before it leapt, less the monotonic clock. */
  let offset = now() - monotonic()
  let leaptAt = Number.NaN

  return {
    get wall () { return wall },
    passed (window) {
      const time = now()
      const steady = monotonic()
      wall = Math.floor(time)
      if (time - steady > offset + DRIFT) {
        if (Number.isNaN(leaptAt)) leaptAt = steady
        if (steady - leaptAt < window) return Math.floor(offset + steady)
      }
      leaptAt = Number.NaN
      offset = time - steady
      return wall
    }
  }
}
