import { setTimeout as sleep } from 'node:timers/promises'
import { coreBusyMs, cpuTime, residentBytes } from './kernel.js'
import { LOAD_CORE, ourCpuMs, SERVER_CORE } from './processes.js'

const CONNECTIONS = 64
const MOST_FOREIGN = 0.05 // of a core, by others or the host, during a round
const MOST_LOAD = 0.9 // of its core, by the load generator
const MOST_LATE = 0.01 // of the requests that have a moment to leave at, left over a millisecond after it
const TRIES = 6
const LEAST_WARM = 6_000 // requests before a server is measured

/** Why a run may not be reported: a wrong answer, a load generator at its limit, a machine busy with something else. */
export class NotReportable extends Error {}

/** The share of each core that went to anyone but this run while `work` was done. */
const watchCores = async work => {
  const cores = [SERVER_CORE, LOAD_CORE]
  const read = () => cores.map(core => ({ busy: coreBusyMs(core), ours: ourCpuMs(core) }))
  const before = read()
  const started = performance.now()
  const value = await work()
  const elapsed = performance.now() - started
  const after = read()
  const tickMs = 20 // The kernel rounds both readings of a core to 10 ms.
  const foreign = cores.map((_, i) =>
    Math.max(0, after[i].busy - before[i].busy - (after[i].ours - before[i].ours) - tickMs) / elapsed
  )
  return { value, foreign: Math.max(...foreign) }
}

export const awaitQuiet = async (bench, seconds = 60) => {
  for (let waited = 0; ; waited++) {
    const { foreign } = await watchCores(() => sleep(bench.quick ? 300 : 1000))
    if (foreign < MOST_FOREIGN) return
    if (bench.allowBusy) return
    if (waited >= seconds) {
      throw new NotReportable(`the machine is busy with something else: ${(foreign * 100).toFixed(0)} % of a core`)
    }
    bench.say(`waiting for a quiet machine (${(foreign * 100).toFixed(0)} % of a core is in use)`)
  }
}

const checkAnswers = (name, { wrong, requests, sample }) => {
  if (wrong > 0) throw new NotReportable(`${name}: ${wrong} of ${requests} answers were wrong, such as\n${sample}`)
}

/**
 * One round: the requests are built first, then sent; the accounts of the kernel are read just before and after. A
 * round during which someone else used the machine is thrown away and done again. `wanted` is a list of streams that
 * run at once (see load.js); figures of CPU are for one request of all of them together.
 */
export const round = async (bench, server, name, wanted) => {
  for (let attempt = 1; ; attempt++) {
    await bench.load.call('prepare', {
      port: server.port,
      wanted: wanted.map(stream => ({ connections: CONNECTIONS, ...stream }))
    })
    const { value, foreign } = await watchCores(async () => {
      const before = cpuTime(server.pid)
      const loadBefore = cpuTime(bench.load.pid)
      const started = performance.now()
      const streams = await bench.load.call('run')
      const elapsedMs = performance.now() - started
      const after = cpuTime(server.pid)
      return {
        before,
        after,
        streams,
        elapsedMs,
        loadShare: (cpuTime(bench.load.pid).totalNs - loadBefore.totalNs) / 1e6 / elapsedMs
      }
    })
    for (const stream of value.streams) checkAnswers(name, stream)
    const paced = wanted.some(({ rate }) => rate !== undefined)
    const limited = paced
      ? value.streams.some(({ lateShare }) => lateShare > MOST_LATE)
      : value.loadShare > MOST_LOAD
    if (bench.allowBusy || (foreign < MOST_FOREIGN && !limited)) return figures(server, value, foreign)
    const reason = limited
      ? `the load generator was the limit (${(value.loadShare * 100).toFixed(0)} % of its core)`
      : `the machine was busy with something else (${(foreign * 100).toFixed(0)} % of a core)`
    if (attempt === TRIES) throw new NotReportable(`${name}: ${reason}`)
    bench.say(`${name}: ${reason}; this round is done again`)
    await sleep(1000)
  }
}

const figures = (server, { before, after, streams, elapsedMs, loadShare }, foreign) => {
  const requests = streams.reduce((sum, stream) => sum + stream.requests, 0)
  const totalNs = after.totalNs - before.totalNs
  return {
    cpuUs: totalNs / requests / 1000,
    mainUs: (after.mainNs - before.mainNs) / requests / 1000,
    requestsPerSecond: streams[0].requests / streams[0].elapsedMs * 1000,
    p50Ms: streams[0].p50Ms,
    p99Ms: streams[0].p99Ms,
    maxMs: streams[0].maxMs,
    serverShare: totalNs / 1e6 / elapsedMs,
    loadShare,
    foreign,
    requests,
    rssBytes: residentBytes(server.pid).now
  }
}

export const median = values => {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2
}

/** The median of every figure over the rounds, and how far CPU a request went up and down between them. */
export const summarize = rounds => {
  const summary = Object.fromEntries(Object.keys(rounds[0]).map(name => [name, median(rounds.map(one => one[name]))]))
  const cpu = rounds.map(({ cpuUs }) => cpuUs)
  return { ...summary, rounds: rounds.length, leastCpuUs: Math.min(...cpu), mostCpuUs: Math.max(...cpu) }
}

/**
 * Warms a server up until its code is compiled. Returns how many requests of a kind it answers in a second: rounds
 * are made of requests, not of seconds, because each of them has to be signed beforehand.
 */
export const warmUp = async (bench, server, name, kind, seconds, extra = {}) => {
  let rate = 2000
  let spent = 0
  let sent = 0
  // A busy machine gets through few requests in the time; too few, and the first rounds would measure the compiler.
  while (spent < seconds || (sent < LEAST_WARM && spent < seconds * 4)) {
    const count = Math.max(200, Math.round(rate * Math.min(0.5, seconds / 3)))
    await bench.load.call('prepare', {
      port: server.port,
      wanted: [{ name: kind, count, connections: CONNECTIONS, ...extra }]
    })
    const [result] = await bench.load.call('run')
    checkAnswers(name, result)
    rate = result.requests / result.elapsedMs * 1000
    spent += result.elapsedMs / 1000
    sent += count
  }
  return rate
}
