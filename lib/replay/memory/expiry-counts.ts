/** Counters for single seconds: 36 hours. Half of them lie ahead, so the horizon can go back by the other half. */
const NEAR = 2 ** 17
/** Seconds are Uint32 everywhere: until the year 2106. */
const LAST_SECOND = 2 ** 32 - NEAR

/**
 * Counts the live records by the second in which they die, without looking at each of them. Two arrays of fixed size serve any
 * window. Each second less than 18 hours away has its own counter. Later seconds are rounded up to a multiple of 36 hours. Such
 * multiples are always counted in the second array, so a second by itself shows where it was counted.
 */
export function createExpiryCounts (start: number) {
  const near = new Uint32Array(NEAR)
  const far = new Uint32Array(2 ** 32 / NEAR)
  let live = 0
  let horizon = start
  let highest = start
  let lastDeath = 0

  function advance (last: number): void {
    const before = live
    for (let s = Math.max(horizon + 1, last - NEAR + 1); s <= last; s++) {
      live -= near[s % NEAR]!
      near[s % NEAR] = 0
    }
    for (let f = Math.floor(horizon / NEAR) + 1; f <= last / NEAR; f++) {
      live -= far[f]!
      far[f] = 0
    }
    if (live !== before) lastDeath = last
    horizon = last
    highest = Math.max(highest, last)
  }

  return {
    /** The number of records whose second is after the horizon. */
    get live () { return live },
    /** A record is dead if its second is not after the horizon. The horizon never goes back before a second in which a record died. */
    get horizon () { return horizon },
    /** The second under which a record that must outlast `second` is counted: the same second, or a later one if it is far away. */
    round: (second: number): number => second - horizon < NEAR / 2 ? second : Math.min(Math.ceil(second / NEAR) * NEAR, LAST_SECOND),
    /** Counts a record. `second` comes from `round` and is after the horizon. */
    add (second: number): void {
      live++
      if (second % NEAR === 0) far[second / NEAR]!++
      else near[second % NEAR]!++
    },
    /** Takes back one `add` of the same second. */
    remove (second: number): void {
      live--
      if (second % NEAR === 0) far[second / NEAR]!--
      else near[second % NEAR]!--
    },
    /** Moves the horizon to `second`. It moves back only as far as no record has died. It looks at each counter at most once. */
    moveTo (second: number): void {
      if (second > horizon) advance(Math.min(second, LAST_SECOND - 1))
      // If the horizon went back further, one counter would stand for two seconds.
      else if (highest - second < NEAR / 2) horizon = Math.max(second, lastDeath)
    }
  }
}

/**
 * Counts the records of one key by the second in which they die. The count is exact and takes little memory for few records.
 * Seconds are Unix time.
 */
export class SecondCounts {
  /** The number of records that are live at the second last given to `moveTo`. */
  live = 0
  /** The last second in which a record dies. */
  latest = 0
  #horizon: number
  readonly #counts = new Map<number, number>()

  constructor (horizon: number) {
    this.#horizon = horizon
  }

  add (second: number): void {
    this.live++
    if (second > this.latest) this.latest = second
    if (second <= this.#horizon) this.#horizon = second - 1
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1)
  }

  /** Takes back one `add` of a second after the horizon. */
  remove (second: number): void {
    this.live--
    this.#counts.set(second, this.#counts.get(second)! - 1)
  }

  /**
   * Forgets the records that die up to `horizon`. It looks at no more seconds than have passed, and at no more seconds than there
   * are records.
   */
  moveTo (horizon: number): void {
    if (horizon - this.#horizon > this.#counts.size) {
      for (const second of this.#counts.keys()) if (second <= horizon) this.#forget(second)
    } else {
      for (let second = this.#horizon + 1; second <= horizon; second++) this.#forget(second)
    }
    this.#horizon = horizon
  }

  #forget (second: number): void {
    this.live -= this.#counts.get(second) ?? 0
    this.#counts.delete(second)
  }
}
