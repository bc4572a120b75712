/**
 * The service at the size that docs/reference/revocation.md allows: how long it takes to start, and the longest time
 * between two good answers while its connection is lost, its Redis is emptied, and another Redis is promoted that lacks
 * the last entries. Each is watched for longer than `staleSeconds`, since a lost connection shows only then. In the
 * part `revocation` of the benchmark, or alone: `npm run build && node bench/revocation-size.js [cutoffs] [blocks]`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { startHoldfast } from './holdfast.js'
import { cpuTime, residentBytes } from './kernel.js'
import { hasRedis, startRedis } from './processes.js'
import { startRelay } from './relay.js'
import { connectRedis, revoke, storeSize, writeRecords } from './revocation-store.js'
import { createMint } from './tokens.js'
import { watchAnswers } from './watch.js'

const STALE_SECONDS = 10
const WATCH_MS = (STALE_SECONDS + 6) * 1000
const CALM_MS = 5000
/** Entries that the Redis that is promoted has never got: the last that there is room for. */
const LOST = 1000
const COST_REQUESTS = 4000
const COST_ROUNDS = 9

const cpuMs = ({ pid }) => cpuTime(pid).totalNs / 1e6
const megabytes = bytes => `${(bytes / 1e6).toFixed(0)} MB`

/** A function that sends a request with a token that the server knows then, and returns the status. */
const createAsk = bench => {
  const headers = { authorization: `Bearer ${createMint(bench.provider)()}` }
  return ({ port }) => async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/private`, { headers })
    await answer.arrayBuffer()
    return answer.status
  }
}

/** Two Redis, the first full of entries, and the URL of a relay that leads to it. */
const startFull = async (bench, cutoffs, blocks) => {
  const [first, second] = [await startRedis(), await startRedis()]
  const relay = await startRelay()
  for (const { stop } of [first, second, relay]) bench.cleanUp(stop)
  const redis = connectRedis(first.url)
  const spare = connectRedis(second.url)
  bench.cleanUp(async () => {
    redis.disconnect()
    spare.disconnect()
  })
  const { issuer } = bench.provider
  await writeRecords(redis, issuer, 0, cutoffs, 'cutoff')
  await writeRecords(redis, issuer, cutoffs, blocks, 'block')
  bench.say(`${cutoffs + blocks} records are in the store`)
  relay.to(first.url)
  return { first, second, redis, spare, relay, size: cutoffs + blocks }
}

const untilFull = async (redis, size) => {
  while (await storeSize(redis) < size) await sleep(50)
}

/** Each of what may happen to the Redis of a service, with the longest time between two good answers meanwhile. */
const watchOutages = async (bench, server, ask, { first, second, redis, spare, relay, size }) => {
  const result = {}
  const watch = async (name, work, ms = WATCH_MS) => {
    const startedMs = performance.now()
    const startedCpuMs = cpuMs(server)
    let restored = {}
    const answers = await watchAnswers(ask, async () => {
      if (await work() !== true) return
      restored = { restoredMs: performance.now() - startedMs, restoredCpuMs: cpuMs(server) - startedCpuMs }
    }, ms)
    result[name] = { ...answers, ...restored }
    bench.say(
      `${name}: ${answers.gapMs.toFixed(0)} ms without a good answer, ${answers.bad} others${
        restored.restoredMs ? `, restored in ${restored.restoredMs.toFixed(0)} ms` : ''
      }`
    )
  }

  await watch('calm', async () => {}, CALM_MS)
  await watch('reconnect', () => redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
  await watch('flush', async () => {
    await redis.flushall()
    await untilFull(redis, size)
    return true
  })

  await spare.call('REPLICAOF', '127.0.0.1', new URL(first.url).port)
  while (!/master_link_status:up/.test(await spare.info('replication')) || await storeSize(spare) < size) {
    await sleep(100)
  }
  await spare.call('REPLICAOF', 'NO', 'ONE')
  // The service has heard of these.
  await revoke(bench, server, LOST)
  await sleep(1000)
  await watch('promotion', async () => {
    relay.to(second.url)
    await untilFull(spare, size + LOST)
    return true
  })
  return result
}

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

/** Memory and the cost of a request: of the full service, of one with no entries, and of one without revocation. */
const weigh = async (bench, server, asking, spare) => {
  const rssBytes = residentBytes(server.pid).now
  const redisBytes = Number(/used_memory:(\d+)/.exec(await spare.info('memory'))[1])
  const bare = await startHoldfast(bench, 'no revocation', { probe: '/health/live' })
  const empty = await startHoldfast(bench, 'no cutoffs', {
    config: { revocation: { operators: { scope: 'revoke' } } },
    probe: '/health/live'
  })
  const servers = [server, bare, empty].map(one => ({ server: one, ask: asking(one) }))
  for (const { ask } of servers) while (await ask() !== 200) await sleep(10)
  const [costUs, bareCostUs, emptyCostUs] = await costsOf(servers)
  const bareRssBytes = residentBytes(bare.pid).now
  bench.say(
    `memory: ${megabytes(rssBytes)} (without revocation ${megabytes(bareRssBytes)}), Redis ${megabytes(redisBytes)}`
  )
  bench.say(
    `a request: ${costUs.toFixed(1)} us of CPU, with no entries ${emptyCostUs.toFixed(1)}, without revocation ` +
      `${bareCostUs.toFixed(1)}`
  )
  return { rssBytes, redisBytes, costUs, bareCostUs, emptyCostUs, bareRssBytes }
}

export const atFullSize = async (bench, { cutoffs = 1_000_000, blocks = 1_000_000 } = {}) => {
  if (!hasRedis()) return bench.skip('revocation at full size', 'redis-server is not installed')
  const asking = createAsk(bench)
  const full = await startFull(bench, cutoffs - LOST, blocks)
  const config = { revocation: { operators: { scope: 'revoke' }, store: full.relay.url, staleSeconds: STALE_SECONDS } }
  const startedMs = performance.now()
  const server = await startHoldfast(bench, 'revocation at full size', { config, probe: '/health/live' })
  if (server === null) return null
  const ask = asking(server)
  while (await ask() !== 200) await sleep(10)
  const start = { startMs: performance.now() - startedMs, startCpuMs: cpuMs(server) }
  bench.say(
    `start: the first good answer after ${start.startMs.toFixed(0)} ms, of them ${start.startCpuMs.toFixed(0)} of CPU`
  )
  const outages = await watchOutages(bench, server, ask, full)
  return { cutoffs, blocks, ...start, ...outages, ...await weigh(bench, server, asking, full.spare) }
}

if (process.argv[1] === import.meta.filename) {
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
  const [cutoffs = 1_000_000, blocks = 1_000_000] = process.argv.slice(2).map(Number)
  console.log(JSON.stringify(await atFullSize(bench, { cutoffs, blocks }), null, 2))
  for (const work of cleanUps.reverse()) await work()
  process.exit()
}
