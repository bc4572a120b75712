import { randomBytes } from 'node:crypto'
import type { Surroundings } from '../lib/surroundings.ts'

/** The clocks, random numbers and timers of this process. */
export const processSurroundings: Surroundings = {
  wallMs: () => Date.now(),
  steadyMs: () => performance.now(),
  random: () => Math.random(),
  randomBytes,
  after (ms, run) {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
  every (ms, run) {
    const timer = setInterval(run, ms).unref()
    return () => clearInterval(timer)
  }
}
