/**
 * What decisions take from the process: clocks, random numbers and timers. They are passed in everywhere, so that a test may have
 * others; `server/` has those of the process.
 */
export interface Surroundings {
  /** Milliseconds since the epoch, by a clock that may be set. */
  readonly wallMs: () => number
  /** Milliseconds from any start, never set back. */
  readonly steadyMs: () => number
  /** At least 0, less than 1. */
  readonly random: () => number
  readonly randomBytes: (size: number) => Buffer
  /** Runs `run` once, later; returns what cancels it. The timer does not keep the process alive. */
  readonly after: (ms: number, run: () => void) => () => void
  /** Runs `run` again and again; returns what ends it. The timer does not keep the process alive. */
  readonly every: (ms: number, run: () => void) => () => void
}
