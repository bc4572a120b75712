import type { Surroundings } from '../../base/surroundings.ts'

export type StoreClock = ReturnType<typeof createStoreClock>

/** The clock of another instance may be ahead of ours by so much. */
const AHEAD_MS = 50
/** A system's clock that has moved by more was set, and after so long it was set right. */
const SET_MS = 60_000
const SETTLED_MS = 3_600_000

/**
 * The clock of a store, as this instance counts it on: seconds that have passed while any instance ran, by their steady
 * clocks. No clock that can be set takes part. Each store that was emptied begins another count, by a name of its own;
 * what this instance holds keeps its age, and one count never stands where another instance has seen it later.
 */
export function createStoreClock ({ now, steadyMs }: Pick<Surroundings, 'now' | 'steadyMs'>) {
  /** What is added to our steady clock. */
  let shiftMs = now() * 1000 - steadyMs()
  /** Seconds that are added to each count, for times as this instance has them. */
  const offsets = new Map<string, number>()

  /** What clocks that can be set showed first, less our steady clock: the system's, and the store's with its last. */
  let systemMs = shiftMs
  let firstStoreMs = NaN
  let storeMs = NaN
  /** Since when the system's clock shows something else than it would, by our steady clock. */
  let setMs: number | undefined

  /** Our clock at the last call. They are made one by one. */
  let offeredMs = 0
  const readMs = () => steadyMs() + shiftMs
  const offsetOf = (count: string) => offsets.get(count) ?? 0

  return {
    seconds: () => readMs() / 1000,
    offsetOf,
    /** What the clock shows by a count. */
    offer (count: string): number {
      offeredMs = readMs()
      return Math.floor(offeredMs - offsetOf(count) * 1000)
    },
    /**
     * Unix seconds: the middle of the system's clock, the same as it was at start and counted on, and the store's. One
     * of them may leap, or have been wrong at start. Without a store it is the lower one, until the system's clock has
     * stayed as it was set for an hour. So it is if the store's was set too: both may be that of one machine.
     */
    agreedNow (): number {
      const [nowMs, ownMs] = [now() * 1000, steadyMs()]
      const isStoreSteady = Math.abs(storeMs - firstStoreMs) <= SET_MS
      const isSet = !isStoreSteady && Math.abs(nowMs - ownMs - systemMs) > SET_MS
      setMs = isSet ? setMs ?? ownMs : undefined
      if (setMs !== undefined && ownMs - setMs >= SETTLED_MS) {
        systemMs = nowMs - ownMs
        firstStoreMs = storeMs
      }
      const shown = [nowMs, systemMs + ownMs, isStoreSteady ? storeMs + ownMs : -Infinity]
      return shown.sort((a, b) => a - b)[1]! / 1000
    },
    /** Takes what the store has. @param unixMs the store's own time */
    see (count: string, ms: number, unixMs: number) {
      storeMs = unixMs - steadyMs()
      const offset = offsets.get(count)
      if (offsets.size === 0) {
        shiftMs = ms - steadyMs()
        firstStoreMs = storeMs
        offsets.set(count, 0)
      } else if (offset === undefined) {
        const differenceMs = offeredMs - ms
        const seconds = Math.floor((differenceMs + AHEAD_MS) / 1000)
        // Rather a moment late than early.
        shiftMs -= differenceMs - seconds * 1000
        offsets.set(count, seconds)
      } else shiftMs += Math.max(0, ms + offset * 1000 - readMs())
    }
  }
}
