import type { Test } from 'tap'

/** Puts the clock that never goes back ahead of its time, until the end of the test. */
export function advanceClock (t: Test, ms: number): void {
  const { now } = performance
  performance.now = () => now.call(performance) + ms
  t.teardown(() => { performance.now = now })
}
