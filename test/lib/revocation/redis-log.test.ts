import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { keyOf } from '../../../lib/revocation/target.ts'
import type { RevocationEntry } from '../../../lib/revocation/log.ts'
import { createMemoryLog, UndecidedError } from '../../../lib/revocation/log.ts'
import { writeEntry } from '../../../lib/revocation/redis-entries.ts'
import * as scripts from '../../../lib/revocation/redis-scripts.ts'
import { startLogReader } from '../../helpers/log-reader.ts'
import { HASTE, startRevocationStore } from '../../helpers/revocation-store.ts'
import { until } from '../../helpers/until.ts'

const NOW = 1_800_000_000
const KEY = keyOf(['sub', 'https://issuer.example/', 'u1'])
const OTHER = keyOf(['sub', 'https://issuer.example/', 'u2'])
const entry = (given: Partial<RevocationEntry> = {}): RevocationEntry => ({
  key: KEY,
  effect: 'cutoff',
  at: NOW,
  recordedAt: NOW,
  event: 'session-revoked',
  source: 'https://transmitter.example',
  sender: 'https://issuer.example',
  standing: 'issuer',
  ...given
})

/** As the log has it. */
const written = (given: Partial<RevocationEntry> = {}): string => writeEntry(entry(given), NOW * 1000)
const whole = (): object => JSON.parse(written())

/** How long a sender waits. It is not shortened: on a busy machine an answer may take that long. */
const PATIENCE_MS = 1000

function startInstance (t: Test, store: ReturnType<typeof startRevocationStore>) {
  const clock = { ms: 0 }
  const wall = { now: NOW }
  const pauses: number[] = []
  const surroundings: Parameters<typeof startLogReader>[1]['surroundings'] = {
    now: () => wall.now,
    steadyMs: () => clock.ms,
    randomBytes,
    after (ms, run) {
      pauses.push(ms)
      const timer = setTimeout(run, ms === PATIENCE_MS ? ms : ms / HASTE)
      return () => clearTimeout(timer)
    }
  }
  const reader = startLogReader(t, { open: store.open, surroundings, retentionSeconds: 100 })
  return { ...reader, clock, wall, pauses, isRevoked: (key = KEY) => reader.isRevoked(key) }
}

t.test('An entry takes effect at once at the instance that appended it, and soon at the others', async t => {
  const store = startRevocationStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  t.strictSame([one.ageMs(), one.fault()], [Infinity, undefined])
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry()])
  t.equal(one.isRevoked(), true)
  t.equal(one.isRevoked(OTHER), false)
  await until('the other reads it', () => two.isRevoked())
  two.clock.ms = 2000
  await until('the log answers again', () => two.ageMs() === 0)
  t.strictSame(two.changes, [], 'nothing has changed for either')
  t.strictSame(store.asked.at(-1)!.slice(0, 6), ['COUNT', '1', 'BLOCK', '200', 'STREAMS', '{holdfast:revocation}:log'])
})

t.test('Senders that append the same at one moment are all told that it is stored', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await Promise.all([one.append([entry()]), one.append([entry()]), one.append([entry()])])
  t.equal(one.isRevoked(), true)
  t.equal(store.rows.length, 3)
})

t.test('An instance reads all of the log before it counts as loaded, many entries and blocks too', async t => {
  const store = startRevocationStore()
  const first = startInstance(t, store)
  await first.loaded()
  await first.append(Array.from({ length: 2500 }, (_, n) => entry({ key: `k${n}` })))
  await first.append([entry({ effect: 'block', at: NOW - 50 }), entry({ key: OTHER, effect: 'block' })])
  await first.append([entry({ key: OTHER, effect: 'enable', at: NOW })])
  const second = startInstance(t, store)
  await second.loaded()
  t.equal(second.cutoffs.size(), 2502)
  t.equal(second.isRevoked('k2499'), true)
  t.equal(second.isRevoked(), true, 'the block')
})

t.test('An undo takes back all entries so far, blocks too, and a later entry takes effect', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry(), entry({ effect: 'block' })])
  await one.append([entry({ effect: 'undo' })])
  t.equal(one.isRevoked(), false)
  const two = startInstance(t, store)
  await two.loaded()
  t.equal(two.isRevoked(), false)
  await one.append([entry()])
  t.equal(one.isRevoked(), true)
  await until('the other reads it', () => two.isRevoked())
})

t.test('A store that was emptied gets all back, even if its clock is behind', async t => {
  for (const isConnected of [true, false]) {
    const store = startRevocationStore()
    const [one, two] = [startInstance(t, store), startInstance(t, store)]
    await Promise.all([one.loaded(), two.loaded()])
    await one.append([entry(), entry({ key: OTHER, effect: 'block' })])
    await until('the other reads it', () => two.isRevoked(OTHER))
    if (!isConnected) store.drop()
    store.empty()
    store.clockMs -= 60_000
    if (!isConnected) store.rise()
    await until('all is back', () => store.rows.length >= 2)
    const late = startInstance(t, store)
    await late.loaded()
    t.equal(late.isRevoked(), true)
    t.equal(late.isRevoked(OTHER), true)
    await delay(50)
    await one.append([entry({ key: 'new' })])
    await until('what comes then is read', () => two.isRevoked('new'))
  }
})

t.test('What only one instance has read is restored, even if another one writes to the emptied store before it', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  const two = startInstance(t, store)
  await two.loaded()
  await two.append([entry()])
  // No timer runs between these, so the first instance reads nothing of the second.
  store.empty()
  await one.append([entry({ key: OTHER })])
  await until('the first has what the second restored', () => one.isRevoked())
  await until('the second has what the first wrote', () => two.isRevoked(OTHER))
})

t.test('No view is current while others may be restoring what was lost', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry()])
  store.empty()
  store.isRestoring = true
  await until('it has seen the loss', () => one.ageMs() === Infinity)
  t.equal(one.isLoaded(), false)
  await until('it has restored its own', () => store.rows.length > 0)
  const late = startInstance(t, store)
  await delay(50)
  t.strictSame([one.ageMs(), late.ageMs()], [Infinity, Infinity])
  store.add(written({ key: OTHER }), `${store.clockMs}-900`)
  store.isRestoring = false
  for (const instance of [one, late]) {
    await instance.loaded()
    t.strictSame([instance.isRevoked(), instance.isRevoked(OTHER)], [true, true])
  }
})

t.test('An instance that restores keeps others waiting', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry()])
  store.empty()
  // Others have seen the loss long ago.
  store.epoch = 'of others'
  const calls: string[] = []
  let isSaid: boolean | undefined
  store.onCall = name => {
    calls.push(name)
    const [, page, next] = calls.slice(calls.indexOf('REWRITE')).filter(name => name !== 'xread')
    if (!calls.includes('REWRITE') || page === undefined) return
    if (next === undefined) store.epoch = 'of others'
    else isSaid ??= store.epoch !== 'of others'
  }
  await until('it restores, and has read another page', () => isSaid !== undefined)
  t.ok(isSaid, 'it says so with each page that it reads')
})

t.test('A store that is emptied while an instance waits for others is not taken as complete', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await until('it waits', () => store.epoch !== null)
  const first = store.epoch
  store.empty()
  await one.loaded()
  t.type(store.epoch, 'string')
  t.not(store.epoch, first)
})

t.test('An undo takes back nothing that comes after a loss of the data, even if the new clock is behind', async t => {
  const store = startRevocationStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry()])
  await one.append([entry({ effect: 'undo' })])
  await until('the other reads it', () => two.isLoaded() && !two.isRevoked() && store.rows.length === 2)
  await delay(20)
  store.empty()
  store.clockMs -= 60_000
  await until('both have seen it', () => one.ageMs() === Infinity)
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry()])
  t.equal(one.isRevoked(), true)
  await until('the other reads it', () => two.isRevoked())
})

t.test('An instance that starts gives others the time to restore, even if the epoch exists', async t => {
  const store = startRevocationStore()
  store.epoch = 'of others'
  const one = startInstance(t, store)
  await until('it has read all', () => store.asked.length > 0)
  t.strictSame([one.pauses, one.ageMs()], [[600], Infinity])
  await one.loaded()
})

t.test('While one instance restores, all others wait, even if their data are complete', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  store.isRestoring = true
  await until('it has seen that', () => one.ageMs() === Infinity)
  store.add(written(), `${store.clockMs}-900`)
  await until('it reads on', () => one.isRevoked())
  t.equal(one.ageMs(), Infinity)
  store.isRestoring = false
  await one.loaded()
  store.drop()
  store.isRestoring = true
  store.rise()
  await until('it has seen that on a new connection', () => one.ageMs() === Infinity)
  store.isRestoring = false
  await one.loaded()
})

t.test('An entry is acknowledged only once the instance that has written it has read it, and so restores it', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  // The reader is away, and the writer is not.
  store.drop()
  store.isUp = true
  await t.rejects(one.append([entry()]), new UndecidedError('the log of revocations cannot be written'))
  t.equal(one.isRevoked(), false)
  store.rise()
  await until('it is read all the same', () => one.isRevoked())
  let answer: () => void
  store.written = new Promise(resolve => {
    answer = resolve
  })
  const appended = one.append([entry({ key: OTHER })])
  await until('it is read before the answer comes', () => one.isRevoked(OTHER))
  store.empty()
  store.epoch = 'of others'
  await until('it is restored', () => store.rows.length === 2)
  answer!()
  await appended
})

t.test('A view is current only once it has caught up', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  const behind: number[] = []
  store.onCall = command => {
    if (command === 'READ' && one.cutoffs.size() % 1000 === 0 && one.cutoffs.size() > 0) behind.push(one.ageMs())
  }
  one.clock.ms = 5000
  await until('the log answers', () => one.ageMs() === 0)
  one.clock.ms = 9000
  for (let n = 0; n < 2500; n++) store.add(written({ key: `k${n}` }), `${store.clockMs}-${1000 + n}`)
  await until('it has read all', () => one.cutoffs.size() === 2500 && one.ageMs() === 0)
  t.ok(behind.length > 0 && behind.every(age => age === 4000), `${behind}`)
})

t.test('A log that is closed before all of it was read never counts as read', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await until('it waits for others to restore their entries', () => store.epoch !== null)
  one.close()
  // Longer than that wait.
  await delay(4000 / HASTE)
  t.equal(one.isLoaded(), false)
  const two = startInstance(t, store)
  await two.loaded()
  t.equal(two.isLoaded(), true)
})

t.test('A store that lost its last entries gets them back', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry()])
  await one.append([entry({ key: OTHER })])
  await delay(20)
  store.drop()
  store.rows.pop()
  store.rise()
  await until('all is back', () => store.rows.some(([, [, text]]) => JSON.parse(text!).key === OTHER))
  const late = startInstance(t, store)
  await late.loaded()
  t.equal(late.isRevoked(OTHER), true)
  t.equal(late.isRevoked(), true)
  t.strictSame([one.hasLost(), late.hasLost()], [true, false])
})

t.test('A store that cannot be written is an error, at once or after a second, and the entry is not in force', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  for (const fault of [new Error('READONLY You cannot write'), 'hang' as const]) {
    store.fault = fault
    await t.rejects(one.append([entry()]), new UndecidedError('the log of revocations cannot be written'))
    t.equal(one.isRevoked(), false)
  }
})

t.test('A fault is reported once, with its reason, and so is its end', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  store.fault = Object.assign(new Error('LOADING Redis is loading'), { name: 'ReplyError' })
  await until('it is reported', () => one.changes.length === 1)
  t.equal(one.fault(), 'loading')
  await delay(30)
  store.emitError(new Error('Connection is closed.'))
  t.strictSame(one.changes, ['loading'], 'an error that only says that there is no connection hides nothing')
  store.fault = undefined
  await until('it is over', () => one.changes.length === 2)
  store.drop()
  store.emitError(new Error('Connection is closed.'))
  await delay(30)
  t.equal(one.fault(), 'unreachable')
  store.rise()
  await until('it is over again', () => one.fault() === undefined)
  t.strictSame(one.changes, ['loading', null, 'unreachable', null])
  one.close()
  store.drop()
  t.equal(one.changes.length, 4, 'nothing is reported after the close')
})

t.test(
  'A command that a server refuses each time, while it lets the log be read, is one fault, and the log stays in ' +
    'force',
  async t => {
    const store = startRevocationStore()
    const one = startInstance(t, store)
    await one.loaded()
    let refused = 0
    store.onCall = name => {
      if (name !== 'xread') return
      refused++
      throw Object.assign(new Error('NOPERM User u has no permissions'), { name: 'ReplyError' })
    }
    await until('it was refused often', () => refused === 5)
    await one.append([entry()])
    t.strictSame([one.isRevoked(), one.isLoaded(), one.changes], [true, true, ['auth']])
    store.onCall = () => {}
    await until('it is over', () => one.fault() === undefined)
    t.strictSame(one.changes, ['auth', null])
  }
)

t.test('What began on an earlier connection ends with it', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  // While it waits for others to bring back what they know.
  await until('it has begun', () => store.epoch !== null)
  store.rise()
  await one.loaded()
  await delay(50)
  store.rise()
  await delay(30)
  store.fault = new Error('Connection is closed.')
  await until('it is reported', () => one.changes.length === 1)
  // Before the next attempt.
  store.fault = undefined
  store.rise()
  await until('it is over', () => one.changes.length === 2)
  await one.append([entry()])
  store.mostWaiting = 0
  await delay(50)
  t.equal(store.mostWaiting, 1, 'one reader waits for news')
  t.strictSame(one.changes, ['unreachable', null])
  t.equal(one.isRevoked(), true)
})

t.test('A log that hangs grows old', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  store.fault = 'hang'
  await delay(20)
  one.clock.ms = 11_000
  t.equal(one.ageMs(), 11_000)
  t.equal(one.isLoaded(), true)
})

t.test('An entry that no instance can have written is skipped', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  for (
    const text of [
      '{',
      'null',
      '"x"',
      '{}',
      JSON.stringify({ ...whole(), at: 'now' }),
      written({ at: 7 }).replace('"at":7', '"at":1e999'),
      JSON.stringify({ ...whole(), recordedAt: null }),
      JSON.stringify({ ...whole(), effect: 1 })
    ]
  ) store.add(text, `${store.clockMs}-${900 + store.rows.length}`)
  store.add(written({ key: OTHER }), `${store.clockMs}-950`)
  await until('the next one is read', () => one.isRevoked(OTHER))
  t.equal(one.cutoffs.size(), 1)
})

t.test('One instance leads a task, and none while the store is away', async t => {
  const store = startRevocationStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  t.equal(await one.lead('task'), true)
  t.equal(await two.lead('task'), false)
  t.equal(await two.lead('another'), true)
  t.equal(await one.lead('task'), true)
  store.fault = new Error('Connection is closed.')
  t.equal(await one.lead('task'), false)
})

t.test('The in-memory log is always loaded, and always leads', async t => {
  const seen: Array<[string, number, number]> = []
  const log = createMemoryLog(({ key }, age, place) => {
    seen.push([key, age, place])
  })
  await log.append([entry(), entry({ key: OTHER })])
  t.strictSame(seen, [[KEY, 0, 1], [OTHER, 0, 2]])
  t.equal(await log.lead('task'), true)
  t.strictSame([log.ageMs(), log.fault(), await log.isInStep(), log.hasLost()], [0, undefined, true, false])
  log.close()
})

const GREATEST = '18446744073709551615-18446744073709551615'
const killed = (store: ReturnType<typeof startRevocationStore>): void => {
  store.drop()
  store.rise()
}
const keysIn = (store: ReturnType<typeof startRevocationStore>): string[] =>
  store.rows.map(([, [, text]]) => JSON.parse(text).key)

t.test('A lost connection stops nothing: an instance reads on from its own place, and nothing again', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append(Array.from({ length: 1500 }, (_, n) => entry({ key: `k${n}` })))
  const { sent } = store
  killed(store)
  t.equal(one.isLoaded(), true, 'it never counts as not loaded')
  store.add(written())
  await until('it reads on', () => one.isRevoked())
  t.strictSame([one.isLoaded(), store.sent - sent, store.rows.length], [true, 1, 1501])
})

t.test('A server that was promoted without the last entries gets these alone, and nothing is read again', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append(Array.from({ length: 300 }, (_, n) => entry({ key: `k${n}` })))
  for (let n = 0; n < 150; n++) await one.append([entry({ key: `single ${n}` })])
  await one.append([entry()])
  const { sent } = store
  store.drop()
  store.rows.pop()
  store.add(written({ key: OTHER }))
  store.rise()
  await until('it is back', () => keysIn(store).includes(KEY) && one.isLoaded())
  t.strictSame([store.rows.length, one.isRevoked(OTHER)], [452, true])
  t.ok(store.sent - sent <= 2, `${store.sent - sent} were read`)
})

t.test('Each entry is restored once, whichever of the instances does it, and none reads what it has restored itself', async t => {
  const store = startRevocationStore()
  const instances = [startInstance(t, store), startInstance(t, store)]
  await Promise.all(instances.map(({ loaded }) => loaded()))
  const [one, two] = instances as [typeof instances[0], typeof instances[0]]
  const keys = Array.from({ length: 1700 }, (_, n) => `k${n}`)
  await one.append(
    keys.flatMap((key, n) =>
      n % 3 === 0
        ? [
            entry({ key, effect: 'login', at: NOW - 5 }),
            entry({ key }),
            entry({ key, effect: 'block' }),
            entry({ key, effect: 'enable', at: NOW - 9 })
          ]
        : [entry({ key, effect: 'end' })]
    )
  )
  await until('the other reads it', () => two.isRevoked('k1699'))
  const states = (): string[][] =>
    instances.map(({ cutoffs }) => [...cutoffs.held(-1, Infinity)].map(({ entry }) => JSON.stringify(entry)).sort())
  const before = states()
  const { sent } = store
  store.empty()
  await until('all is back', () => instances.every(({ isLoaded }) => isLoaded()) && store.rows.length >= 1700)
  t.strictSame(states(), before)
  t.equal(new Set(keysIn(store)).size, 1700)
  t.ok(store.rows.length < 2 * 1700 + 1000, `${store.rows.length} rows, not each by each instance`)
  t.ok(store.sent - sent <= store.rows.length + 1100, `${store.sent - sent} were read`)
  const { length } = store.rows
  store.empty()
  one.close()
  await until(
    'one alone restores',
    () => two.isLoaded() && store.rows.length >= 1700 && store.rows.length < length + 1700
  )
  const late = startInstance(t, store)
  await late.loaded()
  t.strictSame([...late.cutoffs.held(-1, Infinity)].map(({ entry }) => JSON.stringify(entry)).sort(), before[0])
})

t.test('An undo that comes while a store is restored holds', async t => {
  const store = startRevocationStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry(), entry({ key: OTHER })])
  await until('the other reads it', () => two.isRevoked(OTHER))
  store.onCall = name => {
    if (name !== 'REWRITE') return
    store.onCall = () => {}
    store.add(written({ effect: 'undo' }))
  }
  store.empty()
  await until(
    'both have the rest',
    () =>
      [one, two].every(instance => instance.isLoaded() && instance.isRevoked(OTHER)) && keysIn(store).includes(OTHER)
  )
  t.strictSame([one.isRevoked(), two.isRevoked()], [false, false])
})

/** What happens at which time that something is written again. */
const DISTURBANCES: Readonly<
  Record<string, readonly [number, (store: ReturnType<typeof startRevocationStore>) => void]>
> = {
  'A store that is emptied again while it is restored gets all back, also what was written before the second loss': [
    2,
    store => store.empty()
  ],
  'What could not be written again is written with the next attempt': [1, () => {
    throw new Error('lost')
  }]
}
for (const [title, [when, disturb]] of Object.entries(DISTURBANCES)) {
  t.test(title, async t => {
    const store = startRevocationStore()
    const one = startInstance(t, store)
    await one.loaded()
    const keys = Array.from({ length: 1200 }, (_, n) => `k${n}`)
    await one.append(keys.map(key => entry({ key })))
    let rewrites = 0
    store.onCall = name => {
      if (name === 'REWRITE' && ++rewrites === when) disturb(store)
    }
    store.empty()
    await until('all is back', () => one.isLoaded() && store.rows.length >= keys.length)
    t.strictSame(new Set(keysIn(store)), new Set(keys))
  })
}

t.test('All names are of one slot of a cluster, and stay: instances of two versions share them', async t => {
  const { LOG, EPOCH, CLOCK, CLEANED } = scripts
  t.strictSame(
    [LOG, EPOCH, CLOCK, CLEANED],
    ['log', 'epoch', 'clock', 'cleaned'].map(name => `{holdfast:revocation}:${name}`)
  )
})

t.test('A connection that is lost while an instance looks for what the log has lost leaves one reader, which finds it', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry()])
  await one.append([entry({ key: OTHER })])
  store.onCall = name => {
    if (name !== 'FIND') return
    store.onCall = () => {}
    killed(store)
  }
  store.rows.pop()
  await until('it is restored', () => keysIn(store).includes(OTHER))
  await one.loaded()
  t.strictSame(keysIn(store), [KEY, OTHER], 'once')
  store.mostWaiting = 0
  await delay(50)
  t.equal(store.mostWaiting, 1, 'one reader waits for news')
})

t.test('A row with the greatest id, and then the end of the log, leaves no instance deaf', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry()])
  store.add('{}', GREATEST)
  await until('it is read', () => store.asked.at(-1)!.at(-1) === GREATEST)
  store.rows = []
  await until('it has restored what was lost', () => keysIn(store).includes(KEY))
  store.add(written({ key: OTHER }))
  await until('it hears what comes then', () => one.isRevoked(OTHER))
  await one.loaded()
})

t.test('A row that no instance has written puts nothing before people', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  await one.loaded()
  const forged = ['<b>revoked</b>', 'x'.repeat(65), 7, null].map(event => ({ ...whole(), event }))
  for (
    const row of [
      ...forged,
      { ...whole(), source: 7 },
      { ...whole(), sender: {} },
      { ...whole(), standing: 'root' },
      { ...whole(), effect: 'none' },
      { ...whole(), key: 'k'.repeat(1001) },
      { ...whole(), source: 's'.repeat(5000) },
      { ...whole(), also: 'x' },
      { ...whole(), t: 'x' },
      { ...whole(), t: undefined },
      { ...whole(), sender: undefined },
      { ...whole(), effect: 'state', event: 'markup' }
    ]
  ) store.add(JSON.stringify(row))
  store.add(written({ effect: 'state', event: 'paused', key: 'stream' }))
  store.add(written({ key: OTHER }))
  await until('the last is read', () => one.isRevoked(OTHER))
  t.strictSame([one.isRevoked(), one.cutoffs.size(), one.cutoffs.heldOf('stream').length], [false, 1, 1])
})

t.test('What no longer stands goes out of the log, and all that stands is still there', async t => {
  const store = startRevocationStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([
    entry({ key: 'old', effect: 'block' }),
    entry({ key: 'stream', effect: 'state', event: 'paused' }),
    entry({ key: 'gone' })
  ])
  await one.append([entry({ key: 'gone', effect: 'undo' })])
  store.add('{')
  for (let n = 0; n < 11; n++) {
    await one.append(Array.from({ length: 1000 }, (_, i) => entry({ key: `k${i % 100}`, at: NOW - 11 + n })))
  }
  await until('it is cleaned', () => store.rows.length < 1000)
  t.equal(one.isLoaded() && two.isLoaded(), true, 'nobody waits for it')
  t.equal(store.rows.some(([, [, text]]) => text === '{'), false, 'what no instance can have written goes too')
  const late = startInstance(t, store)
  await late.loaded()
  t.strictSame([late.cutoffs.size(), late.isRevoked('old'), late.isRevoked('k99'), late.isRevoked('gone')], [
    101,
    true,
    true,
    false
  ])
  t.strictSame(late.cutoffs.heldOf('stream').map(({ entry }) => entry.event), ['paused'])
  t.strictSame(
    [...late.cutoffs.held(-1, Infinity)].map(({ entry }) => JSON.stringify(entry)).sort(),
    [...one.cutoffs.held(-1, Infinity)].map(({ entry }) => JSON.stringify(entry)).sort()
  )
})

t.test(
  'An instance that was away while the log was cleaned beyond its place reads it anew, and what is gone there ' +
    'goes here',
  async t => {
    const store = startRevocationStore()
    const one = startInstance(t, store)
    await one.loaded()
    await one.append([entry(), entry({ key: OTHER })])
    store.drop()
    store.rows = []
    store.add(written({ key: OTHER }), `${store.clockMs}-9000`)
    store.cleaned = `${store.clockMs}-8000`
    store.rise()
    await until('it waits', () => one.ageMs() === Infinity)
    await one.loaded()
    t.strictSame([one.isRevoked(), one.isRevoked(OTHER), store.rows.length], [false, true, 1])
    store.drop()
    store.cleaned = store.rows[0]![0]
    store.rows = []
    store.rise()
    await until('it asks for news', () => store.asked.at(-1)!.at(-1) === store.cleaned)
    t.strictSame(
      [one.isLoaded(), one.isRevoked(OTHER), store.rows.length],
      [true, true, 0],
      'the last entry that was cleaned away is no loss'
    )
  }
)

t.test('An instance is in step with the log once it has read all, and not while the log has lost it or cannot be read', async t => {
  const store = startRevocationStore()
  const one = startInstance(t, store)
  t.equal(await one.isInStep(), false, 'before it has read all')
  await one.loaded()
  t.equal(await one.isInStep(), true)
  await one.append([entry()])
  t.equal(await one.isInStep(), true)
  store.add(written({ key: OTHER }))
  t.strictSame([await one.isInStep(), one.isRevoked(OTHER)], [true, true], 'what another has written is read first')
  store.rows.pop()
  t.equal(await one.isInStep(), false, 'the store has lost what was read')
  store.isRestoring = true
  await until('it has restored it', () => store.rows.length === 2)
  t.equal(await one.isInStep(), false, 'others may be restoring')
  store.isRestoring = false
  await one.loaded()
  t.equal(await one.isInStep(), true)
  store.fault = new Error('Connection is closed.')
  t.equal(await one.isInStep(), false)
})

t.test("Nothing is forgotten when a clock leaps, ours or the store's", async t => {
  const store = startRevocationStore()
  const [one, ...rest] = [startInstance(t, store), startInstance(t, store)]
  await Promise.all([one, ...rest].map(({ loaded }) => loaded()))
  await one.append([entry({ effect: 'end' })])
  store.clockMs += 2 * 86_400_000
  await one.append([entry({ key: OTHER, effect: 'end' })])
  store.clockMs -= 2 * 86_400_000
  one.wall.now += 2 * 86_400
  await one.append([entry({ key: 'third', effect: 'end' })])
  one.wall.now -= 2 * 86_400
  const late = startInstance(t, store)
  late.wall.now += 2 * 86_400
  await late.loaded()
  late.wall.now -= 2 * 86_400
  for (const instance of [one, late]) {
    t.strictSame([KEY, OTHER, 'third'].map(key => instance.isRevoked(key)), [true, true, true])
  }
  // The twin: time that has passed.
  for (const instance of [one, ...rest, late]) instance.clock.ms += 111_000
  t.strictSame([KEY, OTHER, 'third'].map(key => late.isRevoked(key)), [false, false, false])
  await until('the clock of the log has gone on', () => Number(store.clock) > (NOW + 100) * 1000)
  const last = startInstance(t, store)
  await last.loaded()
  t.equal(last.cutoffs.size(), 0, 'what was over is not taken in')
})

t.test('The state of a verification reaches the other instances', async t => {
  const store = startRevocationStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry({ key: 'asked T', effect: 'state', event: `asked ${'aZ_-'.repeat(4)}` })])
  await until('the other reads it', () => two.cutoffs.heldOf('asked T').length === 1)
})
