import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { openRedisLink, type LinkListeners, type RedisCall } from '../../../../lib/guard/redis/redis-link.ts'
import { parseRedisUrl } from '../../../../lib/guard/redis/redis-url.ts'
import type { RevocationEntry } from '../../../../lib/revocation/entry.ts'
import { readRecord, recordOf, writeRecord } from '../../../../lib/revocation/store/record.ts'
import {
  CHANGES,
  CLEAN,
  INSTANCES,
  MERGE,
  READ,
  RECORDS,
  RESTORING,
  STATE
} from '../../../../lib/revocation/store/scripts.ts'
import { keyOf } from '../../../../lib/revocation/target.ts'
import { processSurroundings } from '../../../../server/surroundings.ts'
import { testsAtOnce } from '../../../helpers/at-once.ts'
import { patientWriters } from '../../../helpers/patient-surroundings.ts'
import { skipRedis, startRedis } from '../../../helpers/redis.ts'
import { startRelay, toPort } from '../../../helpers/relay.ts'
import { startStoreReader } from '../../../helpers/store-reader.ts'
import { until } from '../../../helpers/until.ts'

const t = testsAtOnce()
const ISSUER = 'https://issuer.example'
const now = () => Date.now() / 1000
const k = (sub: string, issuer = ISSUER) => keyOf(['sub', issuer, sub])
const entry = (sub: string, given: Partial<RevocationEntry> = {}): RevocationEntry => ({
  key: k(sub),
  effect: 'cutoff',
  at: now(),
  event: 'session-revoked',
  source: ISSUER,
  sender: ISSUER,
  standing: 'issuer',
  ...given
})

/** A link whose commands of the reader go through a function of the test, which may refuse, hold or precede them. */
function interceptedLink (port: number) {
  const listeners: LinkListeners[] = []
  const intercepted = {
    listeners,
    /** Called before each command of the reader. */
    before: async (_command: string, _script: string) => {},
    /** Called before the answer to such a command is passed on. */
    after: async (_script: string) => {},
    open (given: LinkListeners) {
      const isReader = listeners.push(given) === 2
      const link = openRedisLink(parseRedisUrl(`redis://127.0.0.1:${port}`), given, processSurroundings.steadyMs)
      const call: RedisCall = async (command, ...args) => {
        if (isReader) await intercepted.before(command, String(args[0]))
        const answer = await link.call(command, ...args)
        if (isReader) await intercepted.after(String(args[0]))
        return answer
      }
      return { call, memoryInfo: link.memoryInfo, close: () => link.close() }
    }
  }
  return intercepted
}

/** @param issuedAt of the tokens that are asked about */
function startInstance (
  t: Test,
  port: number,
  given: Partial<Parameters<typeof startStoreReader>[1]> = {},
  issuedAt = now() - 10
) {
  const reader = startStoreReader(t, {
    open: listeners =>
      openRedisLink(parseRedisUrl(`redis://127.0.0.1:${port}`), listeners, processSurroundings.steadyMs),
    surroundings: patientWriters,
    lifeSeconds: 100,
    ...given
  })
  return { ...reader, isRevoked: (sub: string) => reader.isRevoked(k(sub), issuedAt) }
}

/** The same, once it has read all. */
async function loadInstance (...given: Parameters<typeof startInstance>) {
  const instance = startInstance(...given)
  await instance.loaded()
  return instance
}

const loadTwo = (t: Test, port: number) => Promise.all([loadInstance(t, port), loadInstance(t, port)])

const LOG = '{holdfast:revocation}:log'
const LONG = 's'.repeat(300)

t.test('A log of the version before becomes records, once, and is in force from the first answer on', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const clockMs = 1_700_000_000_000
  const row = (sub: string, effect: string, given: object = {}) =>
    server.command(
      'XADD',
      LOG,
      '*',
      'e',
      JSON.stringify({ ...entry(sub), effect, recordedAt: 1, t: clockMs - 10_000, ...given })
    )
  const at = now()
  await row('cut', 'cutoff')
  // The life of an entry is so long that a slow machine does not end it.
  const lifeSeconds = 10_000
  await row('ended', 'end', { at: at - 8500, t: clockMs - 8_500_000 })
  await row('over', 'end', { at: at - 20_000, t: clockMs - 20_000_000 })
  await row('blocked', 'block', { at: at - 5, t: clockMs - 50_000_000 })
  await row('lifted', 'block', { at: at - 5, also: at - 1 })
  await row('undone', 'block', { at: at - 5 })
  await row('undone', 'undo')
  await row('early', 'block', { at: at - 5 })
  await row('early', 'undo', { at: at - 9 })
  await row('again', 'block', { at: at - 5 })
  await row('again', 'undo')
  await row('again', 'cutoff')
  await row('login', 'cutoff', { also: at })
  await row('other', 'cutoff', { standing: 'other', sender: 'https://t.example', at: at - 12 })
  await row('long', 'end', { key: keyOf(['sub', ISSUER, LONG]).split(' ').slice(0, 2).join(' ') })
  await row('stream', 'state', { key: `stream ${ISSUER}`, event: 'paused' })
  await row('untimed', 'end', { t: 'x' })
  await row('undated', 'end', { at: 'x' })
  for (const text of ['{', '{}']) await server.command('XADD', LOG, '*', 'e', text)
  for (const [name, text] of [['clock', clockMs], ['epoch', 'e'], ['cleaned', '0-0']]) {
    await server.command('SET', `{holdfast:revocation}:${name}`, String(text))
  }
  const news: string[] = []
  const instances = [1, 2].map(() =>
    startInstance(
      t,
      server.port,
      { lifeSeconds, transmitters: [ISSUER], onNews: ({ event }) => news.push(event) },
      at - 10
    )
  )
  await Promise.all(instances.map(({ loaded }) => loaded()))
  let ahead = 0
  const surroundings = {
    ...patientWriters,
    now: () => now() + ahead,
    steadyMs: () => processSurroundings.steadyMs() + ahead * 1000
  }
  const late = await loadInstance(t, server.port, { lifeSeconds, surroundings }, at - 10)
  for (const instance of [...instances, late]) {
    t.strictSame(
      ['cut', 'ended', 'over', 'blocked', 'lifted', 'undone', 'early', 'again', 'login', 'other', LONG].map(instance.isRevoked),
      [true, true, false, true, false, false, false, true, true, true, true]
    )
    t.ok(instance.view.revocationOf({ keys: [k('login')], issuedAt: at + 5, loginAt: at }))
    t.notOk(instance.view.revocationOf({ keys: [k('cut')], issuedAt: at + 5, loginAt: at }))
  }
  t.ok(instances.some(({ takenOver }) => takenOver.length === 1))
  t.strictSame(late.takenOver, [])
  t.ok(news.includes('paused'))
  const names = ['log', 'clock', 'epoch', 'cleaned'].map(name => `{holdfast:revocation}:${name}`)
  t.equal(await server.command('EXISTS', ...names), '0')
  for (const sub of ['untimed', 'undated']) t.equal(await server.command('HEXISTS', RECORDS, k(sub)), '0', sub)
  ahead = 2000
  await until('an entry keeps its age', () => !late.isRevoked('ended'))
  t.equal(late.isRevoked('cut'), true)
})

t.test('An instance that has missed changes reads the records again, and goes on answering', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const [one, two] = await loadTwo(t, server.port)
  await one.append([entry('u1')])
  await until('it is heard', () => two.isRevoked('u1'))
  // As if both had been away while much came.
  const missed = recordOf(entry('missed'), { heard: Math.ceil(now()), life: 100, now: now() })
  await server.command('HSET', RECORDS, k('missed'), writeRecord(missed))
  const epoch = await server.command('HGET', STATE, 'epoch')
  await server.command('HSET', STATE, 'floor', '9999999999999-0')
  await until('it is read', () => one.isRevoked('missed') && two.isRevoked('missed'))
  t.strictSame([one.isLoaded(), two.isLoaded()], [true, true])
  t.equal(await server.command('HGET', STATE, 'epoch'), epoch, 'nobody has to wait')
})

t.test('An instance that comes back after the store has forgotten it makes nobody wait, if nothing was lost', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const [one, two] = await loadTwo(t, server.port)
  await one.append([entry('u1')])
  await until('it is heard', () => two.isRevoked('u1'))
  const epoch = await server.command('HGET', STATE, 'epoch')
  await server.command('DEL', INSTANCES)
  await one.append([entry('u2')])
  await until('all know it', () => two.isRevoked('u2') && two.isLoaded() && one.isLoaded())
  t.equal(await server.command('HGET', STATE, 'epoch'), epoch)
  await server.command('DEL', INSTANCES, RECORDS)
  await until('the twin: what was lost is restored', async () => await server.command('HLEN', RECORDS) === '2')
  t.not(await server.command('HGET', STATE, 'epoch'), epoch)
})

t.test('What was lifted while an instance was away, and is over by now, stands nowhere again', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const [one, two] = await loadTwo(t, server.port)
  await one.append(['u1', 'u2', 'u3'].map(sub => entry(sub, { effect: 'block' })))
  await until('it is heard', () => two.isRevoked('u3'))
  const lift = (sub: string, away: string) =>
    server.command('EVAL', `redis.call('HDEL', KEYS[1], ARGV[1])\n${away}`, '3', RECORDS, STATE, INSTANCES, k(sub))
  await lift('u1', "redis.call('HSET', KEYS[2], 'floor', '9999999999999-0')\nredis.call('HINCRBY', KEYS[2], 'clock', 101000)")
  await until('both read the records again', () => !one.isRevoked('u1') && !two.isRevoked('u1'))
  await lift('u2', "redis.call('HINCRBY', KEYS[2], 'clock', 3700000)\nredis.call('DEL', KEYS[3])")
  await until('the same after more than an hour', () => !one.isRevoked('u2') && !two.isRevoked('u2'))
  t.strictSame([one.isRevoked('u3'), two.isRevoked('u3'), one.view.size()], [true, true, 1])
  t.equal(await server.command('HKEYS', RECORDS), k('u3'))
})

t.test('What an instance alone knows stands again though it was away for so long that the store has forgotten it', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const one = startInstance(t, server.port, { lifeSeconds: 86_400 })
  await one.loaded()
  await one.append(['lost', 'lifted'].map(sub => entry(sub, { effect: 'block' })))
  const { heard } = one.view.recordOf(k('lifted'))!.parts[0]!
  const undone = recordOf(entry('lifted', { effect: 'undo', at: now() + 1 }), { heard, life: 86_400, now: now() })
  // As if the store was set back to an older copy meanwhile, and others have used it for an hour since.
  await server.command(
    'EVAL',
    `redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
    redis.call('HINCRBY', KEYS[2], 'clock', 3700000) redis.call('DEL', KEYS[3])`,
    '3',
    RECORDS,
    STATE,
    INSTANCES,
    k('lost'),
    k('lifted'),
    writeRecord(undone)
  )
  await until('it is back', async () => await server.command('HEXISTS', RECORDS, k('lost')) === '1')
  await until('the twin: what was lifted is not', () => !one.isRevoked('lifted'))
  t.equal(one.isRevoked('lost'), true)
  t.equal(await server.command('HGET', RECORDS, k('lifted')), writeRecord(undone))
})

t.test('One that is stopped while it restores is waited for until it has said nothing for as long as it asks', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  await server.command('HSET', RESTORING, 'stopped', `${await server.command('HGET', STATE, 'clock')} 3000`)
  const startedMs = processSurroundings.steadyMs()
  await until('it waits', () => !one.isLoaded())
  const late = startInstance(t, server.port)
  await Promise.all([one.loaded(), late.loaded()])
  t.ok(processSurroundings.steadyMs() - startedMs > 2000)
})

t.test('Of two services on one store, none takes what the other has revoked, and the longest retention counts', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const elsewhere = 'https://elsewhere.example'
  const short = startInstance(t, server.port, { lifeSeconds: 2 })
  const long = startInstance(t, server.port, { lifeSeconds: 100 })
  const foreign = startInstance(t, server.port, { lifeSeconds: 2, issuers: [elsewhere] })
  await Promise.all([short, long, foreign].map(({ loaded }) => loaded()))
  await short.append([entry('u1', { effect: 'end' })])
  await foreign.append([entry('u2', { effect: 'end', key: k('u2', elsewhere), sender: elsewhere })])
  t.strictSame([short.view.size(), foreign.view.size()], [1, 1], 'each holds what its own issuers can have issued')
  await until('it is asked for', async () =>
    readRecord(await server.command('HGET', RECORDS, k('u1')))?.parts[0]!.life === 100
  )
  short.close()
  long.close()
  foreign.close()
  await loadInstance(t, server.port, { issuers: [] })
  await until('what is over is removed, also of issuers that nobody has', async () =>
    await server.command('HEXISTS', RECORDS, k('u2', elsewhere)) === '0'
  )
  t.equal(await server.command('HEXISTS', RECORDS, k('u1')), '1')
})

t.test('An instance that ends leaves its tasks to another one at once', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const [one, two] = await loadTwo(t, server.port)
  t.strictSame([await one.lead('poll'), await two.lead('poll')], [true, false])
  const key = '{holdfast:revocation}:leader:poll'
  two.close()
  await server.command('PING')
  t.ok(Number(await server.command('PTTL', key)) > 0, 'one that does not lead takes nothing with it')
  one.close()
  await until('nobody leads', async () => await server.command('EXISTS', key) === '0')
})

t.test('Known names with rising moments take one record each', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  const at = now()
  for (let n = 0; n < 50; n++) {
    await one.append(Array.from({ length: 100 }, (_, i) => entry(`u${i}`, { at: at + n })))
  }
  t.equal(await server.command('HLEN', RECORDS), '100')
  await until('changes that all have read are gone', async () => Number(await server.command('XLEN', CHANGES)) < 200)
})

t.test('An event that is acknowledged stands when the one that alone knew of an undo comes back', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const relays = await Promise.all([startRelay(t), startRelay(t)])
  await Promise.all(relays.map(relay => relay.use(toPort(server.port))))
  const [one, two] = relays.map(({ port }) => startInstance(t, port)) as [
    ReturnType<typeof startInstance>,
    ReturnType<typeof startInstance>
  ]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append(['again', 'undone'].map(sub => entry(sub, { effect: 'block' })))
  await until('both know it', () => two.isRevoked('again') && two.isRevoked('undone'))
  await server.command('SAVE')
  await relays[1]!.stop()
  await one.append(['again', 'undone'].map(sub => entry(sub, { effect: 'undo', event: 'operator' })))
  await relays[0]!.stop()
  await server.kill()
  await server.start()
  await relays[1]!.restart()
  // As long as an instance is waited for at least: the store counts in seconds.
  await delay(2000)
  await until('it is acknowledged', () => two.append([entry('again')]).then(() => true, () => false))
  t.strictSame(['again', 'undone'].map(two.isRevoked), [true, true], 'nobody else knows of the undo')
  await relays[0]!.restart()
  await until('the undo is heard', () => !two.isRevoked('undone') && one.isRevoked('again'))
  t.strictSame([one, two].map(({ isRevoked }) => ['again', 'undone'].map(isRevoked)), [[true, false], [true, false]])
})

t.test('An instance passes its own rows only if it has read all before them', { skip: skipRedis }, async t => {
  const redis = new Redis((await startRedis(t)).port)
  t.teardown(() => redis.disconnect())
  const text = writeRecord(recordOf(entry('u'), { heard: 1, life: 100, now: 1 }))
  const names = [STATE, INSTANCES, RESTORING, CHANGES]
  const merge = async (who: string, sub: string, place: string) => {
    const args = [who, 1, 2, 'c', 0, 'c', '', place, 'event', k(sub), text]
    const [, passed] = await redis.eval(MERGE, 5, ...names, RECORDS, ...args) as [number, string]
    return passed
  }
  for (const who of ['me', 'other']) await redis.eval(READ, 4, ...names, who, -1, 1, 'c', 0, 'c', '$', 1000, '', 1)
  await merge('other', 'u1', '0-0')
  t.equal(await merge('me', 'u2', '0-0'), '', 'it has not read what the other has written')
  const last = await redis.hget(STATE, 'last') as string
  t.not(await merge('me', 'u3', last), '', 'the twin')
  const answer = await redis.eval(READ, 4, ...names, 'me', 2, 3, 'c', 0, 'c', '0-0', 9, '', 1) as string[]
  const [place, , ...news] = answer.slice(8)
  t.strictSame([place, news], [await redis.hget(STATE, 'last'), [k('u1'), text]])
})

/** The log of the version before: each row ends a session of its own. */
async function writeLog (t: Test, port: number, size: number) {
  const redis = new Redis(port)
  t.teardown(() => redis.disconnect())
  const rows = redis.pipeline()
  for (let n = 0; n < size; n++) {
    rows.xadd(LOG, '*', 'e', JSON.stringify({ ...entry(`u${n}`), effect: 'end', t: 1000 }))
  }
  await rows.set('{holdfast:revocation}:clock', '1000').exec()
  return redis
}

t.test('A log of many rows is taken over whole, though the store is emptied meanwhile', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const redis = await writeLog(t, server.port, 501)
  const link = interceptedLink(server.port)
  let readings = 0
  link.before = async command => {
    if (command === 'xrange' && readings++ === 0) await redis.del(INSTANCES)
  }
  const one = await loadInstance(t, server.port, { open: link.open })
  t.strictSame(['u0', 'u499', 'u500'].map(one.isRevoked), [true, true, true])
  t.strictSame([await redis.hlen(RECORDS), await redis.exists(LOG), one.takenOver.length], [501, 0, 1])
  t.ok(readings > 2, 'the first attempt removed nothing')
})

t.test('A log of which one instance took over a part before it ended is taken over whole by the next', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const redis = await writeLog(t, server.port, 1001)
  const link = interceptedLink(server.port)
  let merges = 0
  link.before = async (_command, script) => {
    if (script !== MERGE || ++merges < 2) return
    first.close()
    throw new Error('the process has ended')
  }
  const first = startInstance(t, server.port, { open: link.open })
  await until('a part is taken over', () => merges === 2)
  t.strictSame([await redis.hlen(RECORDS), await redis.exists(LOG), first.isLoaded()], [500, 1, false])
  const next = await loadInstance(t, server.port)
  t.strictSame(['u0', 'u500', 'u1000'].map(next.isRevoked), [true, true, true])
  t.strictSame([await redis.hlen(RECORDS), await redis.exists(LOG), next.takenOver.length], [1001, 0, 1])
})

t.test('The moment of an operator is the later of our clock and that of the store', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const behind = startInstance(t, server.port, { surroundings: { ...patientWriters, now: () => now() - 600 } })
  const right = startInstance(t, server.port)
  await Promise.all([behind.loaded(), right.loaded()])
  const at = now() - 600
  const operator = { event: 'operator', standing: 'operator', at } as const
  await behind.append([entry('by operator', operator), entry('by event', { at })])
  await behind.append([entry('ahead', { ...operator, at: now() + 600 })])
  await until('they are heard', () => right.isRevoked('ahead'))
  t.strictSame(['by operator', 'by event'].map(right.isRevoked), [true, false])
  t.strictSame(
    ['by operator', 'by event'].map(sub => behind.view.recordOf(k(sub))!.parts[0]!.at > (at + 300) * 1000),
    [true, false],
    'the one that was told holds what the store has made of it'
  )
  t.ok(right.view.recordOf(k('ahead'))!.parts[0]!.at > (now() + 500) * 1000, 'the twin: our clock is the later one')
})

t.test('The only instance that knows an event gives it back after a failover, though others have gone on', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  await one.append([entry('u1')])
  const [name, ...more] = (await server.command('HKEYS', INSTANCES)).split('\n')
  t.strictSame(more, [])
  const replica = await server.command('HGET', INSTANCES, name!)
  await one.append([entry('u2')])
  // What a replica without the last second has, on which others have written much that one has never read.
  await server.command(
    'EVAL',
    `redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
    local last = redis.call('XADD', KEYS[4], 'MAXLEN', 1, '*', 'w', 'another')
    redis.call('HSET', KEYS[3], 'floor', last, 'last', last)`,
    '4',
    RECORDS,
    INSTANCES,
    STATE,
    CHANGES,
    k('u2'),
    name!,
    replica
  )
  const late = await loadInstance(t, server.port)
  t.strictSame(['u1', 'u2'].map(late.isRevoked), [true, true])
  t.equal(await server.command('HEXISTS', RECORDS, k('u2')), '1')
})

t.test('Whoever writes much while a store is restored does not keep the restore from its end', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const [one, sender] = await loadTwo(t, server.port)
  const held = Array.from({ length: 3000 }, (_, n) => entry(`held${n}`))
  for (let n = 0; n < held.length; n += 100) await one.append(held.slice(n, n + 100))
  await server.command('FLUSHALL')
  const flood = { isOver: false, sent: 0 }
  const flooding = (async () => {
    while (!flood.isOver) {
      const entries = Array.from({ length: 100 }, () => entry(`flood${flood.sent++}`, { sender: 'https://flood.example' }))
      await sender.append(entries).catch(() => {})
    }
  })()
  await until('it is restored', async () =>
    one.isLoaded() && flood.sent > 200 && await server.command('HEXISTS', RECORDS, k('held0')) === '1'
  )
  await one.append([entry('honest')])
  flood.isOver = true
  await flooding
  const late = await loadInstance(t, server.port)
  t.strictSame(held.filter(({ key }) => !late.view.recordOf(key)), [])
  await until('all have it', () => [one, sender, late].every(({ isRevoked }) => isRevoked('honest')))
})

t.test('What was lost is said again if the store refuses it or loses more meanwhile', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const link = interceptedLink(server.port)
  const one = await loadInstance(t, server.port, { open: link.open })
  await one.append([entry('u1')])
  let merges = 0
  link.before = async (_command, script) => {
    if (script !== MERGE || ++merges > 2) return
    if (merges === 1) throw Object.assign(new Error('OOM command not allowed'), { name: 'ReplyError' })
    await server.command('DEL', INSTANCES)
  }
  await server.command('FLUSHALL')
  await until('it is restored', async () => await server.command('HLEN', RECORDS) === '1')
  await until('all is known again', one.isLoaded)
  t.ok(merges > 2)
  t.equal(one.changes[0], 'oom')
})

t.test('A reason that is known stays until the store answers, and an earlier connection says nothing about a later one', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const link = interceptedLink(server.port)
  const { loaded, changes, isLoaded } = startInstance(t, server.port, { open: link.open })
  await loaded()
  const denied = Object.assign(new Error('NOPERM'), { name: 'ReplyError' })
  const closed = new Error('Connection is closed.')
  let refused = 0
  const refuse = (error: Error) => {
    refused = 0
    link.before = async () => {
      refused++
      throw error
    }
  }
  const allow = () => { link.before = async () => {} }
  refuse(denied)
  await until('it is said', () => changes.length === 1)
  refuse(closed)
  await until('it has tried again', () => refused > 1)
  allow()
  await until('it can be read', () => changes.length === 2)
  refuse(closed)
  await until('it is said', () => changes.length === 3)
  allow()
  await until('it can be read', () => changes.length === 4)
  t.strictSame(changes, ['auth', null, 'unreachable', null])

  let fail: ((error: Error) => void) | undefined
  link.before = () => new Promise((_resolve, reject) => { fail ??= reject })
  await until('a command waits', () => fail !== undefined)
  const { ready, close } = link.listeners[1]!
  close()
  ready()
  allow()
  fail!(denied)
  await until('the later one reads', () => changes.length === 6)
  t.strictSame([changes.slice(4), isLoaded()], [['unreachable', null], true])

  let answer: (() => void) | undefined
  link.after = async script => {
    if (script === READ) await new Promise<void>(resolve => { answer ??= resolve })
  }
  await until('an answer waits', () => answer !== undefined)
  close()
  ready()
  link.after = async () => {}
  answer!()
  await until('the later one reads', () => changes.length === 8)
  t.strictSame([changes.slice(6), isLoaded()], [['unreachable', null], true])
})

t.test('Much that is over goes without a pause between pages', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const redis = new Redis(server.port)
  t.teardown(() => redis.disconnect())
  const over = writeRecord(recordOf(entry('u', { at: 1 }), { heard: 1, life: 1, now: 1 }))
  await redis.hset(RECORDS, Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [k(`u${n}`), over])))
  const link = interceptedLink(server.port)
  let waits = 0
  const pages: number[] = []
  link.before = async (command, script) => {
    if (command === 'xread') waits++
    if (script === CLEAN) pages.push(waits)
  }
  await loadInstance(t, server.port, { open: link.open, issuers: [] })
  await until('all is gone', async () => await redis.hlen(RECORDS) === 0)
  t.ok(pages.length > 1)
  t.equal(pages[1]! - pages[0]!, 1, 'it looked at the changes once in between')
})

t.test('What an emptied store gets back keeps its age by the count that another instance has begun', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const relay = await startRelay(t)
  await relay.use(toPort(server.port))
  const one = await loadInstance(t, relay.port)
  await one.append([entry('u1', { effect: 'end' })])
  await relay.stop()
  await server.command('FLUSHALL')
  const ahead = 86_400
  const surroundings = { ...patientWriters, now: () => now() + ahead }
  const other = await loadInstance(t, server.port, { surroundings })
  await relay.restart()
  await until('it is restored', () => other.view.recordOf(k('u1')) !== undefined)
  const { heard } = readRecord(await server.command('HGET', RECORDS, k('u1')))!.parts[0]!
  t.ok(Math.abs(other.clock.seconds() - heard) < 3600, 'it is not a day old')
  await one.append([entry('u2', { effect: 'end' })])
  await until('what is new is heard', () => other.view.recordOf(k('u2')) !== undefined)
  const [mine, theirs] = [one, other].map(({ view, clock }) => clock.seconds() - view.recordOf(k('u1'))!.parts[0]!.heard)
  t.ok(Math.abs(mine! - theirs!) < 2)
})

t.test('What is said of a key takes its last undo along, which the store may have lost', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  const undo = (sub: string) => entry(sub, { effect: 'undo', event: 'operator', at: now() + 50 })
  const stored = async (sub: string) => readRecord(await server.command('HGET', RECORDS, k(sub)))!.parts
  await one.append([entry('u1', { effect: 'block' }), entry('u2', { effect: 'block' })])
  await one.append([undo('u1'), undo('u2')])
  const [first] = await stored('u2')
  await server.command('DEL', RECORDS)
  await one.append([entry('u1'), { ...undo('u2'), at: now() }])
  t.strictSame((await stored('u1')).map(({ kind }) => kind), ['c', 'u'])
  t.strictSame((await stored('u2')).map(({ kind, at }) => [kind, at]), [['u', first!.at + 1]], 'an undo is the later one')
})

t.test('An entry that was not acknowledged in time is not written later', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const relay = await startRelay(t)
  await relay.use(toPort(server.port))
  const one = await loadInstance(t, relay.port, { surroundings: processSurroundings })
  const known = entry('u1')
  await until('it is stored', () => one.append([known]).then(() => true, () => false))
  await relay.stop()
  t.equal(await one.lead('task'), false)
  for (const said of [entry('late'), known]) await t.rejects(one.append([said]), { name: 'UndecidedError' })
  await relay.restart()
  await until('the twin is', () => one.append([entry('u1')]).then(() => true, () => false))
  t.strictSame([await server.command('HKEYS', RECORDS), one.isRevoked('late')], [k('u1'), false])
  await until('it leads', () => one.lead('task'))
})

t.test('While another may be restoring, what is written is not acknowledged', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port, { surroundings: processSurroundings })
  await server.command('HSET', RESTORING, 'other', `${await server.command('HGET', STATE, 'clock')} 100000`)
  await until('it waits', () => !one.isLoaded())
  await t.rejects(one.append([entry('u1')]), { name: 'UndecidedError' })
  t.equal(await server.command('HEXISTS', RECORDS, k('u1')), '1')
  await server.command('DEL', RESTORING)
  await until('the twin is', () => one.append([entry('u1')]).then(() => true, () => false))
})

t.test('What is read and restored for long is done in steps, with a look at the changes in between', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const redis = new Redis(server.port)
  t.teardown(() => redis.disconnect())
  const text = writeRecord(recordOf(entry('u'), { heard: Math.floor(now()), life: 86_400, now: now() }))
  await redis.hset(RECORDS, Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [k(`u${n}`), text])))
  const link = interceptedLink(server.port)
  const commands: string[] = []
  let aheadMs = 0
  link.before = async (command, script) => {
    if (command !== 'eval') commands.push(command)
    else if (script === READ || script === MERGE) commands.push(script === READ ? 'read' : 'merge')
    if (command === 'hscan' || script === MERGE) aheadMs += 300
  }
  const surroundings = { ...patientWriters, steadyMs: () => processSurroundings.steadyMs() + aheadMs }
  const one = await loadInstance(t, server.port, { open: link.open, surroundings })
  t.match(commands.join(' '), /hscan read hscan/)
  await server.command('FLUSHALL')
  await until('it has seen that', () => !one.isLoaded())
  await one.loaded()
  t.match(commands.join(' '), /merge read merge/)
  t.equal(await redis.hlen(RECORDS), 9000)
})

t.test('A server that may evict records is not used until it may not', { skip: skipRedis }, async t => {
  const server = await startRedis(t, ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'])
  const one = startInstance(t, server.port)
  await until('it is noticed', () => one.fault() === 'evicts')
  t.notOk(one.isLoaded())
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  await until('it is used', () => one.fault() === undefined)
  t.ok(one.isLoaded())
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl')
  await until('it is noticed later', () => one.fault() === 'evicts')
  await server.command('CONFIG', 'SET', 'maxmemory', '0')
  await until('it is used again', () => one.fault() === undefined)
  t.strictSame(one.changes, ['evicts', null, 'evicts', null])
})

t.test('The store counts as heard only when all changes are read', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const redis = new Redis(server.port)
  t.teardown(() => redis.disconnect())
  const link = interceptedLink(server.port)
  const commands: string[] = []
  let goOn = () => {}
  const one = await loadInstance(t, server.port, { open: link.open })
  const held = new Promise<void>(resolve => { goOn = resolve })
  const isHeld = new Promise<void>(resolve => {
    link.before = async (command, script) => {
      if (command === 'xread') commands.push(command)
      if (script !== READ) return
      resolve()
      await held
      commands.push('read')
    }
  })
  await redis.xadd(CHANGES, '*', 'w', 'other')
  await isHeld
  const text = writeRecord(recordOf(entry('u'), { heard: Math.floor(now()), life: 86_400, now: now() }))
  for (let row = 0; row < 50; row++) {
    await redis.xadd(CHANGES, '*', 'w', 'other', ...Array.from({ length: 50 }, (_, n) => [k(`u${row * 50 + n}`), text]).flat())
  }
  goOn()
  await until('all is heard', () => one.isRevoked('u2499'))
  await until('it waits for more', () => commands.at(-1) === 'xread')
  t.match(commands.slice(commands.indexOf('read')).join(' '), /^read read xread/)
})

t.test('Much that is over in the store is forgotten in steps, with a look at the changes in between', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const redis = new Redis(server.port)
  t.teardown(() => redis.disconnect())
  const text = writeRecord(recordOf(entry('u', { effect: 'block' }), { heard: Math.floor(now()), life: 100, now: now() }))
  await redis.hset(RECORDS, Object.fromEntries(Array.from({ length: 40_001 }, (_, n) => [k(`u${n}`), text])))
  const link = interceptedLink(server.port)
  const commands: string[] = []
  const one = startInstance(t, server.port, { open: link.open })
  await one.loaded()
  link.before = async (command, script) => {
    if (command === 'hscan') commands.push(command)
    else if (script === READ) commands.push('read')
  }
  await redis.multi().del(RECORDS).hset(RECORDS, k('u0'), text).hset(STATE, 'floor', '9999999999999-0').hincrby(
    STATE,
    'clock',
    101_000
  ).exec()
  await until('all others are forgotten', () => one.view.size() === 1)
  t.match(commands.join(' '), /hscan read hscan read hscan/)
  t.equal(one.isRevoked('u0'), true)
})

t.test('After a loss others wait for an instance that is stopped, until it has restored what it alone knows', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const relay = await startRelay(t)
  await relay.use(toPort(server.port))
  const [stopped, other] = [relay.port, server.port].map(port => startInstance(t, port, { staleSeconds: 60 })) as [
    ReturnType<typeof startInstance>,
    ReturnType<typeof startInstance>
  ]
  await Promise.all([stopped.loaded(), other.loaded()])
  const names = async () => (await server.command('HKEYS', INSTANCES)).split(' ').length
  await until('they know of each other', async () => await names() === 2)
  await new Promise(resolve => setTimeout(resolve, 1000))
  await relay.stop()
  await server.command('FLUSHALL')
  await until('it has seen that', () => !other.isLoaded())
  await new Promise(resolve => setTimeout(resolve, 2000))
  t.notOk(other.isLoaded(), 'it waits')
  await relay.restart()
  await Promise.all([stopped.loaded(), other.loaded()])
  t.equal(await server.command('EXISTS', RESTORING), '0')
})

t.test('A late call of an instance that has restored all does not make others wait', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  const instance = await server.command('HKEYS', INSTANCES)
  await server.command('HSET', RESTORING, instance, `${await server.command('HGET', STATE, 'clock')} 100000`)
  await until('it has seen that', async () => await server.command('EXISTS', RESTORING) === '0')
  await until('it goes on', one.isLoaded)
})

t.test('A sender of much delays no other', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  const written: string[] = []
  const append = async (name: string, sender: string, size: number) => {
    await one.append(Array.from({ length: size }, (_, n) => entry(`${name} ${n}`, { sender })))
    written.push(name)
  }
  const many = Array.from({ length: 8 }, (_, n) => append(`a${n}`, ISSUER, 100))
  await Promise.all([...many, append('b', 'https://other.example', 1)])
  t.equal(written.length, 9)
  t.ok(written.indexOf('b') < written.indexOf('a2'), written.join(' '))
})

t.test('A server that takes the place of another while the records are read is read from the beginning', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'always'])
  const redis = new Redis(server.port)
  t.teardown(() => redis.disconnect())
  const text = writeRecord(recordOf(entry('u'), { heard: Math.floor(now()), life: 86_400, now: now() }))
  const size = 10_000
  await redis.hset(RECORDS, Object.fromEntries(Array.from({ length: size }, (_, n) => [k(`u${n}`), text])))
  const link = interceptedLink(server.port)
  let pages = 0
  link.before = async command => {
    if (command !== 'hscan' || ++pages !== 3) return
    // Each Redis has an order of its own.
    await server.kill()
    await server.start()
  }
  // Each page is a step of its own.
  const surroundings = { ...patientWriters, steadyMs: () => processSurroundings.steadyMs() + pages * 300 }
  const reader = await loadInstance(t, server.port, { open: link.open, surroundings })
  t.equal(reader.view.size(), size)
})
