import type { RedisCall } from '../../guard/redis/redis-link.ts'
import type { View } from '../view.ts'
import type { StoreClock } from './clock.ts'
import { readRecord, writeRecord, type MergeMode } from './record.ts'
import { CHANGES, CLEAN, FORGET_MS, INSTANCES, MERGE, READ, RECORDS, RESTORING, RUN, STATE } from './scripts.ts'

/** Changes of one answer, and records merged at once. A step lets requests through, and the store serve others. */
const PAGE = 1000
/** Records that are read at once. */
const SCANNED = 3000

/** What is merged: how, where, and the record as it is written. */
type Given = readonly [mode: MergeMode, key: string, text: string]

/** The answer of `MERGE`. */
type Merged = [length: number | undefined, passed: string, ...others: Array<string | number>]

interface Sent {
  readonly given: readonly Given[]
  readonly number: number
  readonly answer: Promise<Merged>
}

export type RedisCalls = ReturnType<typeof createRedisCalls>

/**
 * The calls of one instance. Each has a number, which the store keeps, and they are made one by one: so the store has
 * all that this instance has heard from it, unless it has forgotten the number of a call that it has answered.
 */
export function createRedisCalls (
  { view, clock, instance, randomText }: {
    view: View,
    clock: StoreClock,
    instance: string,
    randomText: () => string
  }
) {
  let turn: Promise<unknown> = Promise.resolve()
  /** The number of the last call, and of the last one that was answered. */
  let calls = 0
  let answered = -1
  let count = ''
  /** When the store last answered a read, in seconds of its clock. */
  let readAt = 0
  /** The run of the server whose records are read. */
  let scanned = ''
  /** Up to where the changes were read. `$`: the next read finds that out. */
  let place = '$'
  /** The other instances at the last look, and when each has last said something. */
  let others: Array<readonly [instance: string, lastMs: number]> = []
  const nowMs = () => clock.seconds() * 1000

  function inTurn<Value> (work: () => Promise<Value>) {
    const done = turn.then(work)
    turn = done.catch(() => {})
    return done
  }

  /** A record of this store as others have it, and the reverse. */
  function shift (text: string, offset: number) {
    const record = offset === 0 ? undefined : readRecord(text, offset)
    return record ? writeRecord(record) : text
  }

  function take (key: string, text: string, isWhole: boolean, number = calls) {
    view.take(key, shift(text, clock.offsetOf(count)), number, isWhole)
  }

  function send (call: RedisCall, given: readonly Given[], restoring?: number): Sent {
    const offset = clock.offsetOf(count)
    const records: string[] = []
    for (const [mode, key, text] of given) records.push(mode, key, shift(text, -offset))
    const answer = call(
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
      ...records
    ) as Promise<Merged>
    // The one before it may fail first.
    answer.catch(() => {})
    return { given, number: calls, answer }
  }

  function takeMerged ({ given, number }: Sent, [length, passed, ...others]: Merged) {
    if (length === undefined) return undefined
    answered = number
    // Nobody else has written since this instance has read.
    if (passed !== '' && place !== '$') place = passed
    const stand = new Map<number, string>()
    for (let n = 0; n < others.length; n += 2) stand.set(others[n] as number, others[n + 1] as string)
    given.forEach(([mode, key, text], n) => {
      const other = stand.get(n)
      if (mode === 'restore' && other === undefined) view.backlog.confirm(key, number)
      else if (other === undefined) view.take(key, text, number, true)
      else take(key, other, true, number)
    })
    return length
  }

  return {
    /** Reads the changes from the place on. */
    read: (call: RedisCall, isRestoring: boolean, patienceMs: number) =>
      inTurn(async () => {
        const [given, ms, unixSeconds, epoch, floor, known, found, isWaited, last, hasMore, ...news] = await call(
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
          PAGE,
          isRestoring ? 'restoring' : '',
          patienceMs,
          ...others.flatMap(([name, lastMs]) => [name, Math.max(0, Math.floor(nowMs() - lastMs))])
        ) as [string, string, string, string, string, number, string, number, string, number, ...string[]]
        const isSame = given === count
        count = given
        clock.see(count, Number(ms), Number(unixSeconds) * 1000)
        // Others have used the store meanwhile for so long that it has forgotten this one, and nothing else.
        const isForgotten = known < 0 && isSame &&
          Number(last) / 1000 + clock.offsetOf(count) > readAt + FORGET_MS / 1000
        const isLost = known < answered && !isForgotten
        const awaySeconds = clock.seconds() - readAt
        readAt += awaySeconds
        answered = known
        // For a shorter time the store still says what was lifted.
        const isLongAway = awaySeconds >= view.lifeSeconds
        // The store may come from a copy that is older than this instance, which alone may know what was lost.
        if (isLost || (isForgotten && !isLongAway)) view.lose(known)
        // Others have read on, and what this instance has missed is gone.
        const isBehind = isForgotten || (!isLost && place !== '$' && idOrder.compare(place, floor) < 0)
        if (isBehind && isLongAway) view.expectAll()
        // What was written instead of what was lost stands behind the place that the store knows.
        place = isLost ? found || '0-0' : isBehind ? '$' : last
        if (!isLost && !isForgotten && found !== '') {
          const [, ...words] = found.split(' ')
          others = words.flatMap((name, n) => n % 2 === 0 ? [[name, nowMs() - Number(words[n + 1])] as const] : [])
        }
        for (let n = 0; n < news.length; n += 2) take(news[n]!, news[n + 1]!, false)
        return { epoch, isLost, isBehind, isWaited: isWaited === 1, isWhole: hasMore === 0 }
      }),
    /**
     * Merges records, and applies what stands then. Returns the number of rows that the store keeps, or undefined if
     * this instance does not know yet what the store has lost.
     */
    merge: (call: RedisCall, given: readonly Given[]) =>
      inTurn(async () => {
        const sent = send(call, given)
        return takeMerged(sent, await sent.answer)
      }),
    /**
     * Merges what the view has not said yet, a page of records at a time: one is on its way while another is answered.
     * @param restoring milliseconds for which others wait for this instance
     */
    restore: (call: RedisCall, goesOn: () => boolean, restoring?: number) =>
      inTurn(async () => {
        const waiting: Sent[] = []
        const next = () => {
          const records = goesOn() ? view.backlog.take(PAGE) : []
          if (records.length === 0) return
          waiting.push(send(call, records.map(([key, text]) => ['restore', key, text] as const), restoring))
        }
        try {
          next()
          while (waiting.length > 0) {
            next()
            const [first] = waiting as [Sent]
            if (takeMerged(first, await first.answer) === undefined) return
            waiting.shift()
          }
        } finally {
          for (const [, key] of waiting.flatMap(({ given }) => given)) view.backlog.add(key)
        }
      }),
    /**
     * Reads the records from a cursor on, in pages of about so many: the next is on its way while one is taken. Returns
     * the next cursor, or undefined once all were read.
     */
    scan: (call: RedisCall, from: string, goesOn: () => boolean) =>
      inTurn(async () => {
        let cursor = from
        let asked = readPage(call, cursor)
        for (;;) {
          const { runs, next, found } = await asked
          if (cursor === '0') scanned = runs[0]
          if (runs.some(run => run !== scanned)) return '0'
          const isLast = next === '0' || !goesOn()
          if (!isLast) asked = readPage(call, next)
          // The store has it if it has the next call.
          for (let n = 0; n < found.length; n += 2) take(found[n]!, found[n + 1]!, true, calls + 1)
          // The last page is read again until all is forgotten that none has shown.
          if (next === '0') return view.forgetUnseen() ? undefined : cursor
          if (isLast) return next
          cursor = next
        }
      }),
    /** Removes what is over of a page of the records. Returns the next cursor, and how many were removed. */
    clean: (call: RedisCall, cursor: string) =>
      inTurn(() => {
        const times = [clock.offer(count), Math.floor(clock.agreedNow())]
        return call('eval', CLEAN, 2, STATE, RECORDS, count, ...times, cursor, PAGE) as Promise<[string, number]>
      }),
    place: () => place
  }
}

/**
 * A page of the records from a cursor on: the run of the server before and after it, as a cursor means nothing to
 * another one; the next cursor; keys and records by turns. No script reads it: its answer would cost twice as much.
 */
export async function readPage (call: RedisCall, cursor: string) {
  const run = () => call('eval', RUN, 1, RECORDS) as Promise<string>
  const [before, [next, found], after] = await Promise.all([
    run(),
    call('hscan', RECORDS, cursor, 'COUNT', SCANNED) as Promise<[string, string[]]>,
    run()
  ])
  return { runs: [before, after] as const, next, found }
}

/** Orders ids of Redis, which are two numbers: `milliseconds-sequence`. */
const idOrder = new Intl.Collator('en', { numeric: true })
