import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { keyOf } from '../../../lib/revocation/target.ts'
import type { RevocationEntry } from '../../../lib/revocation/log.ts'
import { createMemoryLog, RevocationLogError } from '../../../lib/revocation/log.ts'
import type { RedisLogOptions } from '../../../lib/revocation/redis-log.ts'
import { startLogReader } from '../../helpers/log-reader.ts'
import { until } from '../../helpers/until.ts'

const NOW = 1_800_000_000
const KEY = keyOf(['sub', 'https://issuer.example/', 'u1'])
const OTHER = keyOf(['sub', 'https://issuer.example/', 'u2'])
/** Waits of the log are so many times shorter here. */
const HASTE = 20

const entry = (given: Partial<RevocationEntry> = {}): RevocationEntry => ({ key: KEY, effect: 'cutoff', at: NOW, recordedAt: NOW, event: 'session-revoked', source: 'https://transmitter.example', sender: 'https://issuer.example', standing: 'issuer', ...given })

type Listeners = Parameters<RedisLogOptions['open']>[0]

/** As much of a Redis as the log needs, in memory. */
function startStore () {
  const links = new Set<Listeners>()
  const store = {
    rows: [] as Array<[string, string[]]>,
    blocks: new Map<string, string>(),
    epoch: null as string | null,
    /** Until when instances may be restoring what was lost. */
    settlingUntil: 0,
    /** Whether others are restoring for as long as the test says. */
    isRestoring: false,
    /** Called before each command of a reader. */
    onCall (_command: string): void {},
    /** What the answer to a write waits for. */
    written: Promise.resolve(),
    leaders: new Map<string, string>(),
    /** Of the server. It is part of each id. */
    clockMs: 1_800_000_000_000,
    /** What becomes of commands. */
    fault: undefined as Error | 'hang' | undefined,
    /** Whether a hash comes as a list, as a client may give it. */
    isFlat: false,
    isUp: true,
    /** The arguments of reads for news. */
    asked: [] as string[][],
    /** The most reads that waited for news at once. */
    mostWaiting: 0,
    empty () {
      Object.assign(store, { rows: [], epoch: null, settlingUntil: 0 })
      store.blocks.clear()
    },
    drop () {
      store.isUp = false
      for (const link of links) link.close()
    },
    rise () {
      store.isUp = true
      for (const link of links) link.ready()
    },
    emitError (error: Error) {
      for (const link of links) link.error(error)
    },
    open (listeners: Listeners) {
      links.add(listeners)
      if (store.isUp) setImmediate(listeners.ready)
      return { client: { call }, close: () => { links.delete(listeners) } } as unknown as ReturnType<RedisLogOptions['open']>
    }
  }
  let count = 0
  let waiting = 0
  const after = (id: string, from: string): boolean => from === '-' || numberOf(id) > numberOf(from.replace('(', ''))

  async function answering (): Promise<void> {
    if (store.fault === 'hang') await new Promise(() => {})
    if (store.fault instanceof Error) throw store.fault
    if (!store.isUp) throw new Error('Connection is closed.')
  }

  async function call (command: string, ...args: string[]): Promise<unknown> {
    if (command === 'eval') return evaluate(Number(args[1]), ...args.slice(2))
    if (command === 'xread') {
      store.asked.push(args)
      store.mostWaiting = Math.max(store.mostWaiting, ++waiting)
      await delay(2)
      waiting--
    }
    store.onCall(command)
    await answering()
    if (args[0]?.endsWith(':settling')) {
      if (command === 'set') store.settlingUntil = performance.now() + Number(args[3]) / HASTE
      return store.isRestoring || performance.now() < store.settlingUntil ? '1' : null
    }
    if (command === 'set') store.epoch ??= args[1]!
    if (command === 'get' || command === 'set') return store.epoch
    if (command === 'hgetall') return store.isFlat ? [...store.blocks].flat() : Object.fromEntries(store.blocks)
    if (command === 'xrevrange') return store.rows.slice(-1)
    if (command === 'xread') {
      const rows = store.rows.filter(([id]) => after(id, args.at(-1)!)).slice(0, Number(args[1]))
      return rows.length === 0 ? null : [[args.at(-2), rows]]
    }
    const [, from, to, , limit] = args
    return from === to ? store.rows.filter(([id]) => id === from) : store.rows.filter(([id]) => after(id, from!)).slice(0, Number(limit))
  }

  async function evaluate (keys: number, ...args: string[]): Promise<unknown> {
    await answering()
    if (keys === 1) {
      const [name, instance] = args as [string, string]
      if (!store.leaders.has(name)) store.leaders.set(name, instance)
      return store.leaders.get(name) === instance ? 1 : 0
    }
    const [epoch, settleMs] = args.slice(5)
    if (store.epoch === null) store.settlingUntil = performance.now() + Number(settleMs) / HASTE
    store.epoch ??= epoch!
    const ids = args.slice(7).map(text => {
      const { effect, key, at } = JSON.parse(text) as RevocationEntry
      const id = `${store.clockMs}-${++count}`
      store.rows.push([id, ['e', text]])
      const field = `${effect} ${key}`
      const known = store.blocks.get(field)
      if (effect === 'undo') ['block', 'enable'].forEach(kind => store.blocks.delete(`${kind} ${key}`))
      else if ((effect === 'block' || effect === 'enable') && !(known && JSON.parse(known).at > at)) store.blocks.set(field, text)
      return id
    })
    await store.written
    return ids
  }

  return store
}

function numberOf (id: string): number {
  const [ms, sequence] = id.split('-')
  return Number(ms) * 1000 + Number(sequence)
}

function startInstance (t: Test, store: ReturnType<typeof startStore>) {
  const clock = { ms: 0 }
  const pauses: number[] = []
  const surroundings: RedisLogOptions['surroundings'] = { steadyMs: () => clock.ms, randomBytes, after (ms, run) { pauses.push(ms); const timer = setTimeout(run, ms / HASTE); return () => clearTimeout(timer) } }
  const reader = startLogReader(t, { open: store.open, surroundings, retentionSeconds: 100, now: () => NOW })
  return { ...reader, clock, pauses, isRevoked: (key = KEY) => reader.isRevoked(key) }
}

t.test('An entry takes effect at once at the instance that appended it, and soon at the others', async t => {
  const store = startStore()
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
  t.strictSame(store.asked[0], ['COUNT', '1000', 'BLOCK', '200', 'STREAMS', '{holdfast:revocation}:log', '0-0'])
})

t.test('An instance reads all of the log before it counts as loaded, many entries and blocks too', async t => {
  for (const isFlat of [false, true]) {
    const store = startStore()
    store.isFlat = isFlat
    const first = startInstance(t, store)
    await first.loaded()
    await first.append(Array.from({ length: 2500 }, (_, n) => entry({ key: `k${n}` })))
    await first.append([entry({ effect: 'block', at: NOW - 50 }), entry({ key: OTHER, effect: 'block' })])
    await first.append([entry({ key: OTHER, effect: 'enable', at: NOW })])
    // What is old is trimmed from the log; a block outlives it.
    store.rows.splice(2500, 1)
    const second = startInstance(t, store)
    await second.loaded()
    t.equal(second.cutoffs.size(), 2502)
    t.equal(second.isRevoked('k2499'), true)
    t.equal(second.isRevoked(), true, 'the block')
  }
})

t.test('An undo takes back all entries so far, blocks too, and a later entry takes effect', async t => {
  const store = startStore()
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
    const store = startStore()
    const [one, two] = [startInstance(t, store), startInstance(t, store)]
    await Promise.all([one.loaded(), two.loaded()])
    await one.append([entry(), entry({ key: OTHER, effect: 'block' })])
    await until('the other reads it', () => two.isRevoked(OTHER))
    if (!isConnected) store.drop()
    store.empty()
    store.clockMs -= 60_000
    if (!isConnected) store.rise()
    await until('all is back', () => store.rows.length >= 2 && store.blocks.size === 1)
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
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  const two = startInstance(t, store)
  await two.loaded()
  await two.append([entry()])
  // No timer runs between these, so the first instance reads nothing of the second.
  store.empty()
  await one.append([entry({ key: OTHER })])
  t.strictSame([one.isRevoked(), one.isRevoked(OTHER)], [false, true])
  await until('the first has what the second restored', () => one.isRevoked())
  await until('the second has what the first wrote', () => two.isRevoked(OTHER))
})

t.test('No view is current while others may be restoring what was lost', async t => {
  const store = startStore()
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
  store.rows.push([`${store.clockMs}-900`, ['e', JSON.stringify(entry({ key: OTHER }))]])
  store.isRestoring = false
  for (const instance of [one, late]) {
    await instance.loaded()
    t.strictSame([instance.isRevoked(), instance.isRevoked(OTHER)], [true, true])
  }
})

t.test('A store that is emptied while an instance reads all of it is not taken as complete', async t => {
  const store = startStore()
  store.epoch = 'of others'
  startInstance(t, store)
  let times = 0
  const whole: boolean[] = []
  store.onCall = command => {
    if (command === 'hgetall' && ++times === 1) store.empty()
    if (command === 'xread') whole.push(store.epoch !== null)
  }
  await until('it looks for news', () => whole.length > 0)
  t.equal(whole[0], true, 'before it first looks for news, it has read the whole log')
})

t.test('An instance that restores keeps others waiting', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry()])
  store.empty()
  // Others have seen the loss long ago.
  store.epoch = 'of others'
  await until('it restores', () => store.rows.length > 0)
  t.ok(store.settlingUntil > 0)
})

t.test('A store that is emptied while an instance waits for others is not taken as complete', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await until('it waits', () => store.settlingUntil > 0 && store.epoch !== null)
  const first = store.epoch
  store.empty()
  await one.loaded()
  t.type(store.epoch, 'string')
  t.not(store.epoch, first)
})

t.test('An undo takes back nothing that comes after a loss of the data, even if the new clock is behind', async t => {
  const store = startStore()
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

t.test('An instance that starts waits for others before it reads, even if the epoch exists', async t => {
  const store = startStore()
  store.epoch = 'of others'
  const one = startInstance(t, store)
  const waited: number[] = []
  store.onCall = command => { if (command === 'hgetall') waited.push(one.pauses[0]!) }
  await one.loaded()
  t.strictSame(waited, [600])
})

t.test('While one instance restores, all others wait, even if their data are complete', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  store.isRestoring = true
  await until('it has seen that', () => one.ageMs() === Infinity)
  store.rows.push([`${store.clockMs}-900`, ['e', JSON.stringify(entry())]])
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

t.test('An entry that an instance has written is restored if it is lost, even if it has not read it yet', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  // The reader is away, and the writer is not.
  store.drop()
  store.isUp = true
  await one.append([entry()])
  store.rows.pop()
  store.rise()
  await until('it is back', () => store.rows.length > 0)
  await one.loaded()
  const { length } = store.rows
  store.drop()
  store.rise()
  await delay(20)
  t.equal(store.rows.length, length, 'what was restored is not restored again')
})

t.test('A write whose answer comes after a loss of the data is not acknowledged', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  await one.append([entry({ key: OTHER })])
  let answer: () => void
  store.written = new Promise(resolve => { answer = resolve })
  const appended = one.append([entry()])
  await until('it is written', () => store.rows.length === 2)
  store.empty()
  store.epoch = 'of others'
  await until('it has seen the loss', () => one.ageMs() === Infinity)
  answer!()
  await t.rejects(appended, new RevocationLogError('the log of revocations cannot be written'))
})

t.test('A view is current only once it has caught up', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  const behind: number[] = []
  store.onCall = command => { if (command === 'xread' && one.cutoffs.size() % 1000 === 0 && one.cutoffs.size() > 0) behind.push(one.ageMs()) }
  one.clock.ms = 5000
  await until('the log answers', () => one.ageMs() === 0)
  one.clock.ms = 9000
  for (let n = 0; n < 2500; n++) store.rows.push([`${store.clockMs}-${1000 + n}`, ['e', JSON.stringify(entry({ key: `k${n}` }))]])
  await until('it has read all', () => one.cutoffs.size() === 2500 && one.ageMs() === 0)
  t.strictSame(behind, [4000, 4000])
})

t.test('A block that is undone while an instance begins to read has no effect there', async t => {
  const store = startStore()
  const first = startInstance(t, store)
  await first.loaded()
  await first.append([entry({ effect: 'block' })])
  const undo = JSON.stringify(entry({ effect: 'undo' }))
  let times = 0
  store.onCall = command => {
    if (command !== 'xrevrange' || ++times > 1) return
    store.rows.push([`${store.clockMs}-900`, ['e', undo]], [`${store.clockMs}-901`, ['e', JSON.stringify(entry({ key: OTHER }))]])
    store.blocks.clear()
  }
  const late = startInstance(t, store)
  await late.loaded()
  t.strictSame([late.isRevoked(), late.isRevoked(OTHER)], [false, true])
})

t.test('A log that is closed before all of it was read never counts as read', async t => {
  const store = startStore()
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
  const store = startStore()
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
})

t.test('A store that cannot be written is an error, at once or after a second, and the entry is not in force', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  for (const fault of [new Error('READONLY You cannot write'), 'hang' as const]) {
    store.fault = fault
    await t.rejects(one.append([entry()]), new RevocationLogError('the log of revocations cannot be written'))
    t.equal(one.isRevoked(), false)
  }
})

t.test('A fault is reported once, with its reason, and so is its end', async t => {
  const store = startStore()
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

t.test('What began on an earlier connection ends with it', async t => {
  const store = startStore()
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
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  store.fault = 'hang'
  await delay(20)
  one.clock.ms = 11_000
  t.equal(one.ageMs(), 11_000)
  t.equal(one.isLoaded(), true)
})

t.test('An entry that no instance can have written is skipped', async t => {
  const store = startStore()
  const one = startInstance(t, store)
  await one.loaded()
  for (const text of ['{', 'null', '"x"', '{}', JSON.stringify({ ...entry(), at: 'now' }), JSON.stringify(entry({ at: 7 })).replace('"at":7', '"at":1e999'), JSON.stringify({ ...entry(), recordedAt: null }), JSON.stringify({ ...entry(), effect: 1 })]) store.rows.push([`${store.clockMs}-${900 + store.rows.length}`, ['e', text]])
  store.rows.push([`${store.clockMs}-950`, ['e', JSON.stringify(entry({ key: OTHER }))]])
  await until('the next one is read', () => one.isRevoked(OTHER))
  t.equal(one.cutoffs.size(), 1)
})

t.test('One instance leads a task, and none while the store is away', async t => {
  const store = startStore()
  const [one, two] = [startInstance(t, store), startInstance(t, store)]
  t.equal(await one.lead('task', 10), true)
  t.equal(await two.lead('task', 10), false)
  t.equal(await two.lead('another', 10), true)
  t.equal(await one.lead('task', 10), true)
  store.fault = new Error('Connection is closed.')
  t.equal(await one.lead('task', 10), false)
})

t.test('The in-memory log is always loaded, and always leads', async t => {
  const seen: Array<[string, string]> = []
  const log = createMemoryLog(({ key }, position) => { seen.push([key, position]) })
  await log.append([entry(), entry({ key: OTHER })])
  t.strictSame(seen, [[KEY, '1000000000000001'], [OTHER, '1000000000000002']])
  t.equal(await log.lead('task', 10), true)
  t.strictSame([log.ageMs(), log.fault()], [0, undefined])
  log.close()
})
