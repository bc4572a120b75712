/** Counts the records of one key by the second in which they die: exact, and small when there are few. Seconds are Unix time. */
export class SecondCounts {
  /** Records that are live as far as `moveTo` was told. */
  live = 0
  /** The last second in which any of them dies. */
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

  /** Forgets what dies up to `horizon`. Looks at no more seconds than have passed, or than there are records. */
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
