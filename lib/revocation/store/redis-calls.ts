import type { RedisCall } from '../../redis/redis-link.ts'
import type { View } from '../view.ts'
import type { StoreClock } from './clock.ts'
import { readRecord, writeRecord } from './record.ts'
import type { MergeMode } from './record.ts'
import { CHANGES, INSTANCES, MERGE, READ, RECORDS, REMOVE, RESTORING, STATE } from './scripts.ts'

/** What is merged: how, where, and the record as it is written. */
export type Given = readonly [mode: MergeMode, key: string, text: string]

export type RedisCalls = ReturnType<typeof createRedisCalls>

/**
 * The calls of one instance. Each has a number, which the store keeps, and they are made one by one: so the store has
 * all that this instance has heard from it, unless it has forgotten the number of a call that it has answered.
 */
export function createRedisCalls (
  { view, clock, instance, randomText }: {
    readonly view: View,
    readonly clock: StoreClock,
    readonly instance: string,
    readonly randomText: () => string
  }
) {
  let turn: Promise<unknown> = Promise.resolve()
  /** The number of the last call, and of the last one that was answered. */
  let calls = 0
  let answered = -1
  let count = ''
  /** Up to where the changes were read. `$`: the next read finds that out. */
  let place = '$'

  function inTurn<Value> (work: () => Promise<Value>): Promise<Value> {
    const done = turn.then(work)
    turn = done.catch(() => {})
    return done
  }

  /** A record of this store as others have it, and the reverse. */
  function shift (text: string, offset: number): string {
    const record = offset === 0 ? undefined : readRecord(text, offset)
    return record ? writeRecord(record) : text
  }

  function take (key: string, text: string, isWhole: boolean, number = calls): void {
    view.take(key, shift(text, clock.offsetOf(count)), number, isWhole)
  }

  return {
    /** Reads the changes from the place on. */
    read: (call: RedisCall, limit: number, isRestored = false) =>
      inTurn(async () => {
        const [given, ms, epoch, floor, known, knownPlace, isWaited, last, hasMore, ...news] = await call(
          'eval',
          READ,
          4,
          STATE,
          INSTANCES,
          RESTORING,
          CHANGES,
          instance,
          answered,
          ++calls,
          count,
          clock.offer(count),
          randomText(),
          place,
          limit,
          isRestored ? 'restored' : ''
        ) as [string, string, string, string, number, string, number, string, number, ...string[]]
        count = given
        clock.see(count, Number(ms))
        const isLost = known < answered
        answered = known
        if (isLost) view.lose(known)
        // Others have read on, and what this instance has missed is gone.
        const isBehind = !isLost && place !== '$' && isBefore(place, floor)
        // What was written instead of what was lost stands behind the place that the store knows.
        place = isLost ? knownPlace || '0-0' : isBehind ? '$' : last
        for (let n = 0; n < news.length; n += 2) take(news[n]!, news[n + 1]!, false)
        return { epoch, isLost, isBehind, isWaited: isWaited === 1, isWhole: hasMore === 0 }
      }),
    /**
     * Merges records, and applies what stands then. Returns the number of rows that the store keeps. Undefined if
     * this instance does not know yet what the store has lost.
     * @param restoring milliseconds for which others wait for this instance
     */
    merge: (call: RedisCall, given: readonly Given[], restoring?: number): Promise<number | undefined> =>
      inTurn(async () => {
        const offset = clock.offsetOf(count)
        const sent: string[] = []
        for (const [mode, key, text] of given) sent.push(mode, key, shift(text, -offset))
        const [length, passed, ...others] = await call(
          'eval',
          MERGE,
          5,
          STATE,
          INSTANCES,
          RESTORING,
          CHANGES,
          RECORDS,
          instance,
          answered,
          ++calls,
          count,
          clock.offer(count),
          randomText(),
          restoring ?? '',
          place,
          ...sent
        ) as [length: number | undefined, passed: string, ...others: Array<string | number>]
        if (length === undefined) return undefined
        answered = calls
        // Nobody else has written since this instance has read.
        if (passed !== '' && place !== '$') place = passed
        const stand = new Map<number, string>()
        for (let n = 0; n < others.length; n += 2) stand.set(others[n] as number, others[n + 1] as string)
        const known: string[] = []
        given.forEach(([mode, key, text], n) => {
          const other = stand.get(n)
          if (mode === 'restore' && other === undefined) known.push(key)
          else if (other === undefined) view.take(key, text, calls, true)
          else take(key, other, true)
        })
        view.said(known, calls)
        return length
      }),
    /** Reads a page of the records. */
    scan: (call: RedisCall, cursor: string, limit: number) =>
      inTurn(async () => {
        const [next, found] = await call('hscan', RECORDS, cursor, 'COUNT', limit) as [string, string[]]
        // The store has it if it has the next call.
        for (let n = 0; n < found.length; n += 2) take(found[n]!, found[n + 1]!, true, calls + 1)
        return { next, found }
      }),
    remove: (call: RedisCall, keys: readonly string[]) =>
      inTurn(() =>
        call('eval', REMOVE, 2, STATE, RECORDS, count, clock.offer(count), Math.floor(view.earliestNow()), ...keys)
      ),
    place: (): string => place,
    /** The seconds that are added to times of the store. */
    offset: (): number => clock.offsetOf(count)
  }
}

/** Orders ids of Redis, which are two numbers: `milliseconds-sequence`. */
const idOrder = new Intl.Collator('en', { numeric: true })

/** Whether one id stands before another. */
export function isBefore (id: string, other: string): boolean {
  return idOrder.compare(id, other) < 0
}
