/**
 * The service at the size that docs/reference/revocation.md allows: how long it takes to start, and the longest time
 * between two good answers while its connection is lost, its Redis is emptied, and another Redis is promoted that lacks
 * the last entries. Each is watched for longer than `staleSeconds`, since a lost connection shows only then. In the
 * part `revocation` of the benchmark, or alone: `npm run build && node bench/revocation-size.js [cutoffs] [blocks]`.
 */
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { writeEntry } from '../dist/lib/revocation/redis-entries.js'
import { LOG } from '../dist/lib/revocation/redis-scripts.js'
import { keyOf } from '../dist/lib/revocation/target.js'
import { startHoldfast } from './holdfast.js'
import { cpuTime } from './kernel.js'
import { hasRedis, startRedis } from './processes.js'
import { createMint } from './tokens.js'

const STALE_SECONDS = 10
const WATCH_MS = (STALE_SECONDS + 6) * 1000
/** Milliseconds between two requests. They do not wait for each other. */
const EVERY_MS = 20
const BATCH = 2000
/** Entries that the Redis that is promoted has never got. */
const LOST = 1000
const COST_REQUESTS = 4000
const COST_ROUNDS = 9

const quietly = url =>
  new Redis(url, { lazyConnect: true, retryStrategy: times => times > 100 ? null : 50 }).on('error', () => {})

/** Writes entries as instances do, and fast. */
const seed = async (redis, issuer, first, number, effect) => {
  const now = Math.floor(Date.now() / 1000)
  const sender = issuer.replace(/\/$/, '')
  for (let n = first; n < first + number; n += BATCH) {
    const pipeline = redis.pipeline()
    for (let i = n; i < Math.min(n + BATCH, first + number); i++) {
      pipeline.xadd(
        LOG,
        '*',
        'e',
        writeEntry({
          key: keyOf(['sub', issuer, `f81d4fae-7dec-11d0-a765-${String(i).padStart(12, '0')}`]),
          effect,
          at: now,
          recordedAt: now,
          event: 'session-revoked',
          source: issuer,
          sender,
          standing: 'issuer'
        }, Date.now())
      )
    }
    await pipeline.exec()
  }
}

/** Passes connections on to one Redis, and to another from when the test says so. */
const startSwitch = async () => {
  const open = new Set()
  let target
  const server = createServer(socket => {
    const onward = connect(target, '127.0.0.1')
    const pair = [socket, onward]
    open.add(pair)
    const end = () => {
      open.delete(pair)
      for (const one of pair) one.destroy()
    }
    for (const one of pair) one.on('error', end).on('close', end)
    socket.pipe(onward).pipe(socket)
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `redis://127.0.0.1:${server.address().port}`,
    to (url) {
      target = Number(new URL(url).port)
      for (const pair of open) for (const one of pair) one.destroy()
    },
    stop: async () => {
      for (const pair of open) for (const one of pair) one.destroy()
      server.close()
    }
  }
}

/** Asks all the time. `gap`: the longest time between two good answers while the work, and the watch after it, last. */
const watch = async (ask, work, ms = WATCH_MS) => {
  const startMs = performance.now()
  let [last, gapMs, bad] = [startMs, 0, 0]
  const state = { isDone: false }
  const take = isGood => {
    if (!isGood) return bad++
    const at = performance.now()
    gapMs = Math.max(gapMs, at - last)
    last = at
  }
  const worked = (async () => {
    await work()
    await sleep(ms)
    state.isDone = true
  })()
  while (!state.isDone) {
    ask().then(status => take(status === 200), () => take(false))
    await sleep(EVERY_MS)
  }
  await worked
  return { gapMs: Math.max(gapMs, performance.now() - last), bad }
}

const memoryOf = ({ pid }) => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024

/** CPU microseconds of a request with a token that is known, at each server: the median of rounds that take turns. */
const costsOf = async servers => {
  const rounds = servers.map(() => [])
  for (let round = 0; round <= COST_ROUNDS; round++) {
    for (const [index, { server, ask }] of servers.entries()) {
      const before = cpuTime(server.pid).totalNs
      for (let n = 0; n < COST_REQUESTS; n++) await ask()
      // What the first round compiles is not measured.
      if (round > 0) rounds[index].push((cpuTime(server.pid).totalNs - before) / 1000 / COST_REQUESTS)
    }
  }
  return rounds.map(each => each.sort((a, b) => a - b)[COST_ROUNDS >> 1])
}

export const atFullSize = async (bench, { cutoffs = 1_000_000, blocks = 300_000 } = {}) => {
  if (!hasRedis()) return bench.skip('revocation at full size', 'redis-server is not installed')
  const token = createMint(bench.provider)()
  const asking = ({ port }) => async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/private`, {
      headers: { authorization: `Bearer ${token}` }
    })
    await answer.arrayBuffer()
    return answer.status
  }
  const [first, second] = [await startRedis(), await startRedis()]
  const relay = await startSwitch()
  for (const { stop } of [first, second, relay]) bench.cleanUp(stop)
  const redis = quietly(first.url)
  const spare = quietly(second.url)
  bench.cleanUp(async () => {
    redis.disconnect()
    spare.disconnect()
  })
  await seed(redis, bench.provider.issuer, 0, cutoffs, 'cutoff')
  await seed(redis, bench.provider.issuer, cutoffs, blocks, 'block')
  const size = cutoffs + blocks
  bench.say(`${size} entries are in the log`)
  relay.to(first.url)

  const config = { revocation: { operators: { scope: 'revoke' }, store: relay.url, staleSeconds: STALE_SECONDS } }
  const startedMs = performance.now()
  const server = await startHoldfast(bench, 'revocation at full size', { config, probe: '/health/live' })
  if (server === null) return null
  const ask = asking(server)
  while (await ask() !== 200) await sleep(10)
  const cpuMs = () => cpuTime(server.pid).totalNs / 1e6
  const result = { cutoffs, blocks, startMs: performance.now() - startedMs, startCpuMs: cpuMs() }
  bench.say(
    `start: the first good answer after ${result.startMs.toFixed(0)} ms, of them ${result.startCpuMs.toFixed(0)} of CPU`
  )
  const say = name =>
    bench.say(
      `${name}: ${result[name].gapMs.toFixed(0)} ms without a good answer, ${result[name].bad} others${
        result[name].restoredMs ? `, restored in ${result[name].restoredMs.toFixed(0)} ms` : ''
      }`
    )

  result.calm = await watch(ask, async () => {}, 5000)
  say('calm')
  result.reconnect = await watch(ask, () => redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
  say('reconnect')

  let restoredMs
  let restoredCpuMs
  result.flush = await watch(ask, async () => {
    const flushedMs = performance.now()
    const flushedCpuMs = cpuMs()
    await redis.flushall()
    while (await redis.xlen(LOG) < size) await sleep(50)
    restoredMs = performance.now() - flushedMs
    restoredCpuMs = cpuMs() - flushedCpuMs
  })
  Object.assign(result.flush, { restoredMs, restoredCpuMs })
  say('flush')

  await spare.call('REPLICAOF', '127.0.0.1', new URL(first.url).port)
  while (!/master_link_status:up/.test(await spare.info('replication')) || await spare.xlen(LOG) < size) {
    await sleep(100)
  }
  await spare.call('REPLICAOF', 'NO', 'ONE')
  await seed(redis, bench.provider.issuer, size, LOST, 'cutoff')
  await sleep(1000)
  result.promotion = await watch(ask, async () => {
    const promotedMs = performance.now()
    relay.to(second.url)
    while (await spare.xlen(LOG) < size + LOST) await sleep(50)
    restoredMs = performance.now() - promotedMs
  })
  result.promotion.restoredMs = restoredMs
  say('promotion')

  result.rssBytes = memoryOf(server)
  result.redisBytes = Number(/used_memory:(\d+)/.exec(await spare.info('memory'))[1])
  const bare = await startHoldfast(bench, 'no revocation', { probe: '/health/live' })
  const empty = await startHoldfast(bench, 'no cutoffs', {
    config: { revocation: { operators: { scope: 'revoke' } } },
    probe: '/health/live'
  })
  const servers = [server, bare, empty].map(one => ({ server: one, ask: asking(one) }))
  for (const { ask } of servers) while (await ask() !== 200) await sleep(10)
  const [costUs, bareCostUs, emptyCostUs] = await costsOf(servers)
  Object.assign(result, { costUs, bareCostUs, emptyCostUs })
  result.bareRssBytes = memoryOf(bare)
  bench.say(
    `memory: ${(result.rssBytes / 1e6).toFixed(0)} MB (without revocation ` +
      `${(result.bareRssBytes / 1e6).toFixed(0)} MB), Redis ${(result.redisBytes / 1e6).toFixed(0)} MB`
  )
  bench.say(
    `a request: ${costUs.toFixed(1)} us of CPU, with no entries ${emptyCostUs.toFixed(1)}, without revocation ` +
      `${bareCostUs.toFixed(1)}`
  )
  return result
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { AUDIENCE, startProvider } = await import('./provider.js')
  const cleanUps = []
  const started = performance.now()
  const bench = {
    provider: await startProvider(),
    audience: AUDIENCE,
    say: text => console.error(`${((performance.now() - started) / 1000).toFixed(0).padStart(4)} s  ${text}`),
    skip: (name, why) => {
      bench.say(`SKIPPED ${name}: ${why}`)
      return null
    },
    cleanUp: work => cleanUps.push(work)
  }
  const [cutoffs = 1_000_000, blocks = 300_000] = process.argv.slice(2).map(Number)
  console.log(JSON.stringify(await atFullSize(bench, { cutoffs, blocks }), null, 2))
  for (const work of cleanUps.reverse()) await work()
  process.exit()
}
