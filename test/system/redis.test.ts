import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import type { Refusal } from '../../lib/refusal.ts'
import { createReplayStore } from '../../lib/guard/replay/create-store.ts'
import type { ReplayStore } from '../../lib/guard/replay/replay-store.ts'
import { patientSurroundings } from '../helpers/patient-surroundings.ts'
import { skipRedis, startRedis, startTlsRedis, type RedisServer } from '../helpers/redis.ts'
import { until } from '../helpers/until.ts'

const idOf = (name: string | number) => hash('sha256', String(name), 'binary')

function record (store: ReplayStore, name: string | number) {
  return new Promise(resolve =>
    store.record(idOf(name), 'jkt', Date.now() / 1000 + 330, (refusal, first) => {
      resolve(refusal ? (refusal as Refusal).reason : first ? 'first' : 'seen')
    })
  )
}

async function open (t: Test, url: string) {
  const changes: string[] = []
  const store = await createReplayStore({
    store: url,
    maxRecords: 1,
    onEvent: event => {
      changes.push('reason' in event ? event.reason : event.name.replace('replay_', ''))
    },
    surroundings: patientSurroundings
  })
  t.teardown(() => store.close())
  return { store, changes }
}

async function openReady (t: Test, server: RedisServer) {
  const opened = await open(t, `redis://127.0.0.1:${server.port}`)
  await until('the store is ready', () => opened.store.state().ready)
  return opened
}

const isReady = (store: ReplayStore) => () => store.state().ready
const hasReason = (store: ReplayStore, reason: string) => () => store.state().reason === reason

t.test('of 1,000 copies over two stores at the same moment exactly one passes', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const stores = await Promise.all([
    open(t, `redis://127.0.0.1:${server.port}/1`),
    open(t, `redis://127.0.0.1:${server.port}/1`)
  ])
  const outcomes = await Promise.all(Array.from({ length: 1000 }, (_, n) => record(stores[n % 2]!.store, 'a')))
  t.equal(outcomes.filter(outcome => outcome === 'first').length, 1)
  t.equal(outcomes.filter(outcome => outcome === 'seen').length, 999)
  const other = await open(t, `redis://127.0.0.1:${server.port}/2`)
  t.equal(await record(other.store, 'a'), 'first', 'another database is another memory')
})

t.test('a server that is killed is refused, and used again when it is started', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const { store, changes } = await openReady(t, server)
  t.equal(await record(store, 'a'), 'first')
  await server.kill()
  t.equal(await record(store, 'b'), 'replay_unavailable')
  t.equal(await record(store, 'b'), 'replay_unavailable')
  await until('it is named', hasReason(store, 'unreachable'))
  await server.start()
  await until('it is back', isReady(store))
  t.equal(await record(store, 'b'), 'first')
  t.strictSame(changes, ['available', 'unreachable', 'available'])
})

t.test(
  'a server that is stopped in its tracks is refused, and used again when it goes on',
  { skip: skipRedis },
  async t => {
    const server = await startRedis(t)
    const { store } = await openReady(t, server)
    server.signal('SIGSTOP')
    t.strictSame(await Promise.all([record(store, 'a'), record(store, 'b')]), [
      'replay_unavailable',
      'replay_unavailable'
    ])
    const { ready, reason } = store.state()
    t.equal(ready, false)
    // On a busy machine the connection may have been dropped by now, for its silence.
    t.ok(reason === 'timeout' || reason === 'unreachable', `${reason}`)
    await delay(1000)
    t.equal(await record(store, 'c'), 'replay_unavailable')
    server.signal('SIGCONT')
    await until('it is back', isReady(store))
    t.equal(await record(store, 'a'), 'seen', 'the server had received what was refused: the client needs a new proof')
    t.equal(await record(store, 'd'), 'first')
  }
)

t.test(
  'a server that is full and may not evict refuses, and nothing is accepted unrecorded',
  { skip: skipRedis },
  async t => {
    const server = await startRedis(t, ['--maxmemory', '3mb', '--maxmemory-policy', 'noeviction'])
    const { store } = await openReady(t, server)
    await fill(server)
    let accepted = 0
    while (await record(store, accepted) === 'first') accepted++
    t.hasStrict(store.state(), { ready: false, reason: 'oom', refused: 1 })
    // Room also for the buffers of the connection, into which all that follows may come at once.
    await server.command('DEL', ...Array.from({ length: 10 }, (_, n) => `ballast:50000:${n}`))
    await until('it has room again', isReady(store))
    const again = await Promise.all(Array.from({ length: accepted + 1 }, (_, n) => record(store, n)))
    t.strictSame(again, [...again.slice(1).map(() => 'seen'), 'first'], `${accepted} were accepted`)
  }
)

t.test('a server that would evict is not used until it would not', { skip: skipRedis }, async t => {
  const server = await startRedis(t, ['--maxmemory', '100mb', '--maxmemory-policy', 'volatile-ttl'])
  const { store } = await open(t, `redis://127.0.0.1:${server.port}`)
  t.equal(await record(store, 'a'), 'replay_unavailable')
  t.hasStrict(store.state(), { ready: false, reason: 'evicts' })
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  await until('it is used', isReady(store))
  t.equal(await record(store, 'a'), 'first')
})

t.test(
  'a server that begins to evict on an open connection is not used until it stops',
  { skip: skipRedis },
  async t => {
    const changes: ReadonlyArray<{ title: string, args: string[], begin: string[], end: string[] }> = [
      {
        title: 'another policy',
        args: ['--maxmemory', '100mb'],
        begin: ['maxmemory-policy', 'allkeys-lru'],
        end: ['maxmemory-policy', 'noeviction']
      },
      {
        title: 'a new limit',
        args: ['--maxmemory-policy', 'volatile-ttl'],
        begin: ['maxmemory', '100mb'],
        end: ['maxmemory', '0']
      }
    ]
    for (const { title, args, begin, end } of changes) {
      const server = await startRedis(t, args)
      const { store, changes } = await openReady(t, server)
      t.equal(await record(store, 'a'), 'first', title)
      let n = 0
      await server.command('CONFIG', 'SET', ...begin)
      await until(`${title} is noticed under load`, async () => await record(store, `b${n++}`) === 'replay_unavailable')
      t.hasStrict(store.state(), { ready: false, reason: 'evicts' }, title)
      await server.command('CONFIG', 'SET', ...end)
      await until(`${title} is taken back`, isReady(store))
      t.equal(await record(store, 'a'), 'seen', title)
      await server.command('CONFIG', 'SET', ...begin)
      await until(`${title} is noticed without load`, hasReason(store, 'evicts'))
      t.strictSame(changes, ['available', 'evicts', 'available', 'evicts'], title)
    }
  }
)

t.test(
  'a server that does not say whether it evicts is used, and readiness reports it',
  { skip: skipRedis },
  async t => {
    const server = await startRedis(t)
    await server.command('ACL', 'SETUSER', 'mute', 'on', '>staple', '~holdfast:*', '+set')
    const renamed = await startRedis(t, ['--rename-command', 'INFO', 'HIDDEN', '--rename-command', 'CONFIG', ''])
    for (const url of [`redis://mute:staple@127.0.0.1:${server.port}`, `redis://127.0.0.1:${renamed.port}`]) {
      const { store, changes } = await open(t, url)
      await until('it is ready', isReady(store))
      t.equal(await record(store, url), 'first')
      t.hasStrict(store.state(), { ready: true, reason: 'policy_unknown' })
      t.strictSame(changes, ['policy_unknown', 'available'])
    }
    const { store } = await open(t, `redis://mute:staple@127.0.0.1:${server.port}`)
    await until('it is ready', isReady(store))
    await server.command('ACL', 'SETUSER', 'mute', '+info')
    await until('it says now', () => store.state().reason === undefined)
    await server.command('ACL', 'SETUSER', 'mute', '-info')
    await until('it does not any more', hasReason(store, 'policy_unknown'))
    t.equal(store.state().ready, true)
  }
)

t.test('a server that becomes a replica is refused until it is a master', { skip: skipRedis }, async t => {
  const [master, server] = await Promise.all([startRedis(t), startRedis(t)])
  const { store } = await openReady(t, server)
  await server.command('REPLICAOF', '127.0.0.1', String(master.port))
  t.equal(await record(store, 'a'), 'replay_unavailable')
  t.hasStrict(store.state(), { ready: false, reason: 'readonly' })
  await server.command('REPLICAOF', 'NO', 'ONE')
  await until('it takes writes', isReady(store))
  t.equal(await record(store, 'a'), 'first')
})

t.test('users, passwords and rights', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  await server.command('ACL', 'SETUSER', 'narrow', 'on', '>battery', '~holdfast:*', '+set', '+info')
  await server.command('ACL', 'SETUSER', 'mute', 'on', '>staple', '~holdfast:*', '+set')
  await server.command('ACL', 'SETUSER', 'reader', 'on', '>secret', '~*', '+get', '+info')
  await server.command('CONFIG', 'SET', 'requirepass', 'correct horse')
  const rows: [string, string][] = [
    [':correct%20horse', 'first'],
    ['default:correct%20horse', 'seen'],
    ['narrow:battery', 'seen'],
    ['mute:staple', 'seen'],
    ['reader:secret', 'auth'],
    ['narrow:wrong-secret', 'auth'],
    [':wrong-secret', 'auth'],
    ['nobody:wrong-secret', 'auth']
  ]
  for (const [userInfo, expected] of rows) {
    const { store } = await open(t, `redis://${userInfo}@127.0.0.1:${server.port}`)
    const outcome = await record(store, 'a')
    t.equal(outcome === 'replay_unavailable' ? store.state().reason : outcome, expected, userInfo)
    t.notMatch(JSON.stringify(store.state()), /secret/)
  }
  const { store } = await open(t, `redis://127.0.0.1:${server.port}`)
  t.equal(await record(store, 'a'), 'replay_unavailable')
  await until('it is named', hasReason(store, 'auth'))
})

t.test('a database that is not there or not for this user, or a TLS port, is not ready with the reason', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  await server.command('ACL', 'SETUSER', 'narrow', 'on', '>battery', '~holdfast:*', '+set', '+info')
  const rows: [string, string][] = [
    [`redis://127.0.0.1:${server.port}/99`, 'database'],
    [`redis://narrow:battery@127.0.0.1:${server.port}/1`, 'database'],
    [`rediss://127.0.0.1:${server.port}`, 'timeout'],
    [`redis://127.0.0.1:${server.port}?cluster=true`, 'cluster']
  ]
  for (const [url, reason] of rows) {
    const { store } = await open(t, url)
    t.equal(await record(store, 'a'), 'replay_unavailable', url)
    await until(`${url}: ${reason}, not ${store.state().reason}`, hasReason(store, reason))
  }
  await server.command('ACL', 'SETUSER', 'narrow', '+select')
  const { store } = await open(t, `redis://narrow:battery@127.0.0.1:${server.port}/1`)
  t.equal(await record(store, 'a'), 'first')
})

t.test('an untrusted certificate is refused', { skip: skipRedis }, async t => {
  const { server, tlsPort } = await startTlsRedis(t)
  const { store } = await open(t, `rediss://127.0.0.1:${tlsPort}`)
  t.equal(await record(store, 'a'), 'replay_unavailable')
  await until('it is named', hasReason(store, 'tls'))
  const plain = await open(t, `redis://127.0.0.1:${server.port}`)
  t.equal(await record(plain.store, 'a'), 'first')
})

t.test('a cluster of which one node evicts is not used, whichever it is', { skip: skipRedis }, async t => {
  const nodes = await startCluster(t)
  const { store, changes } = await open(t, `redis://127.0.0.1:${nodes[0]!.port}?cluster=true`)
  await until('the store is ready', isReady(store))
  for (const [n, node] of nodes.entries()) {
    await node.command('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', 'allkeys-lru')
    await until(`node ${n} is found out`, hasReason(store, 'evicts'))
    t.strictSame(
      await Promise.all(Array.from({ length: 20 }, (_, k) => record(store, `${n} ${k}`))),
      Array.from({ length: 20 }, () => 'replay_unavailable'),
      'whatever the slot'
    )
    await node.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await until(`node ${n} keeps again`, isReady(store))
  }
  t.equal(await record(store, 'a'), 'first')
  t.strictSame(changes, ['available', 'evicts', 'available', 'evicts', 'available', 'evicts', 'available'])

  await nodes[2]!.command('ACL', 'SETUSER', 'default', '-info')
  await until('one that does not say is reported', hasReason(store, 'policy_unknown'))
  t.equal(store.state().ready, true)
})

t.test('a promoted replica of a cluster that evicts is detected', { skip: skipRedis }, async t => {
  const nodes = await startCluster(t)
  const replica = await startClusterNode(t, ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'])
  await replica.command('CLUSTER', 'MEET', '127.0.0.1', String(nodes[0]!.port), String(nodes[0]!.busPort))
  const id = await nodes[2]!.command('CLUSTER', 'MYID')
  await until('it is a replica', () => replica.command('CLUSTER', 'REPLICATE', id).then(() => true, () => false))
  const { store } = await open(t, `redis://127.0.0.1:${nodes[0]!.port}?cluster=true`)
  await until('the store is ready', isReady(store))
  t.equal(await record(store, 'a'), 'first', 'a replica forgets nothing by itself')
  await until(
    'it is promoted',
    async () =>
      await replica.command('CLUSTER', 'FAILOVER').then(() => false, () => false) ||
      (await replica.command('ROLE')).startsWith('master')
  )
  await until('it is found out', hasReason(store, 'evicts'))
  await replica.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  await until('it keeps', isReady(store))
})

t.test('a cluster spreads the records and outlives a node that comes back', { skip: skipRedis }, async t => {
  const nodes = await startCluster(t)
  const { store } = await open(t, `redis://127.0.0.1:${nodes[0]!.port},127.0.0.1:${nodes[1]!.port}?cluster=true`)
  await until('the store is ready', isReady(store))
  for (let n = 0; n < 50; n++) await record(store, n)
  t.strictSame(
    await Promise.all(Array.from({ length: 50 }, (_, n) => record(store, n))),
    Array.from({ length: 50 }, () => 'seen')
  )
  for (const node of nodes) t.ok(Number(await node.command('DBSIZE')) > 5)

  nodes[2]!.signal('SIGSTOP')
  const outcomes = await Promise.all(Array.from({ length: 50 }, (_, n) => record(store, `b${n}`)))
  t.ok(outcomes.includes('replay_unavailable'), 'the slots of that node')
  t.ok(outcomes.includes('first'), 'and the others')
  nodes[2]!.signal('SIGCONT')
  await until('the store is ready again', isReady(store))
  await until(
    'all slots are served',
    async () =>
      !(await Promise.all(Array.from({ length: 50 }, (_, n) => record(store, n)))).includes('replay_unavailable')
  )
})

t.test('a new master after a failover that evicts is not used', { skip: skipRedis }, async t => {
  const master = await startRedis(t)
  const replica = await startRedis(t, [
    '--replicaof',
    '127.0.0.1',
    String(master.port),
    '--maxmemory',
    '100mb',
    '--maxmemory-policy',
    'volatile-lru'
  ])
  const { sentinel, failover } = await startSentinel(t, master, replica)
  const { store } = await open(t, `redis://127.0.0.1:${sentinel.port}?sentinel=main`)
  await until('the store is ready', isReady(store))
  await failover()
  await master.kill()
  await until('the store has followed', hasReason(store, 'evicts'))
  t.equal(await record(store, 'a'), 'replay_unavailable')
  await replica.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  await until('the store is ready again', isReady(store))
  t.equal(await record(store, 'a'), 'first')
})

t.test('Sentinels lead to the new master after a failover', { skip: skipRedis }, async t => {
  const master = await startRedis(t)
  const replica = await startRedis(t, ['--replicaof', '127.0.0.1', String(master.port)])
  const { sentinel, failover } = await startSentinel(t, master, replica)
  const { store } = await open(t, `redis://127.0.0.1:${sentinel.port}?sentinel=main`)
  await until('the store is ready', isReady(store))
  t.equal(await record(store, 'a'), 'first')
  await until('the record is replicated', async () => Number(await replica.command('DBSIZE')) >= 1)
  await failover()
  await master.kill()
  let n = 0
  await until('the store has followed', async () => (await record(store, `b${n++}`)) === 'first')
  t.equal(await record(store, 'a'), 'seen', 'the new master knows what was replicated')
})

/** Fills a server with a limit until it takes not even a small key; some room comes back when these connections end. */
async function fill (server: RedisServer) {
  for (const size of [50_000, 1000, 1]) {
    let n = 0
    while (await server.command('SET', `ballast:${size}:${n}`, 'x'.repeat(size)).then(() => true, () => false)) n++
  }
}

async function isMaster (server: RedisServer) {
  return server.command('SET', 'x', '1').then(() => true, () => false)
}

/** Its second port is chosen too: the usual one, 10,000 above the first, may be that of an outgoing connection. */
async function startClusterNode (t: Test, args: string[] = []) {
  const busPort = await freePort()
  const node = await startRedis(t, [
    '--cluster-enabled',
    'yes',
    '--cluster-port',
    String(busPort),
    '--cluster-node-timeout',
    '2000',
    '--cluster-require-full-coverage',
    'no',
    ...args
  ])
  return { ...node, busPort }
}

/** Three masters, each with a third of the slots. */
async function startCluster (t: Test) {
  const nodes = await Promise.all([0, 1, 2].map(() => startClusterNode(t)))
  const shares = [['0', '5461'], ['5462', '10922'], ['10923', '16383']] as const
  for (const [n, node] of nodes.entries()) await node.command('CLUSTER', 'ADDSLOTSRANGE', ...shares[n]!)
  for (const node of nodes.slice(1)) {
    await node.command('CLUSTER', 'MEET', '127.0.0.1', String(nodes[0]!.port), String(nodes[0]!.busPort))
  }
  const isWhole = async () =>
    (await Promise.all(
      nodes.map(node =>
        node.command('SET', 'x', '1').then(() => true, (error: Error) => error.message.includes('MOVED'))
      )
    )).every(Boolean)
  await until('the cluster is whole', isWhole)
  return nodes
}

/** A Sentinel of the two, and the way to make the replica the master. */
async function startSentinel (
  t: Test,
  master: RedisServer,
  replica: RedisServer
) {
  const sentinel = await startRedis(t, ['--sentinel'])
  await sentinel.command('SENTINEL', 'MONITOR', 'main', '127.0.0.1', String(master.port), '1')
  await sentinel.command('SENTINEL', 'SET', 'main', 'down-after-milliseconds', '500')
  await sentinel.command('SENTINEL', 'SET', 'main', 'failover-timeout', '30000')
  return {
    sentinel,
    async failover () {
      // Sentinel takes some time to learn of the replica.
      await until(
        'the failover begins',
        () => sentinel.command('SENTINEL', 'FAILOVER', 'main').then(() => true, () => false)
      )
      await until('the replica is the master', () => isMaster(replica))
      // Killed before Sentinel has seen the end of it, the failover might be given up.
      await until(
        'Sentinel names it',
        async () =>
          await sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main') === `127.0.0.1 ${replica.port}`
      )
    }
  }
}
