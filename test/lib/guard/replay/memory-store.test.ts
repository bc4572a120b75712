import { hash, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Refusal } from '../../../../lib/refusal.ts'
import { hashWords, IdTable } from '../../../../lib/guard/replay/id-table.ts'
import { createKeyShares, ExpiryCounts } from '../../../../lib/guard/replay/key-shares.ts'
import { createMemoryStore, createExpiryClock } from '../../../../lib/guard/replay/memory-store.ts'
import { createOffStore } from '../../../../lib/guard/replay/create-store.ts'
import { LATE_RECORD_SECONDS, type ReplayStore } from '../../../../lib/guard/replay/replay-store.ts'

const START = 1_800_000_000
const SEED = Number(process.env['FC_SEED'] ?? 9449)
const idOf = (name: string | number) => hash('sha256', String(name), 'binary')
const jktOf = (name: string | number) => hash('sha256', String(name), 'base64url')

type Outcome = 'first' | 'seen' | 'replay_full' | 'replay_share_exceeded' | 'replay_unavailable'

function record (store: ReplayStore, id: string, jkt: string, expiresAt: number) {
  let outcome: Outcome | undefined
  store.record(id, jkt, expiresAt, (refusal, first) => {
    outcome = refusal ? (refusal as Refusal).reason as Outcome : first ? 'first' : 'seen'
  })
  return outcome!
}

/** A store on clocks that the test moves: `time` is the wall clock, `steady` the one that is never set, in seconds. */
function createWorld (max: number, start = START) {
  const world = {
    time: start,
    steady: 0,
    pass (seconds: number) {
      world.time += seconds
      world.steady += seconds
    },
    store: undefined as unknown as ReplayStore,
    /** By a key of the record's own, unless one is named. */
    record: (name: string | number, expiresAt: number, key: string | number = `key of ${name}`) =>
      record(world.store, idOf(`${key} ${name}`), jktOf(key), expiresAt)
  }
  world.store = createMemoryStore({ max, now: () => world.time, steadyMs: () => world.steady * 1000, randomBytes })
  return world
}

t.test('the first record of an id passes, and no other until its proof is too old', async t => {
  const world = createWorld(10)
  t.equal(world.record('a', START + 330.5), 'first')
  t.equal(world.record('b', START + 330.5), 'first', 'another id is another matter')
  for (const seconds of [0, 1, 329, 0.5]) {
    world.pass(seconds)
    t.equal(world.record('a', START + 330.5), 'seen', `${world.time - START} seconds later`)
  }
  t.hasStrict(world.store.state(), {
    kind: 'memory',
    ready: true,
    reason: undefined,
    entries: 2,
    max: 10,
    records: 6,
    seen: 4,
    refused: 0
  })
  world.pass(1 + LATE_RECORD_SECONDS)
  t.equal(world.store.state().entries, 0, 'both are dead')
  t.equal(world.record('a', world.time + 1), 'first', 'the id is free again')
})

t.test('ids of one key that differ in any of their first 64 bits are different records', async t => {
  const world = createWorld(1000)
  const plain = Buffer.alloc(32, 0x55)
  t.equal(record(world.store, plain.toString('latin1'), jktOf('k'), START + 10), 'first')
  for (let bit = 0; bit < 64; bit++) {
    const other = Buffer.from(plain)
    other[bit >> 3]! ^= 1 << (bit & 7)
    t.equal(record(world.store, other.toString('latin1'), jktOf('k'), START + 10), 'first', `bit ${bit}`)
  }
  t.equal(record(world.store, plain.toString('latin1'), jktOf('k'), START + 10), 'seen')
})

t.test('a full store refuses new ids, knows the old ones, and is free as soon as they die', async t => {
  for (const max of [1, 3, 10_000]) {
    const world = createWorld(max)
    const outcomes = Array.from({ length: max }, (_, n) => world.record(n, START + 330))
    t.ok(outcomes.every(outcome => outcome === 'first'))
    t.equal(world.record('more', START + 330), 'replay_full', `${max} records`)
    t.equal(world.record(0, START + 330), 'seen')
    t.hasStrict(world.store.state(), { ready: true, reason: 'full', entries: max, refused: 1 })
    world.pass(330 + LATE_RECORD_SECONDS)
    t.equal(world.record('more', START + 400), 'replay_full', 'the last second counts')
    world.pass(1)
    t.equal(world.record('more', START + 400), 'first')
    t.hasStrict(world.store.state(), { reason: max === 1 ? 'full' : undefined, entries: 1 })
  }
})

t.test('a clock that goes back leaves each key its share, exactly', async t => {
  const world = createWorld(400)
  for (let n = 0; n < 100; n++) world.record(n, START + 3800, 'greedy')
  world.pass(3600)
  t.equal(world.record('more', START + 3800, 'greedy'), 'replay_share_exceeded')
  world.time -= 3600
  t.equal(world.record('more', START + 100, 'greedy'), 'replay_share_exceeded')
  for (let n = 0; n < 100; n++) world.record(n, START + 20, 'other')
  world.pass(30 + LATE_RECORD_SECONDS)
  t.equal(world.store.state().entries, 100)
  for (let n = 100; n < 200; n++) if (world.record(n, START + 200, 'other') !== 'first') return t.fail(`record ${n}`)
  t.equal(world.record('more', START + 200, 'other'), 'replay_share_exceeded')
})

t.test('keys of every size get exactly their share, while others come and go', async t => {
  const MAX = 20_000
  const world = createWorld(MAX)
  const live = new Map<string, number[]>()
  let made = 0
  let random = 1
  const pick = (below: number) => {
    random = Math.imul(random, 1103515245) + 12345 | 0
    return (random >>> 8) % below
  }
  let total = 0
  for (let n = 0; n < 100_000; n++) {
    if (n % 500 === 0) {
      world.pass(1)
      total = 0
      for (const [key, seconds] of live) {
        const left = seconds.filter(second => second > world.time)
        live.set(key, left)
        total += left.length
      }
    }
    // Three that want all, five that want a little less than they may have, and many small ones.
    const kind = pick(100)
    const key = kind < 45
      ? `greedy ${kind % 3 + 3 * Math.floor(n / 37_500)}`
      : kind < 75
        ? `middle ${kind % 5}`
        : `small ${pick(500)}`
    let seconds = live.get(key)
    if (!seconds) live.set(key, seconds = [])
    const ttl = 30 + pick(40)
    const expected = seconds.length >= MAX / 4 ? 'replay_share_exceeded' : total >= MAX ? 'replay_full' : 'first'
    const outcome = world.record(made++, world.time + ttl, key)
    if (outcome !== expected) return t.equal(outcome, expected, `record ${n} of ${key} with ${seconds.length}`)
    if (outcome !== 'first') continue
    total++
    seconds.push(world.time + ttl + 1 + LATE_RECORD_SECONDS)
  }
  t.ok(world.store.state().refused > 0, 'some were held back')
  t.equal(world.store.state().entries, total)
})

t.test('memory follows the number of live records, down as well as up', async t => {
  const world = createWorld(100_000)
  const empty = world.store.state().bytes!
  for (let n = 0; n < 100_000; n++) world.record(n, START + 330)
  const full = world.store.state().bytes!
  t.ok(full / 100_000 < 60, `${full / 100_000} bytes a record`)
  world.pass(400)
  for (let n = 0; n < 64; n++) world.record(`late ${n}`, world.time + 330)
  t.ok(world.store.state().bytes! <= empty * 2, 'a record for each table is enough to give it back')
  t.equal(world.store.state().entries, 64)
})

t.test('a record whose time is not one, or that comes too late, is not decided', async t => {
  const world = createWorld(10)
  for (const expiresAt of [Number.NaN, -Infinity, 0, START - LATE_RECORD_SECONDS - 1]) {
    t.equal(world.record('a', expiresAt), 'replay_unavailable', String(expiresAt))
  }
  t.equal(world.store.state().entries, 0)
  t.equal(world.record('a', START - LATE_RECORD_SECONDS), 'first', 'a proof judged in time may be a little late')
  t.equal(world.record('a', START - LATE_RECORD_SECONDS), 'seen')
})

t.test('an expiry beyond all measure is kept as long as can be', async t => {
  for (const expiresAt of [Infinity, 1e308, 2 ** 53, 2 ** 32, START + 3e8]) {
    const world = createWorld(10)
    t.equal(world.record('a', expiresAt), 'first', String(expiresAt))
    world.pass(2e8)
    t.equal(world.record('a', expiresAt), 'seen')
    t.equal(world.record('b', world.time + 10), 'first', 'and does not disturb others')
    world.pass(20)
    t.equal(world.store.state().entries, 1)
  }
})

t.test('a host that starts in 1970 and then gets its clock counts its records exactly', async t => {
  for (const start of [0, 5, 2 ** 17 + 5]) {
    const world = createWorld(100, start)
    for (let n = 0; n < 50; n++) t.equal(world.record(`early ${n}`, start + 330), 'first')
    t.equal(world.store.state().entries, 50)
    world.time = START
    t.equal(world.store.state().entries, 50, 'nothing is forgotten before a window has passed')
    world.pass(400)
    t.equal(world.store.state().entries, 0)
    const outcomes = Array.from({ length: 3000 }, (_, n) => world.record(n, world.time + 330))
    t.strictSame([
      outcomes.filter(outcome => outcome === 'first').length,
      outcomes.filter(outcome => outcome === 'replay_full').length
    ], [100, 2900])
    t.equal(world.store.state().entries, 100)
    world.pass(400)
    t.equal(world.store.state().entries, 0)
  }
})

/** Counts the slots of all tables that are looked at while they are rebuilt or read, until the end of the test. */
function countWork (t: Test) {
  const work = { rebuilt: 0, read: 0 }
  const { rebuild, countEachOf } = IdTable.prototype
  IdTable.prototype.rebuild = function (horizon) {
    work.rebuilt += this.bytes / 20
    rebuild.call(this, horizon)
    work.rebuilt += this.bytes / 20
  }
  IdTable.prototype.countEachOf = function (...args) {
    work.read += this.bytes / 20
    countEachOf.apply(this, args)
  }
  t.teardown(() => Object.assign(IdTable.prototype, { rebuild, countEachOf }))
  return work
}

t.test('a record costs the rebuilding of a few slots, while the store fills, stays full, and empties', async t => {
  const work = countWork(t)
  const max = 40_000
  const world = createWorld(max)
  const slotsOf = (count: number, recordOne: (n: number) => void) => {
    const before = work.rebuilt
    for (let n = 0; n < count; n++) recordOne(n)
    return (work.rebuilt - before) / count
  }
  let name = 0
  const filling = slotsOf(max, () => world.record(name++, world.time + 330))
  t.ok(filling < 12, `${filling} slots for each record of a store that fills`)
  // A steady store: each second as many records die as come.
  const steady = createWorld(max)
  for (let second = 0; second < 700; second++) {
    for (let n = 0; n < 50; n++) steady.record(name++, steady.time + 330)
    steady.pass(1)
  }
  const whileFull = slotsOf(20_000, n => {
    steady.record(name++, steady.time + 330)
    if (n % 50 === 49) steady.pass(1)
  })
  t.ok(whileFull < 12, `${whileFull} slots for each record of a store in which as many die as come`)
  const copies = slotsOf(10_000, () => steady.record(0, steady.time + 330))
  t.ok(copies < 1, `${copies} slots for each copy`)
  world.pass(400)
  const tables = 16
  slotsOf(4 * tables, () => world.record(name++, world.time + 330))
  const emptied = slotsOf(1000, () => world.record(name++, world.time + 330))
  t.ok(emptied < 12, `${emptied} slots for each record of a store that has given its memory back`)
  t.equal(work.read, 0, 'no key comes near its share')
})

t.test('a closed store decides nothing', async t => {
  const world = createWorld(10)
  world.record('a', START + 330)
  await world.store.close()
  t.equal(world.record('a', START + 330), 'replay_unavailable')
  t.equal(world.record('b', START + 330), 'replay_unavailable')
  t.hasStrict(world.store.state(), { ready: false, reason: 'closed', bytes: 0 })
})

t.test('a clock that goes back brings no dead record back to life', async t => {
  const world = createWorld(10)
  world.record('a', START + 10)
  world.record('b', START + 330)
  world.pass(20)
  t.equal(world.store.state().entries, 1)
  world.time -= 15
  t.equal(
    world.record('a', START + 10),
    'replay_unavailable',
    'its record is forgotten, so its copies cannot be recognised'
  )
  t.equal(world.record('b', START + 330), 'seen')
  t.equal(world.record('c', START + 330), 'first', 'younger proofs are not touched')
  t.equal(world.store.state().reason, 'clock_went_back')
  world.pass(15)
  t.equal(world.store.state().reason, undefined)
})

t.test('a clock that goes back before any record has died costs nothing', async t => {
  const world = createWorld(10)
  world.record('a', START + 330)
  world.time -= 3600
  t.equal(world.record('b', world.time + 330), 'first')
  t.equal(world.record('b', world.time + 330), 'seen')
  t.equal(world.record('a', START + 330), 'seen')
  world.pass(330 + LATE_RECORD_SECONDS + 1)
  t.equal(world.store.state().entries, 1)
  world.time -= 2 ** 17
  t.equal(world.record('c', world.time + 330), 'replay_unavailable', 'unless a record has expired since')
})

t.test('a clock that drifts is followed, and one that leaps is not believed before a window has passed', t => {
  let time = START + 0.25
  let steady = 1000
  const clock = createExpiryClock({ now: () => time, steadyMs: () => steady * 1000 })
  /** What has passed when the clocks have moved, the one on the wall by some seconds more. */
  const step = (seconds: number, ahead = 0) => {
    time += seconds + ahead
    steady += seconds
    return clock.passed(100) - START
  }
  t.equal(clock.wall, START)
  t.strictSame([step(10), step(10, 0.75), step(10, 1)], [10, 21, 32], 'up to a second is drift')
  t.equal(step(10, 1.5), 42, 'more is a leap')
  t.equal(clock.wall, START + 43)
  t.strictSame([step(99), step(0.75), step(0.25), step(1)], [141, 141, 143, 144], 'believed after a whole window')
  t.equal(step(0, 500), 144, 'the next leap is measured by what was believed last')
  t.equal(step(10, -500), 154, 'taken back in time')
  t.strictSame([step(0, 500), step(99), step(1)], [154, 253, 754], 'its window begins anew')
  t.strictSame([step(0, -700), step(1)], [54, 55], 'a clock that goes back is believed at once')
  t.end()
})

const KEY = [0x9e3779b1, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f] as const

/** Shares of 100 records over four tables that count how often they are read. */
function createShares () {
  const tables = Array.from(
    { length: 4 },
    () => ({ reads: 0, entries: [] as Array<[c: number, d: number, second: number]> })
  )
  const shares = createKeyShares({
    share: 100,
    tables: tables.map(table => ({
      countEachOf (c: number, d: number, horizon: number, counts: ExpiryCounts) {
        table.reads++
        for (const entry of table.entries) {
          if (entry[0] === c && entry[1] === d && entry[2] > horizon) counts.add(entry[2])
        }
      }
    })) as unknown as IdTable[]
  })
  let added = 0
  /** Tells how many tables have been read so far. */
  const add = (c: number, d: number, second: number, horizon: number) => {
    const number = added++ % tables.length
    tables[number]!.entries.push([c, d, second])
    shares.add(c, d, number, second, horizon)
    return tables.reduce((sum, { reads }) => sum + reads, 0)
  }
  return { shares, add }
}

t.test('a key has its share exactly, whenever its records came', async t => {
  const { shares, add } = createShares()
  const [c, d] = [0x12345678, 0x9abcdef]
  add(1 << 20, 1 << 8, START + 10, START)
  for (let n = 0; n < 49; n++) add(c, d, START + 1000, START)
  for (let n = 0; n < 50; n++) add(c, d, START + 1000, START + 20)
  t.equal(shares.isSpent(c, d, START + 20), false, 'one is left')
  add(c, d, START + 1000, START + 20)
  t.equal(shares.isSpent(c, d, START + 20), true)
})

t.test('tables are read only for a key that comes near its share, each once, one for each record', async t => {
  const { shares, add } = createShares()
  t.strictSame(
    Array.from({ length: 1000 }, (_, n) => add(n << 20, n << 8, START + 300, START)).filter(reads => reads !== 0),
    [],
    'not for other keys'
  )
  const [c, d] = [0x12345678, 0x9abcdef]
  const reads: number[] = []
  for (let n = 1; n < 100; n++) reads.push(add(c, d, START + 300, START))
  t.equal(shares.isSpent(c, d, START), false, 'one is left')
  reads.push(add(c, d, START + 301, START))
  t.equal(reads.findIndex(count => count > 0) >= 40, true, 'not before half of the share')
  t.strictSame(reads.filter(count => count > 0).slice(0, 5), [1, 2, 3, 4, 4], 'one table for each record')
  t.equal(reads.at(-1), 4, 'and no more, since the key is counted by itself now')
  t.equal(shares.isSpent(c, d, START), true)
  t.equal(shares.isSpent(c, d + 2 ** 12, START), false, 'another key is not spent')
  t.equal(shares.isSpent(c, d, START + 300), false, 'what is dead does not count')

  for (const [other, word] of [[c, d + 2 ** 20], [c + 2 ** 20, d]] as const) {
    for (let n = 0; n < 40; n++) {
      t.equal(add(other, word, START + 300, START), 4, 'one bucket that is full by another key is not enough')
    }
  }
})

t.test('a key whose buckets are both full by another one is counted by itself, and has its whole share', async t => {
  const { shares, add } = createShares()
  const [c, d] = [0x12345678, 0x9abcdef]
  const twin = d + 2 ** 11
  for (let n = 0; n < 60; n++) add(c, d, START + 300, START)
  t.strictSame(Array.from({ length: 6 }, () => add(c, twin, START + 300, START)), [5, 6, 7, 8, 8, 8])
  for (let n = 6; n < 99; n++) add(c, twin, START + 300, START)
  t.equal(shares.isSpent(c, twin, START), false, 'one is left')
  t.equal(add(c, twin, START + 300, START), 8)
  t.equal(shares.isSpent(c, twin, START), true)
  t.equal(shares.isSpent(c, d, START), false)
})

t.test('a key that is counted by itself is not counted anew while the tables are read for another one', async t => {
  const { shares, add } = createShares()
  const [c, d] = [0x12345678, 0x9abcdef]
  const twin = d + 2 ** 20
  const addMany = (count: number, d: number) =>
    Array.from({ length: count }, () => add(c, d, START + 300, START)).at(-1)!
  t.equal(addMany(60, d), 4)
  t.equal(addMany(50, twin), 5, 'the first table has been read for the twin')
  // Each of these comes into one of the tables, also into those that were read.
  t.equal(addMany(39, d), 5)
  t.equal(shares.isSpent(c, d, START), false, 'one is left')
  addMany(1, d)
  t.equal(shares.isSpent(c, d, START), true)
  t.equal(addMany(49, twin), 8, 'the others for its later records')
  t.equal(shares.isSpent(c, twin, START), false, 'one is left')
  addMany(1, twin)
  t.equal(shares.isSpent(c, twin, START), true)
})

t.test('a key that had many records is counted by itself until none of them lives', async t => {
  const { shares, add } = createShares()
  const addMany = (count: number, [c, d]: readonly [number, number], second: number, horizon: number) =>
    Array.from({ length: count }, () => add(c, d, second, horizon)).at(-1)!
  const [key, other, third] = [[0x12345678, 0x9abcdef], [0x23456789, 0xabcdef0], [0x3456789a, 0xbcdef01]] as const
  t.equal(addMany(1, key, START + 20, START), 0)
  t.equal(addMany(60, key, START + 10, START), 4, 'it is counted by itself')
  t.equal(
    addMany(60, other, START + 300, START + 10),
    8,
    'for another key the tables are read, and one record still lives'
  )
  t.equal(addMany(98, key, START + 20, START + 10), 8)
  t.equal(shares.isSpent(...key, START + 10), false, 'one is left')
  addMany(1, key, START + 20, START + 10)
  t.equal(shares.isSpent(...key, START + 10), true)
  t.equal(addMany(60, third, START + 600, START + 300), 12, 'for the third key they are read again, and none lives')
  t.equal(addMany(49, key, START + 600, START + 300), 12, 'so its records are counted in its buckets')
  t.equal(addMany(1, key, START + 600, START + 300), 13, 'which have half of its share')
})

t.test('seconds count without a sign, until the year 2106', t => {
  const late = 2 ** 32 - 1000
  const table = new IdTable(KEY, 0)
  const hash = hashWords(KEY, 1, 2, 3, 4)
  const find = (horizon: number) => table.slotFor(hash, 1, 2, 3, 4, horizon)
  table.put(find(late - 1), 1, 2, 3, 4, late)
  t.strictSame([find(late - 1) < 0, find(late) < 0], [true, false], 'it lives, and then it is dead')
  const live = (c: number, d: number, horizon: number) => {
    const visited: number[] = []
    table.countEachOf(c, d, horizon, { add: second => visited.push(second) })
    return visited
  }
  t.strictSame([live(3, 4, late - 1), live(3, 4, late), live(3, 5, 0), live(2, 4, 0)], [[late], [], [], []])
  table.rebuild(late - 1)
  t.equal(table.used, 1)
  t.equal(find(late - 1), -1)
  table.rebuild(late)
  t.equal(table.used, 0)

  let time = 2 ** 31 - 100
  const store = createMemoryStore({ max: 1000, now: () => time, steadyMs: () => time * 1000, randomBytes })
  const put = (expiresAt: number) => record(store, idOf('a'), jktOf('a'), expiresAt)
  t.strictSame(
    [put(2 ** 31 + 150), put(2 ** 31 + 150), put(2 ** 31 + 50)],
    ['first', 'seen', 'seen'],
    'as in January 2038'
  )
  time += 200
  t.equal(put(2 ** 31 + 150), 'seen')
  t.equal(store.state().entries, 1)
  time += 100
  t.equal(store.state().entries, 0)
  t.end()
})

t.test('keys are told apart, whatever the random bytes are', t => {
  for (const byte of [0, 2, 254, 255]) {
    const store = createMemoryStore({
      max: 1000,
      now: () => START,
      steadyMs: () => 0,
      randomBytes: size => Buffer.alloc(size, byte)
    })
    const outcomes = Array.from({ length: 500 }, (_, n) => record(store, idOf(n), jktOf(n), START + 60))
    t.strictSame([...new Set(outcomes)], ['first'], `${byte}`)
  }
  t.end()
})

t.test('a proof passes only once, even if the clock is set behind the year 2106', async t => {
  for (const start of [2 ** 32 - 200_000, 2 ** 32 - 100, 2 ** 32 + 5000, 2 ** 33]) {
    const world = createWorld(10, start)
    const outcomes = [1, 2, 3].map(() => world.record('a', start + 60))
    t.strictSame(outcomes, ['first', 'seen', 'seen'], `started at ${start}`)
  }
})

t.test('a table is rebuilt to twice of what lives in it, also in the year 2106', async t => {
  for (const second of [START, 2 ** 32 - 1000]) {
    const table = new IdTable(KEY, 0)
    t.equal(table.used, 0)
    for (let n = 0; !table.crowded; n++) {
      table.put(table.slotFor(hashWords(KEY, n, 2, 3, 4), n, 2, 3, 4, second - 1), n, 2, 3, 4, second)
    }
    t.equal(table.used, 96)
    table.rebuild(second - 1)
    t.strictSame([table.used, table.bytes], [96, 2 * 96 * 20])
    table.rebuild(second)
    t.strictSame([table.used, table.bytes], [0, 128 * 20], 'and never smaller than at its beginning')
  }
})

t.test('a store begins with as many small tables as its size needs', async t => {
  const tablesOf = (max: number) => createWorld(max).store.state().bytes! / (128 * 5 * 4)
  t.strictSame([1, 4096, 4097, 8192, 8193, 2_000_000].map(tablesOf), [1, 1, 2, 2, 4, 512])
})

t.test('a leap of both clocks is believed', async t => {
  let time = START
  const clock = createExpiryClock({ now: () => time, steadyMs: () => time * 1000 })
  time += 1e6
  t.equal(clock.passed(330), time)
  t.equal(clock.wall, time)
})

t.test('a key has its share and no more, however its records are spread over time', async t => {
  const world = createWorld(400)
  let name = 0
  const fill = (count: number) => Array.from({ length: count }, () => world.record(name++, START + 1000, 'k'))
  world.record('short', START + 1, 'k')
  t.strictSame(new Set(fill(40)), new Set(['first']))
  world.pass(20 + LATE_RECORD_SECONDS)
  t.strictSame(new Set(fill(60)), new Set(['first']))
  t.strictSame(fill(3), ['replay_share_exceeded', 'replay_share_exceeded', 'replay_share_exceeded'])
  t.equal(world.store.state().entries, 100)
  t.equal(world.record('other', START + 1000), 'first')
})

t.test('the store agrees with a simple one, whatever is recorded and however time passes', async () => {
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('record' as const),
        name: fc.nat(60),
        ttl: fc.integer({ min: -10, max: 40 })
      })
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('pass' as const),
        name: fc.constant(0),
        ttl: fc.double({ min: 0, max: 12, noNaN: true })
      })
    }
  )
  const keyOf = (name: number) => Math.floor(Math.sqrt(name))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), fc.integer({ min: 1, max: 50 }), (steps, max) => {
      const world = createWorld(max)
      const model = new Map<number, number>()
      for (const { kind, name, ttl } of steps) {
        if (kind === 'pass') {
          world.pass(ttl)
          continue
        }
        const passed = Math.floor(world.time)
        for (const [key, second] of model) if (second <= passed) model.delete(key)
        const second = Math.floor(world.time + ttl) + 1 + LATE_RECORD_SECONDS
        const known = model.get(name)
        const ofKey = [...model.keys()].filter(other => keyOf(other) === keyOf(name)).length
        const expected = second <= passed
          ? 'replay_unavailable'
          : known !== undefined
            ? 'seen'
            : ofKey >= Math.max(1, Math.floor(max / 4))
              ? 'replay_share_exceeded'
              : model.size >= max
                ? 'replay_full'
                : 'first'
        if (expected === 'first') model.set(name, second)
        if (world.record(name, world.time + ttl, keyOf(name)) !== expected) return false
        if (world.store.state().entries !== model.size) return false
      }
      return true
    }),
    { seed: SEED, numRuns: 200 }
  )
})

t.test('counts agree with a plain list, wherever time goes', async () => {
  const step = fc.record({ kind: fc.constantFrom('add', 'move'), ahead: fc.integer({ min: -20, max: 60 }) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const counts = new ExpiryCounts(START)
      let horizon = START
      let listed: number[] = []
      for (const { kind, ahead } of steps) {
        if (kind === 'move') horizon += ahead
        else if (ahead > 0) {
          counts.add(horizon + ahead)
          listed.push(horizon + ahead)
        }
        listed = listed.filter(second => second > horizon)
        counts.moveTo(horizon)
        if (counts.live !== listed.length) return false
      }
      return true
    }),
    { seed: SEED, numRuns: 300 }
  )
})

t.test('a table finds what it holds, also around its end, and forgets the dead only when rebuilt', async t => {
  const key = [1, 3, 5, 7] as const
  const table = new IdTable(key, 0)
  // All of them belong to the last slot.
  const hash = 0xffffffff
  const find = (n: number, horizon: number) => table.slotFor(hash, n, 0, 0, 0, horizon)
  const slots = Array.from({ length: 8 }, (_, index) => {
    const slot = find(index + 1, START)
    t.ok(slot >= 0)
    table.put(slot, index + 1, 0, 0, 0, START + index + 1)
    return slot
  })
  t.equal(new Set(slots).size, 8)
  for (let n = 1; n <= 8; n++) t.equal(find(n, START), -1)
  t.equal(find(1, START + 1), slots[0], 'it is dead, and its slot is free again')
  t.equal(find(9, START + 2), slots[0], 'of two such slots, the first')
  t.equal(find(2, START + 1), -1, 'behind a dead one')
  t.equal(table.used, 8)
  for (const [a, b, c, d] of [[2, 1, 0, 0], [2, 0, 1, 0], [2, 0, 0, 1]] as const) {
    t.ok(table.slotFor(hash, a, b, c, d, START) >= 0, 'every word is compared')
  }
  table.rebuild(START + 4)
  t.equal(table.used, 4)
  t.equal(table.slotFor(hashWords(key, 5, 0, 0, 0), 5, 0, 0, 0, START + 4), -1)
  t.ok(table.slotFor(hashWords(key, 4, 0, 0, 0), 4, 0, 0, 0, START + 4) >= 0)
})

t.test('ids are spread over the whole table, so that the search for one is short', async t => {
  const table = new IdTable(KEY, 1)
  const words = table.bytes / 4
  const placesOf = (hashes: readonly number[]) => hashes.map(hash => table.slotFor(hash, 1, 2, 3, 4, START))
  const [half, whole] = [2 ** 30, 2 ** 31]
  t.strictSame(placesOf([0, half, whole - 1]), [0, words / 2, words - 5])
  t.strictSame(
    placesOf([whole, whole + half, 2 * whole - 1]),
    [0, words / 2, words - 5],
    'the first bit has chosen the table'
  )
})

t.test('the store that is off lets every record pass', async t => {
  const store = createOffStore()
  t.equal(record(store, idOf('a'), jktOf('a'), START), 'first')
  t.equal(record(store, idOf('a'), jktOf('a'), START), 'first')
  t.hasStrict(store.state(), { kind: 'off', ready: true, records: 2, seen: 0, refused: 0 })
  await store.close()
})
