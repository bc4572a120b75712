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

  /** Counts a record of a second after the horizon. */
  add (second: number) {
    this.live++
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1)
  }

  /** Forgets the records that have expired at `horizon`. It looks at the seconds only if the horizon is another one. */
  moveTo (horizon: number) {
    if (horizon === this.horizon) return
    this.horizon = horizon
    for (const [second, count] of this.#counts) {
      if (second > horizon) continue
      this.live -= count
      this.#counts.delete(second)
    }
  }
}

const BUCKET_BITS = 12
const BUCKETS = 2 ** BUCKET_BITS

// Two words of a hash that no client knows stand for a key. Its name leaves out some of their bits, so that it is a
// safe integer: two keys get the same name only by chance.
const nameOf = (c: number, d: number) => (c >>> 0) * 2 ** 21 + (d >>> 11)

/** A key that is counted by itself. Its records are in `count` if they are in one of the tables that have been read. */
interface WatchedKey {
  readonly count: ExpiryCounts
  tablesRead: number
}

interface KeySharesOptions {
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
 * reaches half of a share, the key is counted by itself, as long as it has live records. Its earlier records are read
 * from the tables, one table for each of its records from then on: half of a share is more than there are tables. Both
 * buckets of a light key are that full only by chance. The many keys with few records cost nothing but the numbers of
 * their buckets.
 */
export function createKeyShares ({ share, tables }: KeySharesOptions) {
  const watchAt = Math.max(1, Math.floor(share / 2))
  const watched = new Map<number, WatchedKey>()
  // New records are counted in `young`. When all records in `old` are dead, the two change places.
  let young = new Uint32Array(2 * BUCKETS)
  let old = new Uint32Array(2 * BUCKETS)
  let youngLatest = 0
  let oldLatest = 0

  function turn (horizon: number) {
    ;[young, old] = [old.fill(0), young]
    oldLatest = youngLatest
    youngLatest = 0
    for (const [name, { count }] of watched) {
      count.moveTo(horizon)
      if (count.live === 0) watched.delete(name)
    }
  }

  /** Counts a record in the buckets of its key, and says whether the key may have half of a share. */
  function sketch (c: number, d: number, second: number) {
    const first = c >>> (32 - BUCKET_BITS)
    const other = BUCKETS + (d >>> (32 - BUCKET_BITS))
    young[first]!++
    young[other]!++
    youngLatest = Math.max(youngLatest, second)
    return Math.min(young[first]! + old[first]!, young[other]! + old[other]!) >= watchAt
  }

  return {
    /** Whether a key has used up its share. */
    isSpent (c: number, d: number, horizon: number): boolean {
      const count = watched.get(nameOf(c, d))?.count
      count?.moveTo(horizon)
      return count !== undefined && count.live >= share
    },
    /** Counts a record that was put into the table with that number, and for which `isSpent` was asked. */
    add (c: number, d: number, table: number, second: number, horizon: number) {
      if (oldLatest <= horizon) turn(horizon)
      const name = nameOf(c, d)
      let key = watched.get(name)
      if (key && table < key.tablesRead) key.count.add(second)
      if (key?.tablesRead === tables.length) return
      const mayHaveHalf = sketch(c, d, second)
      if (!key && mayHaveHalf) watched.set(name, key = { count: new ExpiryCounts(horizon), tablesRead: 0 })
      if (key) tables[key.tablesRead++]!.countEachOf(c, d, horizon, key.count)
    }
  }
}
