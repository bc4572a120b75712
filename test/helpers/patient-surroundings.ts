import type { StoreTimers } from '../../lib/replay/redis/redis-store.ts'

/** How many times longer than in service a record may take, so that no test depends on the speed of the machine. */
const PATIENCE = 20

/** The timers of a shared replay store for tests in which the server answers. What the store does again and again is not slower. */
export const patientTimers: StoreTimers = {
  nowMs: () => performance.now(),
  after (ms, run) {
    setTimeout(run, ms * PATIENCE).unref()
  },
  every (ms, run) {
    const timer = setInterval(run, ms).unref()
    return () => clearInterval(timer)
  }
}
