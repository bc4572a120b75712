import type { RedisCall } from '../../redis/redis-link.ts'
import type { View } from '../view.ts'
import type { StoreClock } from './clock.ts'
import { readRecord, writeRecord } from './record.ts'
import type { MergeMode, RevocationRecord } from './record.ts'
import { CHANGES, INSTANCES, MERGE, READ, RECORDS, REMOVE, RESTORING, STATE } from './scripts.ts'

/** What is merged: how, where, what. */
export type Given = readonly [mode: MergeMode, key: string, record: RevocationRecord]

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

  function inTurn<Value> (work: () => Promise<Value>): Promise<Value> {
    const done = turn.then(work)
    turn = done.catch(() => {})
    return done
  }

  function take (key: string, text: string, isWhole: boolean, number = calls): void {
    const record = readRecord(text, clock.offsetOf(count))
    if (record) view.take(key, record, number, isWhole)
  }

  return {
    inTurn,
    /** What this instance has not heard of, the store may have. @param place see `READ` */
    read: (call: RedisCall, place: string, limit: number, isRestored = false) =>
      inTurn(async () => {
        const [given, ms, epoch, floor, known, knownPlace, isWaited, last, read, ...news] = await call(
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
        for (let n = 0; n < news.length; n += 2) take(news[n]!, news[n + 1]!, false)
        return { count, epoch, floor, isLost, knownPlace, isWaited: isWaited === 1, last, isWhole: read < limit }
      }),
    /**
     * Merges records, and applies what stands then. Returns the number of changes that the store keeps. Undefined if
     * this instance does not know yet what the store has lost.
     * @param restoring milliseconds for which others wait for this instance
     */
    merge: (call: RedisCall, given: readonly Given[], restoring?: number): Promise<number | undefined> =>
      inTurn(async () => {
        const offset = clock.offsetOf(count)
        const texts = given.map(([, , record]) => writeRecord(record, offset))
        const [length, ...stand] = await call(
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
          ...given.flatMap(([mode, key], n) => [mode, key, texts[n]!])
        ) as [number | undefined, ...string[]]
        if (length === undefined) return undefined
        answered = calls
        stand.forEach((text, n) => {
          const [mode, key] = given[n]!
          if (text !== '' || mode !== 'restore') take(key, text || texts[n]!, true)
        })
        view.said(given.map(([, key]) => key), calls)
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
    /** The seconds that are added to times of the store. */
    offset: (): number => clock.offsetOf(count)
  }
}
