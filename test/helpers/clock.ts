import type { Test } from 'tap'

/** Puts the clock that never goes back ahead of its time, until the end of the test. */
export function advanceClock (t: Test, ms: number): void {
  const { now } = performance
  performance.now = () => now.call(performance) + ms
  t.teardown(() => { performance.now = now })
}

/** Does the work with the clock that tells the time moved by so many seconds. All that runs in this process sees it. */
export async function atAnotherTime<T> (skewSeconds: number, work: () => Promise<T>): Promise<T> {
  const { now } = Date
  Date.now = () => now() + skewSeconds * 1000
  try {
    return await work()
  } finally {
    Date.now = now
  }
}
