import { hash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { Refusal } from '../../../../lib/refusal.ts'
import { SettingsError } from '../../../../lib/base/settings-error.ts'
import { createReplayStore, type ReplayStoreEvent } from '../../../../lib/guard/replay/create-store.ts'
import { processSurroundings } from '../../../../server/surroundings.ts'
import { faultOf, policyOf, type EvictionPolicy, type MemoryAnswer } from '../../../../lib/guard/redis/redis-faults.ts'
import { reachRedis } from '../../../../lib/guard/redis/reach-redis.ts'
import { openRedisLink, retryAfterMs, type LinkListeners } from '../../../../lib/guard/redis/redis-link.ts'
import { createRedisStore } from '../../../../lib/guard/replay/redis-store.ts'
import { LATE_RECORD_SECONDS, type ReplayStore } from '../../../../lib/guard/replay/replay-store.ts'
import { parseRedisUrl, type RedisPlace } from '../../../../lib/guard/redis/redis-url.ts'
import { bulk, startFakeRedis, type FakeRedis, type Reply } from '../../../helpers/fake-redis.ts'
import { listen } from '../../../helpers/listen.ts'
import { patientSurroundings } from '../../../helpers/patient-surroundings.ts'
import { until } from '../../../helpers/until.ts'

type Outcome = 'first' | 'seen' | 'replay_unavailable'

const idOf = (name: string | number) => hash('sha256', String(name), 'binary')
const keyOf = (name: string) => `holdfast:${Buffer.from(idOf(name), 'binary').toString('base64url', 0, 16)}`

const inSeconds = (seconds: number) => Date.now() / 1000 + seconds

function record (store: ReplayStore, name: string | number, expiresAt = inSeconds(330)): Promise<Outcome> {
  return new Promise(resolve =>
    store.record(idOf(name), 'jkt', expiresAt, (refusal, first) => {
      resolve(refusal ? (refusal as Refusal).reason as Outcome : first ? 'first' : 'seen')
    })
  )
}

async function open (t: Test, place: RedisPlace, surroundings = patientSurroundings) {
  const events: ReplayStoreEvent[] = []
  const store = await createReplayStore({
    store: place,
    maxRecords: 1,
    onEvent: event => {
      events.push(event)
    },
    surroundings
  })
  t.teardown(() => store.close())
  return {
    store,
    events,
    reasons: () => events.map(event => 'reason' in event ? event.reason : event.name.replace('replay_', ''))
  }
}

const isReady = (store: ReplayStore) => until('the store is ready', () => store.state().ready)

/** What a server answers to one command, with its own answers to all others. */
const answering = (command: string, reply: Reply): FakeRedis['override'] => ([name]) => name === command ? reply : undefined

async function startFake (t: Test, ...options: Parameters<typeof startFakeRedis>) {
  const fake = await startFakeRedis(...options)
  t.teardown(() => fake.stop())
  return fake
}

/** A store that is up, on a fake server of its own. */
async function openOnFake (
  t: Test,
  parameters = '',
  surroundings = patientSurroundings
) {
  const fake = await startFake(t)
  const opened = await open(t, `redis://127.0.0.1:${fake.port}${parameters}`, surroundings)
  await isReady(opened.store)
  return { ...opened, fake }
}

const fixturePath = (name: string) => fileURLToPath(new URL(`../../../fixtures/${name}`, import.meta.url))
const fixture = (name: string) => readFileSync(fixturePath(name))
const CLIENT_TLS = { cert: fixture('client-a.cert.pem'), key: fixture('client-a.key.pem') }
const PROVIDER_TLS = { cert: fixture('provider.cert.pem'), key: fixture('provider.key.pem') }

const place = (path: string) => ({ file: fixturePath(path) })

/**
 * Has the certificate of the fixtures accepted by all TLS of this process, as NODE_EXTRA_CA_CERTS would, until the end
 * of the test.
 */
function trustProvider (t: Test) {
  const { createSecureContext } = tls
  Object.assign(tls, {
    createSecureContext: (options?: tls.SecureContextOptions) =>
      createSecureContext({ ca: PROVIDER_TLS.cert, ...options })
  })
  t.teardown(() => {
    Object.assign(tls, { createSecureContext })
  })
}

const recordsOf = (fake: FakeRedis) =>
  fake.commands.filter(([name, ...words]) => name === 'SET' && words.includes('NX'))

t.test('a client that has given up is started anew', async t => {
  const connects = t.capture(Redis.prototype, 'connect', Redis.prototype.connect)
  const { store } = await openOnFake(t)
  const client = connects()[0]!.receiver as Redis
  // As it does when its connection is dropped at a bad moment, such as in the middle of a failover.
  client.disconnect()
  await until('the store is not ready', () => !store.state().ready)
  t.equal(await record(store, 'a'), 'replay_unavailable')
  await isReady(store)
  t.equal(await record(store, 'a'), 'first')
})

t.test('a client that is closed is not', async t => {
  const fake = await startFake(t)
  const connects = t.capture(Redis.prototype, 'connect', Redis.prototype.connect)
  const link = openRedisLink(parseRedisUrl(`redis://127.0.0.1:${fake.port}`), {
    ready () {},
    error () {},
    close () {}
  }, () => 0)
  await until('it is ready', () => link.ready)
  const client = connects()[0]!.receiver as Redis
  const ended = once(client, 'end')
  const timers: Array<() => void> = []
  const { setTimeout } = globalThis
  t.teardown(() => {
    globalThis.setTimeout = setTimeout
  })
  globalThis.setTimeout = ((run: () => void, ms: number, ...args: []) => {
    // Not those of the test runner.
    if (/node_modules\/ioredis|\/lib\//.test(new Error().stack!)) timers.push(run)
    return setTimeout(run, ms, ...args)
  }) as typeof setTimeout
  link.close()
  await ended
  globalThis.setTimeout = setTimeout
  for (const run of timers) run()
  t.ok(timers.length > 0)
  t.equal(client.status, 'end', 'whatever waits')
})

t.test('settings name the store', async t => {
  for (const [setting, kind] of [['memory', 'memory'], ['off', 'off'], ['redis://127.0.0.1:1', 'redis']] as const) {
    const { store } = await open(t, setting)
    t.equal(store.state().kind, kind)
  }
  const { store } = await open(t, 'memory')
  t.equal(await record(store, 'a'), 'first')
  t.equal(await record(store, 'a'), 'seen')
  await t.rejects(open(t, 'redis://:hunter2@a:b:c'), /cannot be used: a host is malformed/)
})

t.test('the URL names one server, Sentinels or a cluster', async t => {
  const none = {
    tls: false,
    username: undefined,
    password: undefined,
    db: 0,
    sentinel: undefined,
    sentinelUsername: undefined,
    sentinelPassword: undefined,
    cluster: false
  }
  const rows: [string, object][] = [
    ['redis://cache', { hosts: [{ host: 'cache', port: 6379 }] }],
    ['redis://cache/', { hosts: [{ host: 'cache', port: 6379 }] }],
    ['rediss://cache.example:6380/7', { tls: true, hosts: [{ host: 'cache.example', port: 6380 }], db: 7 }],
    ['redis://[::1]:6380', { hosts: [{ host: '::1', port: 6380 }] }],
    ['redis://:p%40ss@10.0.0.1', { hosts: [{ host: '10.0.0.1', port: 6379 }], password: 'p@ss' }],
    ['redis://me:a:b@cache', { hosts: [{ host: 'cache', port: 6379 }], username: 'me', password: 'a:b' }],
    ['redis://@cache', { hosts: [{ host: 'cache', port: 6379 }] }],
    ['redis://:x@s1:26379,s2:26380/2?sentinel=main&sentinelUsername=u&sentinelPassword=p', {
      hosts: [{ host: 's1', port: 26379 }, { host: 's2', port: 26380 }],
      password: 'x',
      db: 2,
      sentinel: 'main',
      sentinelUsername: 'u',
      sentinelPassword: 'p'
    }],
    ['rediss://n1,n2:7001?cluster=true', {
      tls: true,
      hosts: [{ host: 'n1', port: 6379 }, { host: 'n2', port: 7001 }],
      cluster: true
    }]
  ]
  for (const [url, expected] of rows) t.strictSame(parseRedisUrl(url), { ...none, ...expected }, url)
})

t.test('a URL that cannot be meant is refused, and not repeated', async t => {
  const rows: [string, RegExp][] = [
    ['http://secret', /not a URL/],
    ['redis://', /not a URL/],
    ['redis://secret cache', /not a URL/],
    ['redis://cache#secret', /not a URL/],
    ['redis://secret@cache', /user without a password/],
    ['redis://secret:@cache', /password is empty/],
    ['redis://:secret%@cache', /percent sign/],
    ['redis://cache:0', /out of range/],
    ['redis://cache:65536', /out of range/],
    ['redis://secret!', /host is malformed/],
    ['redis://a,,b?cluster=true', /host is malformed/],
    ['redis://cache/secret', /database is not a number/],
    ['redis://cache/-1', /database is not a number/],
    ['redis://cache/a/1', /database is not a number/],
    ['redis://cache/1/a', /database is not a number/],
    [
      'redis://cache?password=secret',
      /there is an unknown parameter; the known ones are sentinel, sentinelUsername, sentinelPassword, cluster; it looks like redis/
    ],
    ['redis://a,b', /several hosts/],
    ['redis://a?cluster=secret', /cluster must be true/],
    ['redis://a?sentinel=', /sentinel must name/],
    ['redis://a?sentinelPassword=secret', /need sentinel/],
    ['redis://a?sentinel=secret&cluster=true', /cannot be combined/],
    ['redis://a/1?cluster=true', /only database 0/]
  ]
  for (const [url, message] of rows) {
    t.throws(() => parseRedisUrl(url), message, url)
    try {
      parseRedisUrl(url)
    } catch (error) {
      t.notMatch((error as Error).message, /secret/)
    }
  }
})

t.test('a record is one SET with NX and the time that is left, under a hashed key', async t => {
  const { store, fake, reasons } = await openOnFake(t, '/3')
  t.equal(await record(store, 'a', inSeconds(330)), 'first')
  t.equal(await record(store, 'a', inSeconds(100.5)), 'seen')
  t.equal(await record(store, 'b', inSeconds(1e300)), 'first')
  t.equal(
    await record(store, 'c', inSeconds(-LATE_RECORD_SECONDS + 0.9)),
    'first',
    'a proof judged in time may be a little late'
  )
  const key = keyOf('a')
  const sent = recordsOf(fake)
  t.strictSame(sent.slice(0, 2), [
    ['SET', key, '1', 'EX', String(330 + LATE_RECORD_SECONDS), 'NX'],
    ['SET', key, '1', 'EX', String(101 + LATE_RECORD_SECONDS), 'NX']
  ])
  t.equal(sent[2]![4], String(10 * 366 * 86_400), 'at most ten years')
  t.equal(sent[3]![4], '1')
  t.hasStrict(fake.commands, [['SELECT', '3']])
  t.hasStrict(store.state(), { kind: 'redis', ready: true, reason: undefined, records: 4, seen: 1, refused: 0 })
  t.strictSame(reasons(), ['available'])
})

t.test('of 250 copies at the same moment exactly one passes, and they travel together', async t => {
  const { store, fake } = await openOnFake(t)
  fake.packets.length = 0
  const outcomes = await Promise.all(Array.from({ length: 250 }, () => record(store, 'a')))
  t.equal(outcomes.filter(outcome => outcome === 'first').length, 1)
  t.equal(outcomes.filter(outcome => outcome === 'seen').length, 249)
  t.ok(fake.packets.length < 20, `${fake.packets.length} packets`)
})

t.test('records of one turn travel in one packet', async t => {
  trustProvider(t)
  // Each piece that the client writes is a record of TLS, which no kernel joins with another one, and the server reads
  // them one by one.
  const fake = await startFake(t, PROVIDER_TLS)
  const { store } = await open(t, `rediss://localhost:${fake.port}`)
  await isReady(store)
  for (const turns of [1, 2]) {
    fake.packets.length = 0
    const outcomes: Array<Promise<Outcome>> = []
    for (let n = 0; n < turns; n++) {
      for (let of = 0; of < 50; of++) outcomes.push(record(store, `${turns} ${n} ${of}`))
      await turn()
    }
    t.strictSame([...new Set(await Promise.all(outcomes))], ['first'])
    t.strictSame(fake.packets.filter(commands => commands >= 50), Array(turns).fill(50))
    t.equal(
      fake.packets.filter(commands => commands > 1).length,
      turns,
      `${turns} turns, beside what the store itself asks for`
    )
  }
})

t.test('the first records wait for the connection that is still being made', async t => {
  const fake = await startFake(t)
  const { store } = await open(t, `redis://127.0.0.1:${fake.port}`)
  t.hasStrict(store.state(), { ready: false, reason: 'connecting' })
  t.strictSame(await Promise.all([record(store, 'a'), record(store, 'a'), record(store, 'b')]), [
    'first',
    'seen',
    'first'
  ])
})

t.test('they wait no longer than a client would, and their number is limited', async t => {
  const fake = await startFake(t)
  fake.override = answering('INFO', null)
  const { store, reasons } = await open(t, `redis://127.0.0.1:${fake.port}`, processSurroundings)
  const outcomes = Array.from({ length: 10_000 }, (_, n) => record(store, n))
  await turn()
  t.equal(await record(store, 'one more'), 'replay_unavailable')
  t.equal(store.state().refused, 1, 'that one at once')
  t.ok((await Promise.all(outcomes)).every(outcome => outcome === 'replay_unavailable'))
  t.hasStrict(store.state(), { ready: false, reason: 'timeout', refused: 10_001 })
  t.equal(recordsOf(fake).length, 0)
  fake.override = undefined
  await isReady(store)
  t.equal(await record(store, 'a'), 'first')
  t.strictSame(reasons(), ['timeout', 'available'])
})

t.test('a store that is away refuses at once, and is used again when it is back', async t => {
  const fake = await startFake(t)
  await fake.stop()
  const { store, reasons } = await open(t, `redis://:hunter2@127.0.0.1:${fake.port}`)
  t.equal(await record(store, 'a'), 'replay_unavailable', 'as soon as the first connection has failed')
  t.equal(await record(store, 'a'), 'replay_unavailable')
  t.hasStrict(store.state(), { ready: false, reason: 'unreachable', records: 2, refused: 2 })
  await fake.restart()
  await isReady(store)
  t.equal(await record(store, 'a'), 'first')
  await fake.stop()
  await until('its loss is noticed', () => !store.state().ready)
  t.equal(await record(store, 'b'), 'replay_unavailable')
  await fake.restart()
  await isReady(store)
  t.equal(await record(store, 'a'), 'seen')
  t.strictSame(reasons(), ['unreachable', 'available', 'unreachable', 'available'], 'each change is reported once')
})

t.test('a record under way when the connection breaks is refused, and never sent twice', async t => {
  const { store, fake } = await openOnFake(t)
  fake.override = ([name, ...words]) => name === 'SET' && words.includes('NX') ? 'close' : undefined
  t.equal(await record(store, 'a'), 'replay_unavailable')
  fake.override = undefined
  await isReady(store)
  t.equal(recordsOf(fake).length, 1)
  t.equal(await record(store, 'b'), 'first')
})

t.test('a server that hangs costs each record a fifth of a second, until its connection is dropped', async t => {
  const { store, fake, reasons } = await openOnFake(t, '', processSurroundings)
  const { connections } = fake
  fake.override = () => null
  const waiting = [record(store, 'a'), record(store, 'b')]
  // At once: on a busy machine the connection may be dropped before the last one is refused.
  const state = waiting[0]!.then(() => store.state())
  await delay(100)
  waiting.push(record(store, 'c'))
  t.strictSame(await Promise.all(waiting), ['replay_unavailable', 'replay_unavailable', 'replay_unavailable'])
  t.hasStrict(await state, { ready: false, reason: 'timeout' })
  t.equal(store.state().refused, 3)
  await until('the connection is dropped', () => fake.connections > connections)
  t.equal(await record(store, 'd'), 'replay_unavailable')
  t.notOk(recordsOf(fake).some(([, key]) => key === keyOf('d')), 'a new connection must answer first')
  fake.override = undefined
  await isReady(store)
  t.equal(await record(store, 'e'), 'first')
  // On a busy machine further connections may be dropped in between.
  const changes = reasons()
  t.strictSame([...changes.slice(0, 2), changes.at(-1)], ['available', 'timeout', 'available'])
})

/** Time that passes when the test says so. */
function createTimers () {
  let now = 0
  let due: Array<{ at: number, run: () => void }> = []
  const after = (ms: number, run: () => void) => {
    due.push({ at: now + ms, run })
    return () => {}
  }
  const timers = {
    now: () => Date.now() / 1000,
    steadyMs: () => now,
    after,
    every (ms: number, run: () => void) {
      let stopped = false
      const again = () => {
        if (stopped) return
        after(ms, again)
        run()
      }
      after(ms, again)
      return () => {
        stopped = true
      }
    },
    /** As when this process stalls: what fell due runs late, and nothing else has happened. */
    stall (ms: number) {
      now += ms
      const late = due.filter(({ at }) => at <= now)
      due = due.filter(({ at }) => at > now)
      for (const { run } of late) run()
    },
    waiting: () => due.length,
    pass (ms: number) {
      for (let left = ms; left > 0; left -= 10) timers.stall(10)
    }
  }
  return timers
}

const KEEPS: MemoryAnswer = { info: '# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n' }
const EVICTS: MemoryAnswer = { info: '# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n' }
const replyError = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' })
const MUTE: MemoryAnswer = { error: replyError("NOPERM this user has no permissions to run the 'info' command") }
const RENAMED: MemoryAnswer = { error: replyError("ERR unknown command 'INFO'") }
const LOADING: MemoryAnswer = { error: replyError('LOADING Redis is loading the dataset in memory') }
const SILENT: MemoryAnswer = { error: new Error('Connection is closed.') }

/** A store on a link and on timers made by hand: the test gives the answers, and lets time pass. */
function openOnLink (t: Test, now: () => number = () => Date.now() / 1000) {
  const timers = { ...createTimers(), now }
  const changes: string[] = []
  const link = {
    ready: true,
    listeners: undefined as unknown as LinkListeners,
    policies: [] as Array<(answers: readonly MemoryAnswer[]) => void>,
    sets: [] as Array<{ ttlSeconds: number, ifAbsent: boolean, done: (error: Error | null, reply?: unknown) => void }>,
    closed: 0
  }
  const store = createRedisStore({
    open: listeners => {
      link.listeners = listeners
      return {
        get ready () {
          return link.ready
        },
        set: (_key, ttlSeconds, ifAbsent, done) => {
          link.sets.push({ ttlSeconds, ifAbsent, done })
        },
        memoryInfo: done => {
          link.policies.push(done)
        },
        close () {
          link.closed++
        }
      }
    },
    surroundings: timers,
    onChange: fault => {
      changes.push(fault ?? 'available')
    },
    onPolicyUnknown: () => {
      changes.push('policy_unknown')
    }
  })
  t.teardown(() => store.close())
  const answerPolicy = (...answers: MemoryAnswer[]) => link.policies.at(-1)!(answers)
  /** A connection is made, to a server that keeps records. */
  const connect = () => {
    link.ready = true
    link.listeners.ready()
    answerPolicy(KEEPS)
  }
  /** The answers to all that is under way. */
  const answerSets = () => {
    for (const { done } of link.sets.splice(0)) done(null, 'OK')
  }
  /** Time in which a record or a probe is answered at once. */
  const live = (ms: number, each?: () => void) => {
    for (let left = ms; left > 0; left -= 10) {
      timers.pass(10)
      each?.()
      answerSets()
    }
  }
  return { store, link, timers, changes, answerPolicy, connect, answerSets, live }
}

t.test('an answer that comes too late changes nothing', async t => {
  const { store, link, timers, connect } = openOnLink(t)
  connect()
  let answers = 0
  store.record(idOf('a'), 'jkt', inSeconds(330), () => {
    answers++
  })
  timers.pass(230)
  t.equal(store.state().refused, 1)
  for (const { done } of link.sets) done(null, 'OK')
  t.equal(answers, 1)
  t.hasStrict(store.state(), { records: 1, seen: 0, refused: 1 })
})

t.test('one policy request is under way at a time, and its answer holds only for that connection', async t => {
  const { store, link, timers } = openOnLink(t)
  timers.pass(600)
  t.equal(link.policies.length, 1, 'one request without an answer for two beats')
  link.ready = false
  link.listeners.close()
  link.policies[0]!([KEEPS])
  t.equal(await record(store, 'a'), 'replay_unavailable')
  t.equal(link.sets.length, 0)
  link.ready = true
  link.listeners.ready()
  link.policies[1]!([KEEPS])
  t.equal(link.sets.length, 1, 'the probe')
})

t.test(
  'a record without an answer is not sent again on the next connection, and one that waits for the first is sent ' +
    'once',
  async t => {
    const { store, link, connect } = openOnLink(t)
    const sent = () => link.sets.filter(({ ifAbsent }) => ifAbsent).length
    store.record(idOf('a'), 'jkt', inSeconds(330), () => {})
    t.equal(sent(), 0)
    for (const time of ['first', 'second']) {
      connect()
      t.equal(sent(), 1, `${time} connection`)
      link.listeners.close()
    }
  }
)

t.test('an answer that came while this process was stalled is not given up, and one that has not come is', async t => {
  for (const isThere of [true, false]) {
    const { store, timers, answerSets, connect } = openOnLink(t)
    connect()
    answerSets()
    const outcome = record(store, 'a')
    timers.stall(300)
    // What lies in the socket is read as soon as the timers have run.
    if (isThere) answerSets()
    timers.pass(30)
    t.equal(await outcome, isThere ? 'first' : 'replay_unavailable')
  }
})

t.test('records are refused at their own deadlines, also those that are made while others are', async t => {
  const { store, timers, answerSets, connect } = openOnLink(t)
  connect()
  answerSets()
  const refusedAt: Record<string, number> = {}
  const onRefused = (name: string) => () => {
    refusedAt[name] = timers.steadyMs()
  }
  store.record(idOf('a'), 'jkt', inSeconds(330), () => {
    onRefused('a')()
    store.record(idOf('c'), 'jkt', inSeconds(330), onRefused('c'))
  })
  timers.pass(100)
  store.record(idOf('b'), 'jkt', inSeconds(330), onRefused('b'))
  timers.pass(1000)
  t.strictSame(refusedAt, { a: 220, b: 320, c: 440 }, '200 ms each, and 20 for answers that lie unread')
})

t.test('a server that begins to evict is left within a second, idle or busy, and used again when it has stopped', async t => {
  for (const isBusy of [false, true]) {
    const { store, link, changes, answerPolicy, answerSets, ...opened } = openOnLink(t)
    let n = 0
    const live = (ms: number) =>
      opened.live(
        ms,
        isBusy
          ? () => {
              record(store, n++)
            }
          : undefined
      )
    link.listeners.ready()
    for (const times of [1, 2]) {
      answerPolicy(KEEPS)
      live(990)
      t.equal(link.policies.length, times, 'not requested with each record')
      live(10)
      t.equal(link.policies.length, times + 1, 'requested again after a second')
    }
    t.equal(store.state().ready, true)
    answerPolicy(EVICTS)
    t.hasStrict(store.state(), { ready: false, reason: 'evicts' })
    t.equal(await record(store, 'a'), 'replay_unavailable')
    t.equal(link.sets.length, 0, 'nothing is sent there')
    live(250)
    answerPolicy(EVICTS)
    t.equal(await record(store, 'a'), 'replay_unavailable', 'still')
    live(250)
    t.equal(link.policies.length, 5)
    answerPolicy(KEEPS)
    answerSets()
    live(1500)
    t.equal(store.state().ready, true)
    t.strictSame(changes, ['available', 'evicts', 'available'])
  }
})

t.test('a server that does not say whether it evicts is used, and readiness reports it', async t => {
  const { store, link, changes, answerPolicy, answerSets, live } = openOnLink(t)
  link.listeners.ready()
  answerPolicy(MUTE)
  const outcome = record(store, 'a')
  answerSets()
  t.equal(await outcome, 'first')
  t.hasStrict(store.state(), { ready: true, reason: 'policy_unknown' })
  live(1000)
  answerPolicy({ info: '# Memory\r\nused_memory:1\r\n' })
  t.hasStrict(store.state(), { ready: true, reason: 'policy_unknown' }, 'an answer without the word')
  t.strictSame(changes, ['policy_unknown', 'available'], 'reported once')
  live(1000)
  answerPolicy(KEEPS)
  t.hasStrict(store.state(), { ready: true, reason: undefined })
})

t.test('of several servers one that evicts is enough, and one that does not answer is no news', async t => {
  const rows: [MemoryAnswer[], EvictionPolicy | null][] = [
    [[], null],
    [[SILENT], null],
    [[LOADING], null],
    [[{ error: new Error('NOPERM') }], null],
    [[RENAMED], 'unknown'],
    [[KEEPS], 'keeps'],
    [[KEEPS, SILENT], 'keeps'],
    [[KEEPS, MUTE, KEEPS], 'unknown'],
    [[KEEPS, MUTE, SILENT, EVICTS], 'evicts'],
    [[{ info: '# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n' }], 'keeps'],
    [[{ info: '# Memory\r\nmaxmemory:0\r\n' }], 'keeps'],
    [[{ info: '# Memory\r\nmaxmemory_policy:allkeys-lru\r\n' }], 'evicts'],
    [[{ info: '' }], 'unknown']
  ]
  for (const [answers, policy] of rows) t.equal(policyOf(answers), policy)

  const { store, link, answerPolicy, answerSets, live } = openOnLink(t)
  link.listeners.ready()
  answerPolicy(SILENT)
  t.equal(link.sets.length, 0, 'not used before it has answered')
  t.equal(store.state().reason, 'connecting')
  live(250)
  answerPolicy(LOADING)
  t.equal(link.sets.length, 0)
  t.equal(store.state().reason, 'loading')
  live(1500)
  answerPolicy(KEEPS)
  answerSets()
  t.equal(store.state().ready, true)
  live(1000)
  answerPolicy(SILENT)
  t.equal(store.state().ready, true)
})

/** A store that is up, with nothing under way. */
function openReady (t: Test, now?: () => number) {
  const opened = openOnLink(t, now)
  opened.connect()
  opened.answerSets()
  t.equal(opened.store.state().ready, true)
  return opened
}

t.test('one timer is enough for all commands under way', async t => {
  const { store, timers } = openReady(t)
  const before = timers.waiting()
  for (const name of ['a', 'b', 'c']) record(store, name)
  t.equal(timers.waiting() - before, 0, 'that of the probe still runs')
})

t.test('an error that comes too late does not say why the store is not ready', async t => {
  const { store, link, timers, changes } = openReady(t)
  const outcome = record(store, 'a')
  timers.pass(230)
  t.equal(await outcome, 'replay_unavailable')
  link.sets[0]!.done(replyError('OOM command not allowed'))
  t.hasStrict(store.state(), { ready: false, reason: 'timeout' }, 'its timeout was reported')
  t.strictSame(changes, ['available', 'timeout'])
})

t.test('an error on a connection that is gone has no reason of its own', async t => {
  const { store, link } = openReady(t)
  const outcome = record(store, 'a')
  link.ready = false
  link.sets[0]!.done(new Error('Connection is closed.'))
  t.equal(await outcome, 'replay_unavailable')
  t.equal(store.state().ready, true, 'the connection reports the close')
  link.listeners.error(Object.assign(new Error('x'), { code: 'ECONNRESET' }))
  link.listeners.close()
  t.hasStrict(store.state(), { ready: false, reason: 'unreachable' })
})

t.test('a server that refuses some records is ready again when it has refused none for a second', async t => {
  const { store, link, timers, changes, answerSets } = openReady(t)
  const refuse = (name: string) => {
    const outcome = record(store, name)
    link.sets.find(({ ifAbsent }) => ifAbsent)!.done(replyError('OOM command not allowed'))
    link.sets.length = 0
    return outcome
  }
  /** Time in which every probe is answered. */
  const pass = (ms: number) => {
    for (let left = ms; left > 0; left -= 10) {
      timers.pass(10)
      answerSets()
    }
  }
  await refuse('a')
  pass(500)
  t.equal(store.state().reason, 'oom', 'probes are answered')
  await refuse('b')
  const refusedAt = timers.steadyMs()
  while (!store.state().ready && timers.steadyMs() < 10_000) pass(10)
  t.equal(Math.ceil((refusedAt + 1000) / 250) * 250, timers.steadyMs(), 'the first probe after a second')
  t.strictSame(changes, ['available', 'oom', 'available'])
})

t.test('the calm lasts exactly a second, and is not required of a new connection', async t => {
  const { store, link, timers, answerSets, connect } = openReady(t)
  timers.pass(10)
  answerSets()
  record(store, 'a')
  link.sets.pop()!.done(replyError('OOM command not allowed'))
  timers.pass(240)
  const [probe] = link.sets.splice(0)
  timers.pass(10)
  probe!.done(null, 'OK')
  t.equal(store.state().ready, false)
  link.ready = false
  link.listeners.close()
  t.equal(store.state().reason, 'oom', 'the reason is the one before')
  connect()
  answerSets()
  t.equal(store.state().ready, true, 'the next connection is judged by itself')
})

t.test('a record that has waited in vain for the first connection requires no calm of it', async t => {
  const { store, link, timers, answerSets, connect } = openOnLink(t)
  link.ready = false
  const outcome = record(store, 'a')
  timers.pass(300)
  t.equal(await outcome, 'replay_unavailable')
  t.hasStrict(store.state(), { ready: false, reason: 'timeout' })
  connect()
  answerSets()
  t.equal(store.state().ready, true)
})

t.test('an expired time is not sent, and its last second is', async t => {
  const now = 1_700_000_000
  const { store, link } = openReady(t, () => now)
  t.equal(await record(store, 'a', now - LATE_RECORD_SECONDS), 'replay_unavailable', 'nothing is left')
  t.equal(link.sets.length, 0)
  record(store, 'a', now - LATE_RECORD_SECONDS + 0.001)
  record(store, 'b', now + 10)
  t.strictSame(link.sets.map(({ ttlSeconds }) => ttlSeconds), [1, 10 + LATE_RECORD_SECONDS])
})

t.test('a record that waits for the first connection has 250 ms, and later ones 200', async t => {
  const { store, timers, connect } = openOnLink(t)
  const refusedAt: number[] = []
  const put = (name: string) =>
    store.record(idOf(name), 'jkt', inSeconds(330), refusal => {
      if (refusal) refusedAt.push(timers.steadyMs())
    })
  put('a')
  timers.pass(260)
  t.strictSame(refusedAt, [])
  timers.pass(100)
  t.strictSame(refusedAt, [270])
  t.hasStrict(store.state(), { reason: 'timeout', refused: 1 })
  put('b')
  t.strictSame(refusedAt, [270, 360], 'after a failure nothing waits')
  connect()
  put('c')
  timers.pass(300)
  t.strictSame(refusedAt, [270, 360, 580])
})

t.test('records that wait for the first connection are refused as soon as it fails, and are not sent by the next one', async t => {
  const { store, link, connect } = openOnLink(t)
  const waiting = [record(store, 'a'), record(store, 'b')]
  link.ready = false
  link.listeners.error(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }))
  t.strictSame(await Promise.all(waiting), ['replay_unavailable', 'replay_unavailable'])
  t.hasStrict(store.state(), { ready: false, reason: 'unreachable', records: 2, refused: 2 })
  connect()
  t.strictSame(link.sets.map(({ ifAbsent }) => ifAbsent), [false], 'only the probe')
})

t.test('an error without a reason changes nothing, and neither do events after the close', async t => {
  const { store, link, changes, answerPolicy, timers } = openReady(t)
  link.listeners.error(new Error('Connection is closed.'))
  t.equal(store.state().ready, true)
  await store.close()
  t.equal(link.closed, 1)
  t.hasStrict(store.state(), { ready: false, reason: 'closed' })
  t.equal(await record(store, 'late'), 'replay_unavailable')
  timers.pass(2000)
  t.equal(link.policies.length, 1, 'nothing is requested')
  link.listeners.error(replyError('OOM'))
  link.listeners.close()
  link.listeners.ready()
  answerPolicy(EVICTS)
  timers.pass(2000)
  t.hasStrict(store.state(), { ready: false, reason: 'closed' })
  t.equal(link.sets.length, 0, 'nothing is tried')
  t.strictSame(changes, ['available'], 'and nothing is reported')
})

t.test('a probe counts as no record, and an idle store is probed once a second', async t => {
  const { store, link, timers, answerSets } = openReady(t)
  const probedAt: number[] = []
  for (let left = 3000; left > 0; left -= 10) {
    timers.pass(10)
    if (link.sets.length > 0) probedAt.push(timers.steadyMs())
    answerSets()
  }
  t.strictSame(probedAt, [1000, 2000, 3000], 'at every fourth beat')
  timers.pass(2000)
  t.hasStrict(store.state(), { ready: false, reason: 'timeout', records: 0, seen: 0, refused: 0 })
})

t.test('a command that cannot be sent on an open connection makes the store unreachable', async t => {
  const { store, link } = openOnLink(t)
  link.listeners.ready()
  link.policies[0]!([KEEPS])
  const outcome = record(store, 'a')
  link.sets.find(({ ifAbsent }) => ifAbsent)!.done(new Error('Connection is closed.'))
  t.equal(await outcome, 'replay_unavailable')
  t.hasStrict(store.state(), { ready: false, reason: 'unreachable' })
})

t.test('a refusal of a server is named, not accepted, and forgotten when it stops', async t => {
  const rows: [Reply, string][] = [
    ["-OOM command not allowed when used memory > 'maxmemory'.\r\n", 'oom'],
    ["-READONLY You can't write against a read only replica.\r\n", 'readonly'],
    ['-LOADING Redis is loading the dataset in memory\r\n', 'loading'],
    ['-NOPERM this user has no permissions\r\n', 'auth'],
    ['-MISCONF Redis is configured to save RDB snapshots\r\n', 'refused_write'],
    ['-MOVED 1234 127.0.0.1:1\r\n', 'cluster'],
    ['+QUEUED\r\n', 'not_redis'],
    [':1\r\n', 'not_redis'],
    ['$3\r\nabc\r\n', 'not_redis']
  ]
  await Promise.all(rows.map(async ([reply, reason]) => {
    const { store, fake, reasons } = await openOnFake(t)
    fake.override = answering('SET', reply)
    t.equal(await record(store, 'a'), 'replay_unavailable', reason)
    t.hasStrict(store.state(), { ready: false, reason })
    await delay(600)
    await record(store, 'a')
    // A replica is left for a new connection, which may be on its way just then.
    await until(`it is still ${reason}`, () => !store.state().ready && store.state().reason === reason)
    fake.override = undefined
    await isReady(store)
    t.equal(await record(store, 'b'), 'first')
    // A replica is left for a new connection, so a record that is under way just then reports the broken one.
    const changes = reason === 'readonly'
      ? [...new Set(reasons().slice(0, -1))].filter(word => word !== 'unreachable').concat(reasons().at(-1)!)
      : reasons()
    t.strictSame(changes, ['available', reason, 'available'])
  }))
})

t.test('a link reports its state, and leaves a replica at most once a second', async t => {
  const fake = await startFake(t)
  const events: string[] = []
  let nowMs = 0
  const link = openRedisLink(parseRedisUrl(`redis://127.0.0.1:${fake.port}`), {
    ready: () => {
      events.push('ready')
    },
    error: () => {
      events.push('error')
    },
    close: () => {
      events.push('close')
    }
  }, () => nowMs)
  t.teardown(() => link.close())
  const set = (ifAbsent = true) =>
    new Promise(resolve => link.set('k', 7, ifAbsent, (error, reply) => resolve(error ? error.message : reply)))
  t.equal(link.ready, false)
  await until('it is ready', () => events.length > 0)
  t.strictSame([events, link.ready], [['ready'], true])
  t.strictSame([await set(), await set(), await set(false)], ['OK', null, 'OK'])
  const sent = ['SET', 'k', '1', 'EX', '7']
  t.strictSame(fake.commands.filter(([name]) => name === 'SET'), [[...sent, 'NX'], [...sent, 'NX'], sent])
  t.match(await new Promise(resolve => link.memoryInfo(resolve)), [{ info: /maxmemory_policy/ }])
  t.strictSame(fake.commands.filter(([name]) => name === 'INFO'), [['INFO', 'memory']], 'and requests no more')

  fake.override = answering('SET', '-READONLY no\r\n')
  for (const [at, connections] of [[999, 1], [1000, 2], [1999, 2], [2000, 3]] as const) {
    nowMs = at
    t.equal(await set(), 'READONLY no')
    await until(`${connections} connections at ${at}`, () => fake.connections === connections)
    await delay(50)
    t.equal(fake.connections, connections)
    await until('it is ready again', () => link.ready)
  }
  fake.override = answering('SET', '-OOM no\r\n')
  nowMs = 9000
  t.equal(await set(), 'OOM no')
  await delay(50)
  t.equal(fake.connections, 3, 'no other refusal makes it leave')
  events.length = 0
  await fake.stop()
  await until('the close is reported', () => events.includes('close'))
  t.match(await set(), /closed|writeable/)
  await until('each attempt is reported', () => events.includes('error'))
  await fake.restart()
  await until('it has come back by itself', () => events.includes('ready'))
})

t.test('a server that has become a replica is left for a new connection, once a second at most', async t => {
  const { store, fake } = await openOnFake(t)
  const before = fake.connections
  const startedMs = performance.now()
  fake.override = answering('SET', '-READONLY no\r\n')
  for (let n = 0; n < 50; n++) {
    await record(store, n)
    await delay(10)
  }
  t.ok(fake.connections > before, 'it is left')
  t.ok(fake.connections - before <= 1 + (performance.now() - startedMs) / 1000, 'not for each of its refusals')
})

/**
 * Notes the times of timers that one part of the client starts, and has them run out at once if they are `hasty`, until
 * the end of the test.
 */
function watchTimers (t: Test, part: string, hasty: boolean) {
  const { setTimeout: set } = globalThis
  const times: number[] = []
  const put = (run: () => void, ms = 0, ...args: unknown[]) => {
    const isOfPart = new Error().stack!.includes(part)
    if (isOfPart) times.push(ms)
    return set(run, isOfPart && hasty ? 0 : ms, ...args as [])
  }
  globalThis.setTimeout = Object.assign(put, set) as typeof set
  t.teardown(() => {
    globalThis.setTimeout = set
  })
  return times
}

t.test('Sentinels that do not answer are retried after delays that double, up to half a second', async t => {
  const times = watchTimers(t, 'SentinelConnector', true)
  await open(t, 'redis://127.0.0.1:1?sentinel=main', {
    ...patientSurroundings,
    after: () => () => {},
    every: () => () => {}
  })
  await until('they have been retried many times', () => times.length >= 24)
  // Each connection has limits of its own: 500 ms and more.
  t.strictSame(times.filter(ms => ms < 500), [50, 100, 200, 400])
})

t.test('a node of a cluster has half a second to answer with the slots', async t => {
  const fake = await startFake(t)
  fake.override = answering('CLUSTER', null)
  const times = watchTimers(t, 'ioredis/built/cluster', false)
  await open(t, `redis://127.0.0.1:${fake.port}?cluster=true`, {
    ...patientSurroundings,
    after: () => () => {},
    every: () => () => {}
  })
  await until('it gets a request', () => fake.commands.some(([name]) => name === 'CLUSTER'))
  // The client closes a connection that does not end within 2 s.
  t.strictSame([...new Set(times)].filter(ms => ms >= 500 && ms < 2000), [500])
})

t.test('each attempt to connect again waits twice as long as the one before, up to half a second', async t => {
  t.strictSame([1, 2, 3, 4, 5, 10, 1_000_000].map(retryAfterMs), [50, 100, 200, 400, 500, 500, 500])
})

t.test('a connection that does not come about is named', async t => {
  const evicting = bulk('# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n')
  const rows: Record<string, { override?: FakeRedis['override'], greeting?: string, reason: string }> = {
    'a wrong password': {
      override: answering('AUTH', '-WRONGPASS invalid username-password pair or user is disabled.\r\n'),
      reason: 'auth'
    },
    'no password': { override: () => '-NOAUTH Authentication required.\r\n', reason: 'auth' },
    'a database that does not exist': {
      override: answering('SELECT', '-ERR DB index is out of range\r\n'),
      reason: 'database'
    },
    'a server that is full of clients': {
      override: () => '-ERR max number of clients reached\r\n',
      reason: 'max_clients'
    },
    'a server that is loading': { override: answering('INFO', '-LOADING Redis is loading\r\n'), reason: 'loading' },
    'a web server': { override: () => 'HTTP/1.1 400 Bad Request\r\n\r\n', reason: 'not_redis' },
    'a mail server': { greeting: '220 mail.example ESMTP\r\n', reason: 'not_redis' },
    'a server that hangs up': { override: () => 'close', reason: 'unreachable' },
    'a server that says nothing': { override: () => null, reason: 'timeout' },
    'one that would forget records': { override: answering('INFO', evicting), reason: 'evicts' }
  }
  await Promise.all(Object.entries(rows).map(async ([title, { reason, ...server }]) => {
    const fake = Object.assign(await startFake(t), server)
    const { store, reasons } = await open(t, `redis://me:hunter2@127.0.0.1:${fake.port}/3`)
    t.equal(await record(store, 'a'), 'replay_unavailable', title)
    await until(`${title} is ${reason}, not ${store.state().reason}`, () => store.state().reason === reason)
    await delay(600)
    t.equal(await record(store, 'a'), 'replay_unavailable', title)
    await until(`${title} is still ${reason}`, () => store.state().reason === reason)
    t.equal(recordsOf(fake).length, 0, title)
    fake.override = undefined
    fake.greeting = ''
    await isReady(store)
    t.equal(await record(store, 'a'), 'first', title)
    // The limits of the client are half a second of the clock on the wall: a stalled process takes any server for one
    // that hangs.
    const changes = reasons().filter((word, at, words) =>
      (word !== 'timeout' || reason === 'timeout') &&
      word !== words.slice(0, at).filter(earlier => earlier !== 'timeout').at(-1)
    )
    t.strictSame(changes, [reason, 'available'], title)
    t.notMatch(JSON.stringify([store.state(), reasons()]), /hunter2/)
  }))
})

t.test('TLS that does not match is named, and never gone without', async t => {
  const [secure, plain] = [await startFake(t, PROVIDER_TLS), await startFake(t)]
  const untrusted = await open(t, `rediss://127.0.0.1:${secure.port}`)
  const needless = await open(t, `rediss://127.0.0.1:${plain.port}`)
  const missing = await open(t, `redis://127.0.0.1:${secure.port}`)
  for (const { store } of [untrusted, needless, missing]) t.equal(await record(store, 'a'), 'replay_unavailable')
  await until('the certificate is refused', () => untrusted.store.state().reason === 'tls')
  await until('the handshake is not answered', () => needless.store.state().reason === 'timeout')
  t.equal(missing.store.state().ready, false)
  t.equal(secure.commands.length + plain.commands.length, 0)
})

t.test('a cluster is reached by any of its nodes', async t => {
  // The client writes of the node that is down on standard error, when its second connection to it fails.
  const { error } = console
  console.error = () => {}
  t.teardown(() => {
    console.error = error
  })
  const fake = await startFake(t)
  const { store, reasons } = await open(t, `redis://127.0.0.1:1,127.0.0.1:${fake.port}?cluster=true`)
  t.equal(await record(store, 'a'), 'first')
  t.equal(await record(store, 'a'), 'seen')
  await isReady(store)
  fake.override = answering('SET', '-CLUSTERDOWN The cluster is down\r\n')
  t.equal(await record(store, 'b'), 'replay_unavailable')
  t.equal(store.state().reason, 'cluster')
  fake.override = undefined
  await isReady(store)
  await fake.stop()
  await until('it is gone', () => !store.state().ready)
  t.equal(await record(store, 'c'), 'replay_unavailable')
  await fake.restart()
  await isReady(store)
  t.equal(await record(store, 'a'), 'seen')
  t.strictSame(reasons(), ['available', 'cluster', 'available', 'unreachable', 'available'])
})

t.test('In a cluster no record is sent twice: it may have been made', async t => {
  for (const reply of ['-CLUSTERDOWN The cluster is down\r\n', 'close'] as const) {
    const fake = await startFake(t)
    const { store } = await open(t, `redis://127.0.0.1:${fake.port}?cluster=true`)
    await isReady(store)
    fake.override = ([name, ...words]) => name === 'SET' && words.includes('NX') ? reply : undefined
    t.equal(await record(store, 'a'), 'replay_unavailable')
    // Longer than the client would wait before it sends a command again.
    await delay(250)
    t.equal(recordsOf(fake).length, 1, reply)
  }
})

t.test('Sentinels lead to the master', async t => {
  const fake = await startFake(t)
  const { store } = await open(t, `redis://127.0.0.1:1,127.0.0.1:${fake.port}?sentinel=main`)
  t.equal(await record(store, 'a'), 'first')
  t.equal(await record(store, 'a'), 'seen')
  t.hasStrict(fake.commands.find(([name]) => name === 'SENTINEL'), ['SENTINEL', 'get-master-addr-by-name', 'main'])
  const asUser = await open(
    t,
    `redis://user:secret@127.0.0.1:${fake.port}?sentinel=main&sentinelUsername=watcher&sentinelPassword=other`
  )
  t.equal(await record(asUser.store, 'c'), 'first')
  t.strictSame(fake.commands.filter(([name]) => name === 'AUTH').slice(0, 2), [['AUTH', 'watcher', 'other'], [
    'AUTH',
    'user',
    'secret'
  ]], 'each with its own password')
  const tls = await open(t, `rediss://127.0.0.1:${fake.port}?sentinel=main`)
  t.equal(await record(tls.store, 'b'), 'replay_unavailable', 'with TLS, the Sentinels need it as well')
})

function nameMaster (sentinel: FakeRedis, { port }: FakeRedis) {
  sentinel.override = ([name, word]) =>
    name === 'SENTINEL' && word === 'get-master-addr-by-name'
      ? `*2\r\n${bulk('127.0.0.1')}${bulk(String(port))}`
      : undefined
}

t.test('With rediss: Sentinels and master are reached by TLS, each under a name of its certificate', async t => {
  trustProvider(t)
  const [sentinel, master, plain] = [
    await startFake(t, PROVIDER_TLS),
    await startFake(t, PROVIDER_TLS),
    await startFake(t)
  ]
  nameMaster(sentinel, master)
  const { store } = await open(t, `rediss://localhost:${sentinel.port}?sentinel=main`)
  t.equal(await record(store, 'a'), 'first')
  t.equal(await record(store, 'a'), 'seen')
  t.strictSame([recordsOf(sentinel).length, recordsOf(master).length], [0, 2])
  nameMaster(sentinel, plain)
  const other = await open(t, `rediss://localhost:${sentinel.port}?sentinel=main`)
  t.equal(await record(other.store, 'b'), 'replay_unavailable')
  await until('it has been tried', () => plain.connections > 0)
  t.strictSame(plain.commands, [], 'a master without TLS gets no command')
})

t.test('A master whose certificate is not trusted is the only reason, although Sentinels are asked again.', async t => {
  trustProvider(t)
  const [sentinel, master] = [await startFake(t, PROVIDER_TLS), await startFake(t, CLIENT_TLS)]
  nameMaster(sentinel, master)
  const asked = () => sentinel.commands.filter(([name]) => name === 'SENTINEL').length
  const { store, reasons } = await open(t, `rediss://localhost:${sentinel.port}?sentinel=main`)
  await until('the Sentinel was asked often', () => asked() > 6)
  t.strictSame(reasons(), ['tls'])
  await sentinel.stop()
  await until('no Sentinel is reached', () => store.state().reason === 'unreachable')
})

t.test('With rediss: a cluster is reached by the names of its nodes, from the first connection on.', async t => {
  trustProvider(t)
  const connect = t.capture(tls, 'connect', tls.connect)
  const fake = await startFake(t, PROVIDER_TLS)
  fake.override = ([name, word]) =>
    name === 'CLUSTER' && word!.toUpperCase() === 'SLOTS'
      ? `*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n${bulk('localhost')}:${fake.port}\r\n${bulk('a'.repeat(40))}`
      : undefined
  const { store } = await open(t, `rediss://localhost:${fake.port}?cluster=true`)
  t.equal(await record(store, 'a'), 'first')
  t.strictSame(new Set(connect().map(({ args: [options] }) => (options as tls.ConnectionOptions).host)), new Set(['localhost']))
})

t.test('A server, Sentinels and a cluster get the certificate of the client, and are trusted by its ca alone.', async t => {
  const tls = { ...PROVIDER_TLS, requestCert: true, ca: CLIENT_TLS.cert }
  const files = {
    cert: place('client-a.cert.pem'),
    key: place('client-a.key.pem'),
    ca: place('provider.cert.pem')
  }
  for (const parameters of ['', '?cluster=true', '?sentinel=main']) {
    const fake = await startFake(t, tls)
    const url = `rediss://localhost:${fake.port}${parameters}`
    const { store } = await open(t, { url, ...files })
    await isReady(store)
    t.equal(await record(store, 'a'), 'first', parameters)
    const { cert, key, ca } = files
    for (const others of [{ ca }, { cert, key }]) {
      const { store } = await open(t, { url, ...others })
      t.equal(await record(store, 'b'), 'replay_unavailable', `${parameters} ${Object.keys(others)}`)
    }
  }
})

t.test('A server that refuses the certificate, and leaves the connection open, ends nothing but that.', async t => {
  for (const parameters of ['', '?cluster=true', '?sentinel=main']) {
    const fake = await startFake(t, { ...PROVIDER_TLS, requestCert: true, ca: CLIENT_TLS.cert })
    let left = 0
    const relay = createServer({ allowHalfOpen: true }, socket => {
      const behind = connect(fake.port, '127.0.0.1').on('data', chunk => socket.write(chunk))
      socket.on('data', chunk => behind.write(chunk)).on('end', () => {
        left++
        socket.destroy()
      })
      for (const end of [socket, behind]) end.on('error', () => {})
    })
    const port = await listen(t, relay)
    const { store } = await open(t, { url: `rediss://localhost:${port}${parameters}`, ca: place('provider.cert.pem') })
    await until('connections are left', () => left > 3)
    t.equal(await record(store, 'a'), 'replay_unavailable', parameters)
    await store.close()
  }
})

t.test('A file for TLS that cannot be used is told before anything is connected, and nothing of it.', async t => {
  const url = 'rediss://127.0.0.1:1'
  const unusable = (why: string) =>
    `DPOP_REPLAY (dpop.replay) has a cert, key or ca that is not usable (${why}); allowed: { file: PATH } of PEM`
  for (
    const [given, problem] of [
      [{ url, cert: place('client-a.cert.pem') }, 'DPOP_REPLAY (dpop.replay) has one of cert and key: they belong together'],
      [{ url, ca: place('absent.pem') }, unusable('ENOENT')],
      [
        { url, cert: place('client-a.cert.pem'), key: place('client-b.key.pem') },
        unusable('ERR_OSSL_X509_KEY_VALUES_MISMATCH')
      ],
      [
        { url, ca: place('ecdsa.json') },
        unusable('ca holds no certificate')
      ]
    ] as const
  ) await t.rejects(open(t, given), new SettingsError([problem]))
})

t.test('A Sentinel that hangs is left for the next one', async t => {
  const [hanging, good] = [await startFake(t), await startFake(t)]
  hanging.override = answering('SENTINEL', null)
  const { store } = await open(t, `redis://127.0.0.1:${hanging.port},127.0.0.1:${good.port}?sentinel=main`)
  await isReady(store)
  t.equal(await record(store, 'a'), 'first')
  t.equal(hanging.commands.some(([name]) => name === 'SENTINEL'), true)
})

t.test('closing refuses records that are under way, waiting or later', async t => {
  const fake = await startFake(t)
  fake.override = answering('SET', null)
  const { store } = await open(t, `redis://127.0.0.1:${fake.port}`)
  const early = record(store, 'a')
  await until('the record is sent', () => recordsOf(fake).length === 1)
  const late = record(store, 'b')
  await store.close()
  t.strictSame(await Promise.all([early, late, record(store, 'c')]), [
    'replay_unavailable',
    'replay_unavailable',
    'replay_unavailable'
  ])
  t.hasStrict(store.state(), { ready: false, reason: 'closed', records: 3, refused: 3 })

  const unready = await open(t, `redis://127.0.0.1:${fake.port}`)
  const waiting = record(unready.store, 'a')
  await unready.store.close()
  t.equal(await waiting, 'replay_unavailable')
})

t.test('errors of the client have stable names', async t => {
  const error = (message: string, more: object = {}) => Object.assign(new Error(message), more)
  t.equal(faultOf(error('x', { code: 'ECONNREFUSED' })), 'unreachable')
  t.equal(faultOf(error('x', { code: 'ETIMEDOUT' })), 'timeout')
  t.equal(faultOf(error('x', { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })), 'tls')
  t.equal(faultOf(error('x', { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })), 'tls')
  t.equal(faultOf(error('ERR unknown', { name: 'ReplyError' })), 'refused_write')
  const replies: ReadonlyArray<readonly [reply: string, fault: string]> = [
    ['READONLY You can', 'readonly'],
    ['MASTERDOWN Link', 'readonly'],
    ['OOM command', 'oom'],
    ['WRONGPASS invalid', 'auth'],
    ['NOAUTH', 'auth'],
    ['NOPERM this', 'auth'],
    ["ERR The user executing the script can't run", 'auth'],
    ['ERR ACL failure in script: User', 'auth'],
    ['ERR invalid password', 'auth'],
    ['ERR AUTH <password>', 'auth'],
    ['LOADING Redis', 'loading'],
    ['CLUSTERDOWN', 'cluster'],
    ['MOVED 1 a:1', 'cluster'],
    ['ASK 1 a:1', 'cluster'],
    ['CROSSSLOT Keys', 'cluster'],
    ['ERR This instance has cluster support disabled', 'cluster'],
    ['ERR DB index is', 'database'],
    ['ERR SELECT is not allowed', 'database'],
    ["NOPERM User u has no permissions to run the 'select' command", 'database'],
    ['ERR max number of clients', 'max_clients'],
    ['Unknown RESP type: 72', 'not_redis'],
    ['Socket timeout. x', 'timeout'],
    ['All sentinels are unreachable. Retrying from scratch after 10ms. Last error: x', 'unreachable']
  ]
  for (const [reply, fault] of replies) {
    t.equal(faultOf(error(reply, { name: 'ReplyError' })), fault, reply)
    t.equal(
      faultOf(error(`ERR in a script: ${reply}`, { name: 'ReplyError' })),
      'refused_write',
      'only at the beginning: the rest may be what was sent'
    )
  }
  t.equal(faultOf(error('Socket timeout. x')), 'timeout')
  t.equal(faultOf(error('Unknown RESP type: 72')), 'not_redis')
  t.equal(faultOf(error('All sentinels are unreachable. Retrying from scratch after 10ms.')), null)
  t.equal(faultOf(error('Connection is closed.')), null)
  t.equal(
    faultOf(error('Failed to refresh slots cache.', { lastNodeError: error('NOAUTH Authentication required.') })),
    'auth'
  )
})

t.test('A Redis client that is not installed is named in one sentence.', async t => {
  const failing = (code: string) =>
    reachRedis('redis://127.0.0.1:1', 'DPOP_REPLAY (dpop.replay)', processSurroundings, async () => {
      throw Object.assign(new Error('Cannot load'), { code })
    })
  await t.rejects(
    failing('ERR_MODULE_NOT_FOUND'),
    new SettingsError([
      'DPOP_REPLAY (dpop.replay) names a Redis, and the package ioredis is not installed: npm i ioredis'
    ])
  )
  await t.rejects(
    failing('ERR_INVALID_PACKAGE_CONFIG'),
    { message: 'Cannot load' },
    'another fault is reported as it is'
  )
  const store = await createReplayStore({
    store: 'redis://127.0.0.1:1',
    maxRecords: 1,
    onEvent: () => {},
    surroundings: processSurroundings
  })
  t.equal(store.state().kind, 'redis', 'the twin: it is installed')
  store.close()
})
