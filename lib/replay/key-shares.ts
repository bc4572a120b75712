import type { IdTable } from './id-table.ts'

/**
 * Counts records by the second in which they expire, without looking at each of them. The count is exact, and takes
 * memory only for seconds that have records. Seconds are Unix time.
 */
export class ExpiryCounts {
  /** The number of records that are live at the horizon. */
  live = 0
  /** A record has expired if its second is not after the horizon. */
  horizon: number
  readonly #counts = new Map<number, number>()

  constructor (horizon: number) {
    this.horizon = horizon
  }

  /** A record of a second before the horizon, as after a clock has gone back, is live until the next move. */
  add (second: number): void {
    this.live++
    if (second <= this.horizon) this.horizon = second - 1
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1)
  }

  /** Takes back one `add` of a second after the horizon. */
  remove (second: number): void {
    this.live--
    this.#counts.set(second, this.#counts.get(second)! - 1)
  }

  /**
   * Forgets the records that have expired at `horizon`. It looks at no more seconds than have passed, and at no more
   * than have records.
   */
  moveTo (horizon: number): void {
    if (horizon - this.horizon > this.#counts.size) {
      for (const second of this.#counts.keys()) if (second <= horizon) this.#forget(second)
    } else {
      for (let second = this.horizon + 1; second <= horizon; second++) this.#forget(second)
    }
    this.horizon = horizon
  }

  #forget (second: number): void {
    this.live -= this.#counts.get(second) ?? 0
    this.#counts.delete(second)
  }
}

const BUCKET_BITS = 12

// Two words of a hash that no client knows stand for a key. Its name leaves out some of their bits, so that it is a
// safe integer: two keys get the same name only by chance.
const nameOf = (c: number, d: number): number => (c >>> 0) * 2 ** 21 + (d >>> 11)
const firstWordOf = (name: number): number => name / 2 ** 21 >>> 0
const bucketOf = (c: number): number => c >>> (32 - BUCKET_BITS)

/** A pass over the tables. The tables before `next` have been read. */
interface Reading {
  next: number
  /** 1 for a bucket that is counted. */
  readonly isWatched: Uint8Array
  /** The records of each key of these buckets, by its name. */
  readonly counts: Map<number, ExpiryCounts>
}

export interface KeySharesOptions {
  /**
   * The number of live records that one key may have, at least 1. In a store with many tables it is well above twice
   * their number.
   */
  readonly share: number
  /** The ids in the tables hold two words of the key as their third and fourth word. */
  readonly tables: readonly IdTable[]
}

/**
 * Limits each key to its share of the records. It counts exactly only the few keys that come near their share.
 *
 * Every key belongs to one of 4096 buckets. A bucket counts the records of its keys, so its count is at least as high
 * as the live records of any one key. If the count reaches half of a share, the tables are read, one for each later
 * record, and the keys of the bucket are counted exactly. A key with a quarter of a share or more is heavy and is
 * counted separately from then on, until a reading finds no live record. Only few keys can be heavy. The many keys with
 * few records cost nothing but the number of their bucket.
 */
export function createKeyShares ({ share, tables }: KeySharesOptions) {
  const watchAt = Math.max(1, Math.floor(share / 2))
  const heavy = new Map<number, ExpiryCounts>()
  // New records are counted in `young`. When all records in `old` are dead, the two change places.
  let young = new Uint32Array(2 ** BUCKET_BITS)
  let old = new Uint32Array(2 ** BUCKET_BITS)
  let youngLatest = 0
  let oldLatest = 0
  let reading: Reading | undefined

  const heavyOf = (c: number, d: number): ExpiryCounts | undefined =>
    heavy.size === 0 ? undefined : heavy.get(nameOf(c, d))

  function countInBucket (bucket: number, second: number): void {
    young[bucket]!++
    youngLatest = Math.max(youngLatest, second)
    if (reading || young[bucket]! + old[bucket]! < watchAt) return
    const isWatched = Uint8Array.from(young, (count, bucket) => count + old[bucket]! >= watchAt ? 1 : 0)
    reading = { next: 0, isWatched, counts: new Map() }
  }

  /**
   * Reads one table. A key is found to be heavy long before its share is used up: two readings take fewer records than
   * half a share.
   */
  function readNext ({ next, isWatched, counts }: Reading, horizon: number): void {
    tables[next]!.forEachLive(horizon, (c, d, second) => {
      if (isWatched[bucketOf(c)] === 1 && !heavyOf(c, d)) countIn(counts, nameOf(c, d), second, horizon)
    })
  }

  /**
   * Separates heavy keys from light ones. A bucket then counts the heaviest of its light keys and all later records.
   */
  function conclude ({ isWatched, counts }: Reading, horizon: number): void {
    for (const [name, seconds] of heavy) {
      seconds.moveTo(horizon)
      if (seconds.live === 0) heavy.delete(name)
    }
    isWatched.forEach((watched, bucket) => {
      if (watched === 1) young[bucket] = old[bucket] = 0
    })
    youngLatest = Math.max(youngLatest, oldLatest)
    for (const [name, seconds] of counts) {
      const bucket = bucketOf(firstWordOf(name))
      seconds.moveTo(horizon)
      if (seconds.live >= watchAt / 2) heavy.set(name, seconds)
      else young[bucket] = Math.max(young[bucket]!, seconds.live)
    }
  }

  return {
    /** Whether a key has used up its share. */
    isSpent (c: number, d: number, horizon: number): boolean {
      const count = heavyOf(c, d)
      if (!count) return false
      count.moveTo(horizon)
      return count.live >= share
    },
    /** Counts a record that was put into the table with that number. */
    add (c: number, d: number, table: number, second: number, horizon: number): void {
      if (oldLatest <= horizon) {
        ;[young, old] = [old.fill(0), young]
        oldLatest = youngLatest
        youngLatest = 0
      }
      const count = heavyOf(c, d)
      if (count) count.add(second)
      else {
        const bucket = bucketOf(c)
        if (reading?.isWatched[bucket] === 1 && table < reading.next) {
          countIn(reading.counts, nameOf(c, d), second, horizon)
        }
        countInBucket(bucket, second)
      }
      if (!reading) return
      readNext(reading, horizon)
      if (++reading.next < tables.length) return
      conclude(reading, horizon)
      reading = undefined
    },
    /** Updates the count for a live record that now dies later. */
    move (c: number, d: number, table: number, before: number, second: number): void {
      const count = heavyOf(c, d)
      const seconds = count ?? (reading && table < reading.next ? reading.counts.get(nameOf(c, d)) : undefined)
      seconds?.remove(before)
      seconds?.add(second)
      if (!count) countInBucket(bucketOf(c), second)
    }
  }
}

function countIn (counts: Map<number, ExpiryCounts>, name: number, second: number, horizon: number): void {
  let count = counts.get(name)
  if (!count) counts.set(name, count = new ExpiryCounts(horizon))
  count.add(second)
}
