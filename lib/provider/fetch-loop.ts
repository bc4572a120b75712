import { ProviderFailure } from './provider-failure.ts'
import type { ProviderFailureWord } from './provider-failure.ts'
import type { Exchange, Transport } from './transport.ts'

const MINUTE_MS = 60_000
const FIRST_STEP_MS = 2000
export const LONGEST_BACK_OFF_MS = 60_000

/** 8 to 9.5 minutes: keys are refreshed before they are 10 minutes old, a slow fetch included. `random` is in [0, 1). */
export function refreshAfterMs (random: number): number {
  return 8 * MINUTE_MS + random * 1.5 * MINUTE_MS
}

/** The wait after so many failures in a row: steps of 2, 4, 8 ... 60 s, each cut by up to half, so 1 to 60 s. `random` is in [0, 1). */
export function backOffMs (failures: number, random: number): number {
  const stepMs = Math.min(LONGEST_BACK_OFF_MS, FIRST_STEP_MS * 2 ** (failures - 1))
  return stepMs * (1 - random / 2)
}

export interface FetchLoopOptions<Fetched> {
  readonly transport: Transport
  readonly attempt: (exchange: Exchange) => Promise<Fetched>
  readonly onSuccess: (fetched: Fetched, afterFailure: boolean) => void
  readonly onFailure: (failure: ProviderFailure, afterFailure: boolean) => void
  readonly now: () => number
  readonly random: () => number
  /** Runs `callback` once, later; returns what cancels it. */
  readonly schedule: (callback: () => void, delayMs: number) => () => void
}

/** Fetches again and again, one at a time, each attempt planned when the one before has ended. */
export interface FetchLoop {
  /** The attempt under way. Never rejects. */
  readonly running: Promise<void> | undefined
  readonly closed: boolean
  /** Why the last attempt failed; undefined when it did not. */
  readonly lastFailure: ProviderFailureWord | undefined
  /** Attempts begun and attempts failed since the start. */
  readonly fetches: number
  readonly failures: number
  /** When the next attempt is due. */
  readonly nextAt: number
  /** Starts an attempt now in the place of the planned one, unless one is under way. */
  run (): void
  close (): Promise<void>
}

/** The loop stands until its first `run`. After a success the next attempt follows in 8 to 9.5 minutes, after a failure by back-off. */
export function createFetchLoop<Fetched> (options: FetchLoopOptions<Fetched>): FetchLoop {
  const { transport, attempt, onSuccess, onFailure, now, random, schedule } = options
  let cancelNext = (): void => {}
  let exchange: Exchange | undefined
  let failuresInRow = 0
  const loop = {
    running: undefined as Promise<void> | undefined,
    closed: false,
    lastFailure: undefined as ProviderFailureWord | undefined,
    fetches: 0,
    failures: 0,
    nextAt: 0,
    run,
    close
  }

  function run (): void {
    if (loop.running !== undefined || loop.closed) return
    cancelNext()
    loop.fetches++
    loop.running = fetchOnce().finally(() => { loop.running = undefined })
  }

  async function fetchOnce (): Promise<void> {
    try {
      exchange = transport.open()
      const fetched = await attempt(exchange)
      if (!loop.closed) succeed(fetched)
    } catch (error) {
      // Whatever goes wrong here must neither end the loop nor reach a request as anything but keys that are unavailable.
      if (!loop.closed) fail(error instanceof ProviderFailure ? error : new ProviderFailure('unexpected', (error as Error).name))
    } finally {
      exchange?.close()
    }
  }

  function succeed (fetched: Fetched): void {
    const afterFailure = loop.lastFailure !== undefined
    loop.lastFailure = undefined
    failuresInRow = 0
    plan(refreshAfterMs(random()))
    onSuccess(fetched, afterFailure)
  }

  function fail (failure: ProviderFailure): void {
    const afterFailure = loop.lastFailure !== undefined
    loop.lastFailure = failure.word
    loop.failures++
    failuresInRow++
    plan(backOffMs(failuresInRow, random()))
    onFailure(failure, afterFailure)
  }

  function plan (delayMs: number): void {
    cancelNext()
    loop.nextAt = now() + delayMs
    cancelNext = schedule(run, delayMs)
  }

  async function close (): Promise<void> {
    loop.closed = true
    cancelNext()
    exchange?.close()
    await loop.running
  }

  return loop
}
