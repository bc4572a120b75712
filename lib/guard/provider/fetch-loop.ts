import type { Surroundings } from '../../base/surroundings.ts'
import { ProviderFailure, type ProviderFailureWord } from './provider-failure.ts'

const MINUTE_MS = 60_000
const FIRST_STEP_MS = 2000
export const LONGEST_BACK_OFF_MS = 60_000

/**
 * The time until the next refresh: 8 to 9.5 minutes, so that even a slow fetch ends before keys are 10 minutes old.
 * `random` is in [0, 1).
 */
export function refreshAfterMs (random: number): number {
  return 8 * MINUTE_MS + random * 1.5 * MINUTE_MS
}

/** The wait after failures in a row: steps of 2, 4, 8 ... 60 s, each shortened by up to half. `random` is in [0, 1). */
export function backOffMs (failures: number, random: number): number {
  const stepMs = Math.min(LONGEST_BACK_OFF_MS, FIRST_STEP_MS * 2 ** (failures - 1))
  return stepMs * (1 - random / 2)
}

interface FetchLoopOptions<Fetched> extends Pick<Surroundings, 'steadyMs' | 'after' | 'random'> {
  /**
   * Rejects with ProviderFailure. Any other error counts as `unexpected`. The signal aborts when the loop is closed.
   */
  readonly attempt: (signal: AbortSignal) => Promise<Fetched>
  /** `previous`: why the attempt before failed, or undefined if it did not fail. */
  readonly onSuccess: (fetched: Fetched, previous: ProviderFailureWord | undefined) => void
  readonly onFailure: (
    failure: ProviderFailure,
    previous: ProviderFailureWord | undefined,
    error: Error
  ) => void
  /**
   * Milliseconds from the end of an attempt to the next one. `fetched` is undefined after a failure. Where nothing is
   * given: those of `refreshAfterMs` and `backOffMs`.
   */
  readonly pauseMs?: (fetched: Fetched | undefined) => number | undefined
}

/**
 * Fetches again and again, one attempt at a time, from the first `run` on. The end of an attempt plans the next one.
 */
export function createFetchLoop<Fetched> (
  { attempt, onSuccess, onFailure, pauseMs, steadyMs, after, random }: FetchLoopOptions<Fetched>
) {
  const closing = new AbortController()
  let cancelNext = () => {}
  let failuresInRow = 0
  const loop = {
    get closed (): boolean {
      return closing.signal.aborted
    },
    /** The attempt that is running. It never rejects. */
    running: undefined as Promise<void> | undefined,
    /** Why the last attempt failed, or undefined if it did not fail. */
    lastFailure: undefined as ProviderFailureWord | undefined,
    /** The numbers of attempts begun and failed since the start. */
    fetches: 0,
    failures: 0,
    /** When the next attempt is due, by the clock that is never set back. */
    nextAtMs: 0,
    run,
    close
  }

  /** Starts an attempt now instead of the planned one, unless an attempt is running. */
  function run () {
    if (loop.running !== undefined || loop.closed) return
    cancelNext()
    loop.fetches++
    loop.running = fetchOnce().finally(() => {
      loop.running = undefined
    })
  }

  async function fetchOnce () {
    const previous = loop.lastFailure
    try {
      const fetched = await attempt(closing.signal)
      if (loop.closed) return
      loop.lastFailure = undefined
      failuresInRow = 0
      plan(fetched)
      onSuccess(fetched, previous)
    } catch (error) {
      if (loop.closed) return
      // No fault may end the loop. Requests may only see that keys are unavailable.
      const failure = error instanceof ProviderFailure
        ? error
        : new ProviderFailure('unexpected', (error as Error).name)
      loop.lastFailure = failure.word
      loop.failures++
      failuresInRow++
      plan()
      onFailure(failure, previous, error as Error)
    }
  }

  function plan (fetched?: Fetched) {
    cancelNext()
    const delayMs = pauseMs?.(fetched) ??
      (failuresInRow === 0 ? refreshAfterMs(random()) : backOffMs(failuresInRow, random()))
    loop.nextAtMs = steadyMs() + delayMs
    cancelNext = after(delayMs, run)
  }

  async function close () {
    closing.abort()
    cancelNext()
    await loop.running
  }

  return loop as Readonly<typeof loop>
}
