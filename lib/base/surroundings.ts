/**
 * What decisions need from the process: clocks, random numbers and timers. Callers pass them in, so that tests can pass
 * others. The ones of the process are in `server/`.
 */
export interface Surroundings {
  /** Unix seconds, may be fractional. The clock may be set. */
  readonly now: () => number
  /** Milliseconds from any start. The clock is never set back. */
  readonly steadyMs: () => number
  /** At least 0, less than 1. */
  readonly random: () => number
  readonly randomBytes: (size: number) => Buffer
  /** Runs `run` once, later. Returns the function that cancels it. The timer does not keep the process alive. */
  readonly after: (ms: number, run: () => void) => () => void
  /** Runs `run` again and again. Returns the function that ends it. The timer does not keep the process alive. */
  readonly every: (ms: number, run: () => void) => () => void
  /**
   * Reads a whole file of at most so many bytes. Rejects with an error that has a `code`, also if the path is not a
   * file.
   */
  readonly readFile: (path: string, maxBytes: number) => Promise<Uint8Array>
  /** A variable of the environment that the settings name, or undefined if it is not set. */
  readonly environment: (name: string) => string | undefined
}
