/** A clock that is ahead by fewer seconds than this has drifted, not leapt. */
const DRIFT = 1

/**
 * Says which seconds have certainly passed. The wall clock may be set forwards and backwards.
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

/**
 * Counts records by the second in which they expire, without looking at each of them. The count is exact, and takes memory only for
 * seconds that have records. Seconds are Unix time.
 */
export class ExpiryCounts {
  /** The number of records that are live at the horizon. */
  live = 0
  /** The last second in which a record expires. */
  latest = 0
  /** A record has expired if its second is not after the horizon. */
  horizon: number
  readonly #counts = new Map<number, number>()

  constructor (horizon: number) {
    this.horizon = horizon
  }

  /** A record of a second before the horizon, as after a clock has gone back, is live until the next move. */
  add (second: number): void {
    this.live++
    if (second > this.latest) this.latest = second
    if (second <= this.horizon) this.horizon = second - 1
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1)
  }

  /** Takes back one `add` of a second after the horizon. */
  remove (second: number): void {
    this.live--
    this.#counts.set(second, this.#counts.get(second)! - 1)
  }

  /**
   * Forgets the records that have expired at `horizon`. It looks at no more seconds than have passed, and at no more than there are
   * counts.
   */
  moveTo (horizon: number): void {
    if (horizon - this.horizon > this.#counts.size) {
      for (const second of this.#counts.keys()) if (second <= horizon) this.#forget(second)
    } else {
      for (let second = this.horizon + 1; second <= horizon; second++) this.#forget(second)
    }
    this.horizon = horizon
  }

  #forget (second: number): void {
    this.live -= this.#counts.get(second) ?? 0
    this.#counts.delete(second)
  }
}
