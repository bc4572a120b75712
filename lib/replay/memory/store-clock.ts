/** A clock that is ahead by fewer seconds than this has drifted, not leapt. */
const DRIFT = 1

/**
 * Tells a store which seconds have certainly passed. The wall clock may be set forwards and backwards.
 *
 * A record may be forgotten only if its proof is refused for its age, and the wall clock judges the age. So a clock that leaps
 * forwards counts only after the monotonic clock has run for one whole window. If the wall clock leaps back before that, nothing
 * was forgotten.
 *
 * @param now Unix seconds
 * @param monotonic seconds from any start, never set. It is left out if `now` itself never leaps.
 */
export function createStoreClock (now: () => number, monotonic: () => number = now) {
  let wall = Math.floor(now())
  /** The difference between wall clock and monotonic clock before the leap. */
  let offset = now() - monotonic()
  let leaptAt = Number.NaN

  return {
    /** The Unix second that the wall clock showed at the last reading. */
    get wall () { return wall },
    /** Reads the clocks. Returns the last Unix second whose records may be forgotten, if no record lives longer than `window` seconds. */
    passed (window: number): number {
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
