import { hashWords } from './id-table.ts'
import type { HashKey, IdTable } from './id-table.ts'
import { ExpiryCounts } from './expiry.ts'

const BUCKET_BITS = 12
const BUCKETS = 2 ** BUCKET_BITS

interface KeyCount {
  readonly bucket: number
  readonly seconds: ExpiryCounts
}

/** A pass over the tables. The tables before `next` have been read. */
interface Reading {
  next: number
  readonly isWatched: Uint8Array
  readonly counts: Map<number, KeyCount>
}

export interface KeySharesOptions {
  /** The number of live records that one key may have, at least 1. In a store with many tables it is well above twice their number. */
  readonly share: number
  /** The ids in the tables hold two words of the key as their third and fourth word. */
  readonly tables: readonly IdTable[]
  readonly key: HashKey
}

/**
 * Limits each key to its share of the records. It counts exactly only the few keys that come near their share.
 *
 * Every key belongs to one of 4096 buckets. A bucket counts the records of its keys, so its count is at least as high as the live
 * records of any one key. If the count reaches half of a share, the tables are read, one for each later record, and the keys of the
 * bucket are counted exactly. A key with a quarter of a share or more is heavy and is counted separately from then on. Only few
 * keys can be heavy. The many keys with few records cost nothing but the number of their bucket.
 */
export function createKeyShares ({ share, tables, key }: KeySharesOptions) {
  const watchAt = Math.max(1, Math.floor(share / 2))
  const heavy = new Map<number, KeyCount>()
  // New records are counted in `young`. When all records in `old` are dead, the two change places.
  let young = new Uint32Array(BUCKETS)
  let old = new Uint32Array(BUCKETS)
  let youngLatest = 0
  let oldLatest = 0
  let isDue = false
  let reading: Reading | undefined

  // A name leaves out some bits of the key. Two keys get the same name only by chance, since the words come from a hash that no client
  // knows.
  const nameOf = (c: number, d: number): number => (c >>> 0) * 2 ** 21 + (d >>> 11)
  const bucketOf = (c: number, d: number): number => hashWords(key, 0, 0, c, d) >>> (32 - BUCKET_BITS)
  const heavyOf = (c: number, d: number): KeyCount | undefined => heavy.size === 0 ? undefined : heavy.get(nameOf(c, d))

  function countInBucket (bucket: number, count: number, second: number): void {
    young[bucket]! += count
    youngLatest = Math.max(youngLatest, second)
    if (young[bucket]! + old[bucket]! >= watchAt && !reading?.isWatched[bucket]) isDue = true
  }

  /** The count of a key in the current reading, if the reading has passed that table. */
  function readCountOf (c: number, d: number, bucket: number, table: number, horizon: number): ExpiryCounts | undefined {
    return reading?.isWatched[bucket] && table < reading.next ? countIn(reading.counts, nameOf(c, d), bucket, horizon) : undefined
  }

  /** Reads one table. A key is found to be heavy long before its share is used up: two readings take fewer records than half a share. */
  function read (horizon: number): void {
    if (!reading) {
      if (!isDue) return
      isDue = false
      reading = { next: 0, isWatched: new Uint8Array(BUCKETS), counts: new Map() }
      for (let bucket = 0; bucket < BUCKETS; bucket++) if (young[bucket]! + old[bucket]! >= watchAt) reading.isWatched[bucket] = 1
    }
    const { isWatched, counts } = reading
    tables[reading.next++]!.forEachLive(horizon, (c, d, second) => {
      const bucket = bucketOf(c, d)
      if (isWatched[bucket] === 1 && !heavyOf(c, d)) countIn(counts, nameOf(c, d), bucket, horizon).add(second)
    })
    if (reading.next < tables.length) return
    reading = undefined
    conclude(isWatched, counts, horizon)
  }

  /** Separates heavy keys from light ones. A bucket then counts the heaviest of its light keys and all later records. */
  function conclude (isWatched: Uint8Array, counts: Map<number, KeyCount>, horizon: number): void {
    for (let bucket = 0; bucket < BUCKETS; bucket++) if (isWatched[bucket]) young[bucket] = old[bucket] = 0
    for (const [name, { bucket, seconds }] of heavy) {
      seconds.moveTo(horizon)
      if (seconds.live >= watchAt / 4) continue
      heavy.delete(name)
      countInBucket(bucket, seconds.live, seconds.latest)
    }
    const most = new Map<number, number>()
    for (const [name, count] of counts) {
      const { bucket, seconds } = count
      seconds.moveTo(horizon)
      if (seconds.live >= watchAt / 2) heavy.set(name, count)
      else {
        const before = most.get(bucket) ?? 0
        most.set(bucket, Math.max(before, seconds.live))
        countInBucket(bucket, Math.max(0, seconds.live - before), seconds.latest)
      }
    }
  }

  return {
    /** Whether a key has used up its share. */
    isSpent (c: number, d: number, horizon: number): boolean {
      const count = heavyOf(c, d)
      if (!count) return false
      count.seconds.moveTo(horizon)
      return count.seconds.live >= share
    },
    /** Counts a record that was put into the table with that number. */
    add (c: number, d: number, table: number, second: number, horizon: number): void {
      if (oldLatest <= horizon) {
        [young, old] = [old.fill(0), young]
        oldLatest = youngLatest
        youngLatest = 0
      }
      const count = heavyOf(c, d)
      if (count) count.seconds.add(second)
      else {
        const bucket = bucketOf(c, d)
        readCountOf(c, d, bucket, table, horizon)?.add(second)
        countInBucket(bucket, 1, second)
      }
      read(horizon)
    },
    /** Updates the count for a live record that now dies later. */
    move (c: number, d: number, table: number, before: number, second: number): void {
      const count = heavyOf(c, d)
      const bucket = bucketOf(c, d)
      const seconds = count?.seconds ?? readCountOf(c, d, bucket, table, before - 1)
      seconds?.remove(before)
      seconds?.add(second)
      if (!count) countInBucket(bucket, 1, second)
    }
  }
}

function countIn (counts: Map<number, KeyCount>, name: number, bucket: number, horizon: number): ExpiryCounts {
  let count = counts.get(name)
  if (!count) counts.set(name, count = { bucket, seconds: new ExpiryCounts(horizon) })
  return count.seconds
}
