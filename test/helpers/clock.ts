import type { Test } from 'tap'

/** Puts the clock that never goes back ahead of its time, until the end of the test. */
export function advanceClock (t: Test, ms: number): void {
  const { now } = performance
  performance.now = () => now.call(performance) + ms
  t.teardown(() => { performance.now = now })
}

/** Does the work with the wall clock moved by so many seconds. All that runs in this process sees it. */
export async function atAnotherTime<T> (skewSeconds: number, work: () => Promise<T>): Promise<T> {
  const { now } = Date
  Date.now = () => now() + skewSeconds * 1000
  try {
    return await work()
  } finally {
    Date.now = now
  }
}

/** Does the work with the wall clock stopped, so that everything is judged at one moment. */
export async function atOneTime<T> (work: () => Promise<T>): Promise<T> {
  const { now } = Date
  const stopped = now()
  Date.now = () => stopped
  try {
    return await work()
  } finally {
    Date.now = now
  }
}

/**
 * Keeps timers of so many milliseconds or more from running out, until the end of the test: work that is slow on a busy machine then
 * meets no deadline.
 */
export function stopTimers (t: Test, fromMs: number): void {
  const { setTimeout: set } = globalThis
  const put = (run: () => void, ms?: number, ...args: unknown[]): NodeJS.Timeout => set(run, ms !== undefined && ms >= fromMs ? 2 ** 31 - 1 : ms, ...args as [])
  globalThis.setTimeout = Object.assign(put, set) as typeof set
  t.teardown(() => { globalThis.setTimeout = set })
}

/** Stops the clock that never goes back, until the end of the test. Returns what moves it. */
export function stopClock (t: Test): (ms: number) => void {
  const { now } = performance
  let ms = now.call(performance)
  performance.now = () => ms
  t.teardown(() => { performance.now = now })
  return by => { ms += by }
}
