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
const BUCKETS = 2 ** BUCKET_BITS

// Two words of a hash that no client knows stand for a key. Its name leaves out some of their bits, so that it is a
// safe integer: two keys get the same name only by chance.
const nameOf = (c: number, d: number): number => (c >>> 0) * 2 ** 21 + (d >>> 11)

/** A key whose records are read from the tables. Those before `next` have been read. */
interface Reading {
  readonly c: number
  readonly d: number
  readonly count: ExpiryCounts
  next: number
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
 * A sketch (count-min, two rows of 4096 buckets) finds these. Each key has one bucket in each row, which counts the
 * records of all its keys, so the smaller of the two is at least as high as the live records of any one key. If it
 * reaches half of a share, the records of that key are read from the tables, one table for each later record, and from
 * then on the key is counted by itself, as long as it has live records. Both buckets of a light key are that full only
 * by chance. The many keys with few records cost nothing but the numbers of their buckets.
 */
export function createKeyShares ({ share, tables }: KeySharesOptions) {
  const watchAt = Math.max(1, Math.floor(share / 2))
  const exact = new Map<number, ExpiryCounts>()
  // New records are counted in `young`. When all records in `old` are dead, the two change places.
  let young = new Uint32Array(2 * BUCKETS)
  let old = new Uint32Array(2 * BUCKETS)
  let youngLatest = 0
  let oldLatest = 0
  let reading: Reading | undefined

  function turn (horizon: number): void {
    ;[young, old] = [old.fill(0), young]
    oldLatest = youngLatest
    youngLatest = 0
    for (const [name, count] of exact) {
      count.moveTo(horizon)
      if (count.live === 0) exact.delete(name)
    }
  }

  /** The exact count that holds the records of a key in the table with that number. */
  function countOf (c: number, d: number, table: number): ExpiryCounts | undefined {
    const isRead = reading !== undefined && table < reading.next && reading.c === c && reading.d === d
    return isRead ? reading!.count : exact.get(nameOf(c, d))
  }

  function sketch (c: number, d: number, second: number, horizon: number): void {
    if (exact.has(nameOf(c, d))) return
    const first = c >>> (32 - BUCKET_BITS)
    const other = BUCKETS + (d >>> (32 - BUCKET_BITS))
    young[first]!++
    young[other]!++
    youngLatest = Math.max(youngLatest, second)
    const most = Math.min(young[first]! + old[first]!, young[other]! + old[other]!)
    if (!reading && most >= watchAt) reading = { c, d, count: new ExpiryCounts(horizon), next: 0 }
  }

  /** Reads one table. Many readings take fewer records than half of a share, so none ends too late. */
  function readNext (reader: Reading, horizon: number): void {
    tables[reader.next++]!.forEachOf(reader.c, reader.d, horizon, second => reader.count.add(second))
    if (reader.next < tables.length) return
    exact.set(nameOf(reader.c, reader.d), reader.count)
    reading = undefined
  }

  return {
    /** Whether a key has used up its share. */
    isSpent (c: number, d: number, horizon: number): boolean {
      const count = exact.size === 0 ? undefined : exact.get(nameOf(c, d))
      count?.moveTo(horizon)
      return count !== undefined && count.live >= share
    },
    /** Counts a record that was put into the table with that number. */
    add (c: number, d: number, table: number, second: number, horizon: number): void {
      if (oldLatest <= horizon) turn(horizon)
      countOf(c, d, table)?.add(second)
      sketch(c, d, second, horizon)
      if (reading) readNext(reading, horizon)
    },
    /** Updates the count for a live record that now dies later. */
    move (c: number, d: number, table: number, before: number, second: number, horizon: number): void {
      const count = countOf(c, d, table)
      count?.remove(before)
      count?.add(second)
      sketch(c, d, second, horizon)
    }
  }
}
