import { hash, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Refusal } from '../../../lib/refusal.ts'
import { createExpiryCounts } from '../../../lib/replay/expiry-counts.ts'
import { hashWords, IdTable } from '../../../lib/replay/id-table.ts'
import { createMemoryStore } from '../../../lib/replay/memory-store.ts'
import { createOffStore } from '../../../lib/replay/off-store.ts'
import { LATE_CLAIM_SECONDS } from '../../../lib/replay/replay-store.ts'
import type { ReplayStore } from '../../../lib/replay/replay-store.ts'
import { createStoreClock } from '../../../lib/replay/store-clock.ts'

const START = 1_800_000_000
const idOf = (name: string | number): string => hash('sha256', String(name), 'binary')

type Outcome = 'first' | 'seen' | 'replay_full' | 'replay_unavailable'

function claim (store: ReplayStore, id: string, expiresAt: number): Outcome {
  let outcome: Outcome | undefined
  store.claim(id, expiresAt, (refusal, first) => {
    outcome = refusal ? (refusal as Refusal).reason as Outcome : first ? 'first' : 'seen'
  })
  return outcome!
}

/** A store on clocks that the test moves: `time` is the wall clock, `steady` the monotonic one. */
function createWorld (max: number) {
  const world = {
    time: START,
    steady: 0,
    pass (seconds: number) {
      world.time += seconds
      world.steady += seconds
    },
    store: undefined as unknown as ReplayStore,
    claim: (name: string | number, expiresAt: number) => claim(world.store, idOf(name), expiresAt)
  }
  world.store = createMemoryStore({ max, now: () => world.time, monotonic: () => world.steady, random: randomBytes })
  return world
}

t.test('the first claim of an id passes, and no other until its proof is too old', async (t) => {
  const world = createWorld(10)
  t.equal(world.claim('a', START + 330.5), 'first')
  t.equal(world.claim('b', START + 330.5), 'first', 'another id is another matter')
  for (const seconds of [0, 1, 329, 0.5]) {
    world.pass(seconds)
    t.equal(world.claim('a', START + 330.5), 'seen', `${world.time - START} seconds later`)
  }
  t.match(world.store.state(), { kind: 'memory', ready: true, reason: undefined, entries: 2, max: 10, claims: 6, seen: 4, refused: 0 })
  world.pass(1 + LATE_CLAIM_SECONDS)
  t.equal(world.store.state().entries, 0, 'both are dead')
  t.equal(world.claim('a', world.time + 1), 'first', 'the id is free again')
})

t.test('a record that is seen with a later expiry lives until the later one, and never the shorter', async (t) => {
  const world = createWorld(10)
  world.claim('a', START + 10)
  t.equal(world.claim('a', START + 100), 'seen')
  t.equal(world.claim('a', START + 20), 'seen')
  t.equal(world.store.state().entries, 1)
  world.pass(100)
  t.equal(world.claim('a', START + 100), 'seen')
  world.pass(1 + LATE_CLAIM_SECONDS)
  t.equal(world.store.state().entries, 0)
})

t.test('of 1,000 copies at the same moment exactly one passes', async (t) => {
  const world = createWorld(10)
  const outcomes = Array.from({ length: 1000 }, () => world.claim('a', START + 330))
  t.equal(outcomes.filter(outcome => outcome === 'first').length, 1)
  t.equal(outcomes.filter(outcome => outcome === 'seen').length, 999)
})

t.test('a full store refuses new ids, knows the old ones, and is free as soon as they die', async (t) => {
  for (const max of [1, 3, 10_000]) {
    const world = createWorld(max)
    const outcomes = Array.from({ length: max }, (_, n) => world.claim(n, START + 330))
    t.ok(outcomes.every(outcome => outcome === 'first'))
    t.equal(world.claim('more', START + 330), 'replay_full', `${max} records`)
    t.equal(world.claim(0, START + 330), 'seen')
    t.match(world.store.state(), { ready: true, reason: 'full', entries: max, refused: 1 })
    world.pass(330 + LATE_CLAIM_SECONDS)
    t.equal(world.claim('more', START + 400), 'replay_full', 'the last second counts')
    world.pass(1)
    t.equal(world.claim('more', START + 400), 'first')
    t.match(world.store.state(), { reason: max === 1 ? 'full' : undefined, entries: 1 })
  }
})

t.test('memory follows the number of live records, down as well as up', async (t) => {
  const world = createWorld(100_000)
  const empty = world.store.state().bytes!
  for (let n = 0; n < 100_000; n++) world.claim(n, START + 330)
  const full = world.store.state().bytes!
  t.ok(full / 100_000 < 60, `${full / 100_000} bytes a record`)
  world.pass(400)
  for (let n = 0; n < 64; n++) world.claim(`late ${n}`, world.time + 330)
  t.ok(world.store.state().bytes! <= empty * 2, 'a claim for each table is enough to give it back')
  t.equal(world.store.state().entries, 64)
})

t.test('a claim whose time is not one, or that comes too late, is not decided', async (t) => {
  const world = createWorld(10)
  for (const expiresAt of [Number.NaN, -Infinity, 0, START - LATE_CLAIM_SECONDS - 1]) {
    t.equal(world.claim('a', expiresAt), 'replay_unavailable', String(expiresAt))
  }
  t.equal(world.store.state().entries, 0)
  t.equal(world.claim('a', START - LATE_CLAIM_SECONDS), 'first', 'a proof judged in time may be a little late')
  t.equal(world.claim('a', START - LATE_CLAIM_SECONDS), 'seen')
})

t.test('an expiry beyond all measure is kept as long as can be', async (t) => {
  for (const expiresAt of [Infinity, 1e308, 2 ** 53, 2 ** 32, START + 3e8]) {
    const world = createWorld(10)
    t.equal(world.claim('a', expiresAt), 'first', String(expiresAt))
    world.pass(2e8)
    t.equal(world.claim('a', expiresAt), 'seen')
    t.equal(world.claim('b', world.time + 10), 'first', 'and does not disturb others')
    world.pass(20)
    t.equal(world.store.state().entries, 1)
  }
})

t.test('windows of days are counted as well', async (t) => {
  const world = createWorld(1000)
  for (let n = 0; n < 1000; n++) world.claim(n, START + n * 3600)
  t.equal(world.store.state().entries, 1000)
  for (let n = 0; n < 1000; n += 50) {
    t.ok(world.claim(n, START + n * 3600) === 'seen')
    world.pass(50 * 3600)
    const { entries } = world.store.state()
    t.ok(entries! >= 1000 - n - 51 && entries! <= 1000 - n - 50 + 37, `${entries} after ${n + 50} hours: at most 36 hours too many`)
  }
  world.pass(37 * 3600)
  t.equal(world.store.state().entries, 0)
})

t.test('a closed store decides nothing', async (t) => {
  const world = createWorld(10)
  world.claim('a', START + 330)
  await world.store.close()
  t.equal(world.claim('a', START + 330), 'replay_unavailable')
  t.equal(world.claim('b', START + 330), 'replay_unavailable')
  t.match(world.store.state(), { ready: false, reason: 'closed', bytes: 0 })
})

t.test('a clock that goes back brings no dead record back to life', async (t) => {
  const world = createWorld(10)
  world.claim('a', START + 10)
  world.claim('b', START + 330)
  world.pass(20)
  t.equal(world.store.state().entries, 1)
  world.time -= 15
  t.equal(world.claim('a', START + 10), 'replay_unavailable', 'its record is forgotten, so its copies cannot be told')
  t.equal(world.claim('b', START + 330), 'seen')
  t.equal(world.claim('c', START + 330), 'first', 'younger proofs are not touched')
  t.equal(world.store.state().reason, 'clock_went_back')
  world.pass(15)
  t.equal(world.store.state().reason, undefined)
})

t.test('a clock that goes back before any record has died costs nothing', async (t) => {
  const world = createWorld(10)
  world.claim('a', START + 330)
  world.time -= 3600
  t.equal(world.claim('b', world.time + 330), 'first')
  t.equal(world.claim('b', world.time + 330), 'seen')
  t.equal(world.claim('a', START + 330), 'seen')
  world.pass(330 + LATE_CLAIM_SECONDS + 1)
  t.equal(world.store.state().entries, 1)
  world.time -= 2 ** 17
  t.equal(world.claim('c', world.time + 330), 'replay_unavailable', 'unless by more than the counters span')
})

t.test('a clock that leaps forwards and back in time has killed nothing', async (t) => {
  const world = createWorld(10)
  world.claim('a', START + 330)
  world.pass(10)
  world.time += 3600
  t.equal(world.claim('b', world.time + 330), 'first')
  world.pass(200)
  t.equal(world.claim('a', START + 330), 'seen', 'the leap is not believed yet')
  world.time -= 3600
  t.equal(world.claim('a', START + 330), 'seen')
  t.equal(world.claim('c', world.time + 330), 'first')
})

t.test('a clock that leaps forwards and stays there is believed after one window', async (t) => {
  const world = createWorld(10)
  world.claim('a', START + 330)
  world.time += 3600
  t.equal(world.store.state().entries, 1)
  world.pass(100)
  t.equal(world.store.state().entries, 1)
  world.pass(240)
  t.equal(world.store.state().entries, 0)
  t.equal(world.claim('a', world.time + 330), 'first')
})

t.test('without a monotonic clock every leap is believed', async (t) => {
  let time = START
  const clock = createStoreClock(() => time)
  time += 1e6
  t.equal(clock.passed(330), time)
  t.equal(clock.wall, time)
})

t.test('counters agree with a plain list of what they counted, wherever time goes', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('add' as const), ahead: fc.oneof(fc.nat(400), fc.nat(2 ** 18), fc.nat(2 ** 30)) }),
    fc.record({ kind: fc.constant('remove' as const), ahead: fc.nat(50) }),
    fc.record({ kind: fc.constant('move' as const), ahead: fc.oneof(fc.integer({ min: -50, max: 400 }), fc.integer({ min: -(2 ** 17), max: 2 ** 18 }), fc.nat(2 ** 29)) })
  )
  fc.assert(fc.property(fc.array(step, { maxLength: 40 }), steps => {
    const counts = createExpiryCounts(START)
    let listed: number[] = []
    for (const { kind, ahead } of steps) {
      if (kind === 'add') {
        const wanted = counts.horizon + 1 + ahead
        const second = counts.round(wanted)
        if (second < wanted && wanted < 2 ** 32 - 2 ** 17) return false
        if (second <= counts.horizon) continue
        counts.add(second)
        listed.push(second)
      } else if (kind === 'remove' && listed.length > 0) {
        counts.remove(listed.splice(ahead % listed.length, 1)[0]!)
      } else if (kind === 'move') {
        counts.moveTo(counts.horizon + ahead)
        listed = listed.filter(second => second > counts.horizon)
      }
      if (counts.live !== listed.length) return false
    }
    return true
  }), { numRuns: 300 })
})

t.test('the store agrees with a simple one, whatever is claimed and however time passes', async () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('claim' as const), name: fc.nat(60), ttl: fc.integer({ min: -10, max: 40 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('pass' as const), name: fc.constant(0), ttl: fc.double({ min: 0, max: 12, noNaN: true }) }) }
  )
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), fc.integer({ min: 1, max: 50 }), (steps, max) => {
    const world = createWorld(max)
    const model = new Map<number, number>()
    for (const { kind, name, ttl } of steps) {
      if (kind === 'pass') {
        world.pass(ttl)
        continue
      }
      const passed = Math.floor(world.time)
      for (const [key, second] of model) if (second <= passed) model.delete(key)
      const second = Math.floor(world.time + ttl) + 1 + LATE_CLAIM_SECONDS
      const known = model.get(name)
      const expected = second <= passed ? 'replay_unavailable' : known !== undefined ? 'seen' : model.size >= max ? 'replay_full' : 'first'
      if (expected === 'first' || expected === 'seen') model.set(name, Math.max(second, known ?? 0))
      if (world.claim(name, world.time + ttl) !== expected) return false
      if (world.store.state().entries !== model.size) return false
    }
    return true
  }), { numRuns: 200 })
})

t.test('a table finds what it holds, also around its end, and forgets the dead only when rebuilt', async (t) => {
  const key = [1, 3, 5, 7] as const
  const table = new IdTable(key, 0)
  // All of them belong to the last slot.
  const hash = 0xffffffff
  for (let n = 1; n <= 8; n++) {
    const at = table.find(hash, n, 0, 0, 0, START)
    t.ok(at < 0)
    table.put(-1 - at, n, 0, 0, 0, START + n)
  }
  for (let n = 1; n <= 8; n++) t.equal(table.secondAt(table.find(hash, n, 0, 0, 0, START)), START + n)
  t.ok(table.find(hash, 1, 0, 0, 0, START + 1) < 0, 'it is dead')
  t.equal(table.used, 8)
  for (const [a, b, c, d] of [[2, 1, 0, 0], [2, 0, 1, 0], [2, 0, 0, 1]] as const) t.ok(table.find(hash, a, b, c, d, START) < 0, 'every word counts')
  table.rebuild(START + 4)
  t.equal(table.used, 4)
  t.ok(table.find(hashWords(key, 5, 0, 0, 0), 5, 0, 0, 0, START + 4) >= 0)
  t.ok(table.find(hashWords(key, 4, 0, 0, 0), 4, 0, 0, 0, START + 4) < 0)
})

t.test('the store that is off lets every claim pass', async (t) => {
  const store = createOffStore()
  t.equal(claim(store, idOf('a'), START), 'first')
  t.equal(claim(store, idOf('a'), START), 'first')
  t.match(store.state(), { kind: 'off', ready: true, claims: 2, seen: 0, refused: 0 })
  await store.close()
})
