import { Refusal } from '../../refusal.ts'
import { LATE_RECORD_SECONDS, type ReplayStore } from './replay-store.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import { hashWords, IdTable, type HashKey } from './id-table.ts'
import { createKeyShares, ExpiryCounts } from './key-shares.ts'

/**
 * The number of records of one table when the store is full. Such a table is small enough to be rebuilt between two
 * requests.
 */
const TABLE_RECORDS = 4096
const MOST_TABLE_BITS = 16
/** One key may hold this part of the store, so no single client can fill it for others. */
const SHARES = 4
/**
 * Seconds from which on an expiry is rounded up to a multiple of twice as many: 18 hours. So any window has few seconds
 * to count, even if a client spreads its proofs over it.
 */
const FAR = 2 ** 16
/** The tables hold seconds as Uint32: until the year 2106. */
const LAST_SECOND = 2 ** 32 - 2 * FAR
/** A clock that is ahead by fewer seconds than this has drifted, not leapt. */
const DRIFT = 1

interface MemoryStoreOptions extends Pick<Surroundings, 'now' | 'steadyMs' | 'randomBytes'> {
  /**
   * Maximum number of live records. A full store refuses with `replay_full`, and a key that has a quarter of them is
   * refused with `replay_share_exceeded`. The store never forgets a live record.
   */
  readonly max: number
}

type Outcome = 'first' | 'seen' | 'replay_unavailable' | 'replay_share_exceeded' | 'replay_full'

/**
 * The replay store of a single instance. If there are many records, each takes 27 to 54 bytes. One record rebuilds at
 * most two tables of a few thousand records. Nothing runs between records.
 */
export function createMemoryStore ({ max, randomBytes, ...clocks }: MemoryStoreOptions): ReplayStore {
  const clock = createExpiryClock(clocks)
  const counts = new ExpiryCounts(clock.wall)
  const key = randomKey(randomBytes)
  const tableBits = Math.min(MOST_TABLE_BITS, Math.max(0, Math.ceil(Math.log2(max / TABLE_RECORDS))))
  const tables = Array.from({ length: 2 ** tableBits }, () => new IdTable(key, tableBits))
  const shares = createKeyShares({ share: Math.max(1, Math.floor(max / SHARES)), tables })
  let sweeper = 0
  let window = 0
  let lastExpiry = 0
  let closed = false
  let records = 0
  let seen = 0
  let refused = 0

  /**
   * Moves the horizon to the present. If the clock has gone back, it goes back too, but not behind a moment at which
   * records expired. It stays before the last second that the tables hold, or records would be dead at once.
   */
  function moveHorizon () {
    const { live } = counts
    counts.moveTo(Math.max(Math.min(clock.passed(window), LAST_SECOND - 1), lastExpiry))
    if (counts.live !== live) lastExpiry = counts.horizon
  }

  /** Gives memory back. Each record looks at one table, and rebuilds it if more than half of its records are dead. */
  function sweep () {
    const table = tables[sweeper]!
    if (table.used > counts.live / tables.length * 2 + 8) table.rebuild(counts.horizon)
    sweeper = (sweeper + 1) % tables.length
  }

  function record (id: string, jkt: string, expiresAt: number): Outcome {
    if (closed || Number.isNaN(expiresAt)) return 'replay_unavailable'
    moveHorizon()
    const expiry = Math.floor(expiresAt) + 1 + LATE_RECORD_SECONDS
    const second = expiry - counts.horizon < FAR ? expiry : Math.min(Math.ceil(expiry / FAR / 2) * FAR * 2, LAST_SECOND)
    // Records that died at the horizon are forgotten. If the clock has gone back, copies of their proofs look young
    // again, so they are refused.
    if (second <= counts.horizon) return 'replay_unavailable'

    // Half of the kept id names the key, so that the records of the key can be counted. The other 64 bits separate the
    // records of one key. If two of them are equal, only a proof of a client that has searched for them is refused.
    const a = readWord(id, 0)
    const b = readWord(id, 4)
    const middle = jkt.length >>> 1
    const c = hashText(key[2], jkt, 0, middle)
    const d = hashText(key[3], jkt, middle, jkt.length)
    const hash = hashWords(key, a, b, c, d)
    const number = hash >>> 1 >>> (31 - tableBits)
    const table = tables[number]!
    if (table.crowded) table.rebuild(counts.horizon)
    const slot = table.slotFor(hash, a, b, c, d, counts.horizon)
    if (slot < 0) return 'seen'
    if (shares.isSpent(c, d, counts.horizon)) return 'replay_share_exceeded'
    if (counts.live >= max) return 'replay_full'
    table.put(slot, a, b, c, d, second)
    counts.add(second)
    shares.add(c, d, number, second, counts.horizon)
    if (second - clock.wall > window) window = second - clock.wall
    sweep()
    return 'first'
  }

  return {
    record (id, jkt, expiresAt, done) {
      records++
      const outcome = record(id, jkt, expiresAt)
      if (outcome === 'first') return done(null, true)
      if (outcome === 'seen') {
        seen++
        return done(null, false)
      }
      refused++
      done(new Refusal(outcome))
    },
    state () {
      moveHorizon()
      const reason = closed
        ? 'closed'
        : counts.horizon > clock.wall
          ? 'clock_went_back'
          : counts.live >= max
            ? 'full'
            : undefined
      const bytes = tables.reduce((sum, table) => sum + table.bytes, 0)
      return { kind: 'memory', ready: !closed, reason, entries: counts.live, max, bytes, records, seen, refused }
    },
    close () {
      closed = true
      tables.length = 0
    }
  }
}

/**
 * Says which seconds have certainly passed. The wall clock may be set forwards and backwards.
 *
 * A record may be forgotten only if its proof is refused for its age, and the wall clock judges the age. So a clock
 * that leaps forwards counts only after the steady clock has run for one whole window. If the wall clock leaps back
 * before that, nothing was forgotten.
 */
export function createExpiryClock ({ now, steadyMs }: Pick<Surroundings, 'now' | 'steadyMs'>) {
  let wall = Math.floor(now())
  /** The difference between wall clock and steady clock before the leap. */
  let offset = now() - steadyMs() / 1000
  let leaptAt = Number.NaN

  return {
    /** The Unix second that the wall clock showed at the last reading. */
    get wall () {
      return wall
    },
    /**
     * Reads the clocks. Returns the last Unix second whose records may be forgotten, if no record lives longer than
     * `window` seconds.
     */
    passed (window: number): number {
      const time = now()
      const steady = steadyMs() / 1000
      wall = Math.floor(time)
      if (time - steady > offset + DRIFT) {
        if (Number.isNaN(leaptAt)) leaptAt = steady
        if (steady - leaptAt < window) return Math.floor(offset + steady)
      }
      leaptAt = Number.NaN
      offset = time - steady
      return wall
    }
  }
}

function readWord (id: string, at: number): number {
  return id.charCodeAt(at) | id.charCodeAt(at + 1) << 8 | id.charCodeAt(at + 2) << 16 | id.charCodeAt(at + 3) << 24
}

/**
 * FNV-1a with a multiplier that only this process knows, so no client can search for a key that is counted together
 * with another one.
 */
function hashText (multiplier: number, text: string, from: number, to: number): number {
  let word = multiplier
  for (let at = from; at < to; at++) word = Math.imul(word ^ text.charCodeAt(at), multiplier)
  return word
}

function randomKey (randomBytes: Surroundings['randomBytes']): HashKey {
  const bytes = randomBytes(16)
  const odd = (at: number) => bytes.readInt32LE(at) | 1
  return [odd(0), odd(4), odd(8), odd(12)]
}
