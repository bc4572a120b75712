import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'

/** Puts the clock that never goes back ahead of its time, until the end of the test. */
export function advanceClock (t: Test, ms: number): void {
  const { now } = performance
  performance.now = () => now.call(performance) + ms
  t.teardown(() => {
    performance.now = now
  })
}

/** A day of UTC, from today on: `2027-01-15`. */
export const dayIn = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)

/** Unix seconds, without their fraction. */
export const nowSeconds = (): number => Math.floor(Date.now() / 1000)

/** Waits while the minute is nearly over: the newest nonce would be another one in the middle of a test. */
export async function untilNonceStays (): Promise<void> {
  const leftMs = 60_000 - Date.now() % 60_000
  if (leftMs < 5000) await delay(leftMs)
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

/**
 * Keeps timers of so many milliseconds or more from running out, until the end of the test: work that is slow on a busy
 * machine then meets no deadline.
 */
export function stopTimers (t: Test, fromMs: number): void {
  const { setTimeout: set } = globalThis
  const put = (run: () => void, ms?: number, ...args: unknown[]) =>
    set(run, ms !== undefined && ms >= fromMs ? 2 ** 31 - 1 : ms, ...args as [])
  globalThis.setTimeout = Object.assign(put, set) as typeof set
  t.teardown(() => {
    globalThis.setTimeout = set
  })
}

/**
 * Stops the clock that never goes back, and holds the timers of exactly so many milliseconds, until the end of the
 * test. Returns what lets that time pass, or another one, and then runs them.
 */
export function holdTimers (t: Test, heldMs: number): (ms?: number) => void {
  const { setTimeout: set, clearTimeout: clear } = globalThis
  const advance = stopClock(t)
  const held = new Map<unknown, () => void>()
  const put = (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
    if (ms !== heldMs) return set(run, ms, ...args)
    const timer = set(() => {}, 2 ** 31 - 1)
    held.set(timer, () => run(...args))
    return timer
  }
  globalThis.setTimeout = Object.assign(put, set) as typeof set
  globalThis.clearTimeout = (timer) => {
    held.delete(timer)
    clear(timer)
  }
  t.teardown(() => {
    Object.assign(globalThis, { setTimeout: set, clearTimeout: clear })
  })
  return (ms = heldMs) => {
    advance(ms)
    for (const [timer, run] of [...held]) {
      globalThis.clearTimeout(timer as NodeJS.Timeout)
      run()
    }
  }
}

/** Stops the clock that never goes back, until the end of the test. Returns what moves it. */
export function stopClock (t: Test): (ms: number) => void {
  const { now } = performance
  // Whole: of fractions, three times 30 s is at times more than 90 s.
  let ms = Math.ceil(now.call(performance))
  performance.now = () => ms
  t.teardown(() => {
    performance.now = now
  })
  return by => {
    ms += by
  }
}

/** A clock that the test moves, and that runs the timers that come due on the way. */
export class Clock {
  /** Milliseconds. It is never set back. */
  at = Date.UTC(2030, 0, 1)
  /** By how much the wall clock was set back. */
  setBackMs = 0
  timers = new Set<{ due: number, callback: () => void }>()

  now = () => (this.at - this.setBackMs) / 1000

  steadyMs = () => this.at

  after = (delayMs: number, callback: () => void) => {
    const timer = { due: this.at + delayMs, callback }
    this.timers.add(timer)
    return () => this.timers.delete(timer)
  }

  advance (ms: number) {
    this.at += ms
    for (const timer of this.timers) {
      if (timer.due > this.at) continue
      this.timers.delete(timer)
      timer.callback()
    }
  }

  /** How long until the next timer. */
  get nextMs () {
    return Math.max(0, Math.min(...[...this.timers].map(({ due }) => due)) - this.at)
  }
}
