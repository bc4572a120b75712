import { residentBytes } from './kernel.js'
import { startHoldfast } from './holdfast.js'
import { awaitQuiet, round, summarize, warmUp } from './measure.js'

const CHUNK = 20_000
const ROUNDS = 5
const KEPT_SECONDS = 330 // A proof is remembered for offset + leeway, both as shipped.

/**
 * Does a request cost more when much is remembered? `fill` is what is sent until the service has seen so many of it as each of the
 * steps says: proofs (each a jti to remember), access tokens, client keys (each with a token of its own). 50,000 tokens and 20,000 keys are
 * kept: at 100,000 both caches have been full for long. At each step ordinary requests of the same few users are
 * measured, which adds `count` x ROUNDS proofs where those are counted. `warm` has the code compiled without leaving
 * anything behind that is counted.
 */
const SERIES = [
  { id: 'remembered jtis', steps: [10, 10_000, 1_000_000], fill: 'dpop', measured: 'dpop', count: 2_000, warm: 'proof signature wrong' },
  { id: 'access tokens seen', steps: [10, 10_000, 100_000], fill: 'bearer-new', measured: 'bearer', count: 50_000, warm: 'bearer' },
  { id: 'client keys seen', steps: [10, 10_000, 100_000], fill: 'dpop-new', measured: 'dpop', count: 5_000, warm: 'dpop' }
]

/** Sends fresh requests of a kind, unmeasured, until the service has seen `goal` of them; each must be accepted. */
const feed = async (bench, server, kind, seen, goal) => {
  while (seen < goal) {
    const count = Math.min(CHUNK, goal - seen)
    await bench.load.call('prepare', { port: server.port, wanted: [{ name: kind, count, connections: 64 }] })
    const [{ wrong, sample }] = await bench.load.call('run')
    if (wrong > 0) throw new Error(`${kind}: ${wrong} wrong answers, such as\n${sample}`)
    seen += count
    if (seen % 100_000 === 0) bench.say(`${kind}: ${seen} sent`)
  }
  return seen
}

const measure = async (bench, server, kind, count) => {
  const rounds = []
  for (let i = 0; i < ROUNDS; i++) rounds.push(await round(bench, server, kind, [{ name: kind, count }]))
  return summarize(rounds)
}

/** The longest wait of a steady trickle of public requests while everything that was remembered is forgotten. */
const watchForgetting = async (bench, server) => {
  const started = performance.now()
  const memory = [residentBytes(server.pid).now]
  const longestMs = []
  while (performance.now() - started < (KEPT_SECONDS + 20) * 1000) {
    const { maxMs } = await round(bench, server, 'forgetting', [{ name: 'public', count: 5_000, rate: 500 }])
    longestMs.push(maxMs)
    memory.push(residentBytes(server.pid).now)
    bench.say(`forgetting: longest wait ${maxMs.toFixed(2)} ms, ${(memory.at(-1) / 1e6).toFixed(0)} MB`)
  }
  return { longestMs: Math.max(...longestMs), bytesBefore: memory[0], bytesAfter: memory.at(-1) }
}

export const growth = async (bench) => {
  const rows = []
  let forgetting
  for (const { id, steps, fill, measured, count, warm } of SERIES) {
    const server = await startHoldfast(bench, id)
    if (server === null) return null
    await warmUp(bench, server, warm, warm, bench.plan.warmSeconds)
    let seen = 0
    for (const step of steps) {
      await awaitQuiet(bench)
      seen = await feed(bench, server, fill, seen, step)
      const rssBytes = residentBytes(server.pid).now
      const { cpuUs, mainUs, p99Ms } = await measure(bench, server, measured, count)
      rows.push({ id, step, cpuUs, mainUs, p99Ms, rssBytes })
      bench.say(`${id}, ${step}: ${cpuUs.toFixed(1)} µs, ${mainUs.toFixed(1)} on the main thread, ${(rssBytes / 1e6).toFixed(0)} MB`)
    }
    if (fill === 'dpop') forgetting = await watchForgetting(bench, server)
    await server.stop()
  }
  return { rows, forgetting }
}
