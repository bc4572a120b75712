/**
 * Words of a slot: four words of the id, then the second in which the record dies. The second 0 marks a slot that was
 * never used.
 */
const WORDS = 5
// A smaller table would be rebuilt every few records. Buffers that are soon thrown away cause garbage collection, which
// slows all requests.
const LEAST_SLOTS = 128

/** Four odd multipliers that only this process knows, so no client can choose ids that share a slot. */
export type HashKey = readonly [number, number, number, number]

/** Multiplies and adds modulo 2^32. The upper bits are well mixed. */
export function hashWords (key: HashKey, a: number, b: number, c: number, d: number): number {
  return (Math.imul(key[0], a) + Math.imul(key[1], b) + Math.imul(key[2], c) + Math.imul(key[3], d)) >>> 0
}

/**
 * A set of 128-bit ids with the seconds of their death, 20 bytes a slot, with open addressing. A dead record stays
 * until a new record takes its slot or the table is rebuilt. The time of a rebuild depends only on the size of this
 * table. Ids are passed as four 32-bit integers, seconds as Unix time.
 */
export class IdTable {
  /** The number of slots that hold a record, live or dead. */
  used = 0
  #words = new Int32Array(LEAST_SLOTS * WORDS)
  readonly #key: HashKey
  readonly #skippedBits: number

  /** @param skippedBits the number of upper bits of the hash that all ids of this table share */
  constructor (key: HashKey, skippedBits: number) {
    this.#key = key
    this.#skippedBits = skippedBits
  }

  /** Whether the next `put` needs a `rebuild` first: three quarters of the slots are used. */
  get crowded (): boolean {
    return this.used >= this.#words.length / WORDS * 0.75
  }

  get bytes (): number {
    return this.#words.byteLength
  }

  /** @returns the position of a slot for this id, or -1 if there is a live record of it */
  slotFor (hash: number, a: number, b: number, c: number, d: number, horizon: number): number {
    const words = this.#words
    let free = -1
    let at = this.#start(hash)
    while (words[at + 4] !== 0) {
      if (words[at + 4]! >>> 0 <= horizon) {
        if (free < 0) free = at
      } else if (words[at] === a && words[at + 1] === b && words[at + 2] === c && words[at + 3] === d) return -1
      at = at + WORDS === words.length ? 0 : at + WORDS
    }
    return free < 0 ? at : free
  }

  /** Writes a record to a position that `slotFor` returned. */
  put (at: number, a: number, b: number, c: number, d: number, second: number) {
    const words = this.#words
    if (words[at + 4] === 0) this.used++
    words[at] = a
    words[at + 1] = b
    words[at + 2] = c
    words[at + 3] = d
    words[at + 4] = second
  }

  /** Adds the second of each live record whose id ends with these two words to `counts`. */
  countEachOf (c: number, d: number, horizon: number, counts: { add (second: number): void }) {
    const words = this.#words
    for (let at = 0; at < words.length; at += WORDS) {
      const second = words[at + 4]! >>> 0
      if (words[at + 2] === c && words[at + 3] === d && second > horizon) counts.add(second)
    }
  }

  /** Drops dead records and makes the table twice as large as the live records need. */
  rebuild (horizon: number) {
    const old = this.#words
    let live = 0
    for (let at = 4; at < old.length; at += WORDS) if (old[at]! >>> 0 > horizon) live++
    this.#words = new Int32Array(Math.max(LEAST_SLOTS, live * 2) * WORDS)
    this.used = 0
    for (let at = 0; at < old.length; at += WORDS) {
      const second = old[at + 4]! >>> 0
      if (second > horizon) this.#insert(old[at]!, old[at + 1]!, old[at + 2]!, old[at + 3]!, second)
    }
  }

  #insert (a: number, b: number, c: number, d: number, second: number) {
    this.put(this.slotFor(hashWords(this.#key, a, b, c, d), a, b, c, d, 0), a, b, c, d, second)
  }

  #start (hash: number): number {
    return Math.floor(((hash << this.#skippedBits) >>> 0) / 2 ** 32 * this.#words.length / WORDS) * WORDS
  }
}
