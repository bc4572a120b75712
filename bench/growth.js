import { fork } from 'node:child_process'
import { residentBytes } from './kernel.js'
import { startHoldfast } from './holdfast.js'
import { awaitQuiet, median, round, summarize, warmUp } from './measure.js'

const CHUNK = 20_000
const ROUNDS = 7
const FEW = 10

/**
 * Does a request cost more when much is remembered? `fill` is what is sent until the service has seen so many of it as
 * each of the steps says: proofs (each a jti to remember), access tokens, client keys (each with a token of its own).
 * 50,000 tokens and 20,000 keys are kept: at 100,000 both caches have been full for long. At each step ordinary
 * requests of the same few users are measured, in turn with a service that has seen few: the speed of the machine
 * drifts. That adds `count` x ROUNDS proofs where those are counted. `warm` has the code compiled without leaving
 * anything behind that is counted.
 */
const SERIES = [
  {
    id: 'remembered jtis',
    steps: [10_000, 1_000_000],
    fill: 'dpop',
    measured: 'dpop',
    count: 3_000,
    warm: 'proof signature wrong'
  },
  {
    id: 'access tokens seen',
    steps: [10_000, 100_000],
    fill: 'bearer-new',
    measured: 'bearer',
    count: 30_000,
    warm: 'bearer'
  },
  { id: 'client keys seen', steps: [10_000, 100_000], fill: 'dpop-new', measured: 'dpop', count: 5_000, warm: 'dpop' }
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

/** A warm service that has seen few. */
const startFew = async (bench, { id, fill, warm }) => {
  const server = await startHoldfast(bench, id)
  if (server === null) return null
  await warmUp(bench, server, warm, warm, bench.plan.warmSeconds)
  await feed(bench, server, fill, 0, FEW)
  return server
}

/** The two in turn; the ratio is that of each pair of rounds. */
const compare = async (bench, few, many, { measured, count }) => {
  const rounds = []
  // The first pair is not counted: it compiles what the warm-up left.
  for (let i = 0; i <= ROUNDS; i++) {
    const pair = {}
    for (const [name, server] of [['few', few], ['many', many]]) {
      pair[name] = await round(bench, server, measured, [{ name: measured, count }])
    }
    if (i > 0) rounds.push(pair)
  }
  return {
    few: summarize(rounds.map(pair => pair.few)),
    many: summarize(rounds.map(pair => pair.many)),
    ratio: median(rounds.map(pair => pair.many.cpuUs / pair.few.cpuUs))
  }
}

/**
 * Only the memory store, at a million records: in the service, waits for the host and full collections would hide what
 * freeing costs.
 */
const measureStore = () =>
  new Promise((resolve, reject) => {
    const child = fork(new URL('replay.js', import.meta.url), {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc']
    })
    child.once('message', resolve).once('exit', code => reject(new Error(`replay.js ended with ${code}`)))
  })

export const growth = async bench => {
  const rows = []
  for (const series of SERIES) {
    const { id, steps, fill } = series
    const many = await startFew(bench, series)
    if (many === null) return null
    let seen = FEW
    for (const step of steps) {
      seen = await feed(bench, many, fill, seen, step)
      const few = await startFew(bench, series)
      await awaitQuiet(bench)
      const rssBytes = residentBytes(many.pid).now
      const found = await compare(bench, few, many, series)
      rows.push({
        id,
        step,
        cpuUs: found.many.cpuUs,
        mainUs: found.many.mainUs,
        p99Ms: found.many.p99Ms,
        rssBytes,
        fewUs: found.few.cpuUs,
        ratio: found.ratio
      })
      bench.say(
        `${id}, ${step}: ${found.many.cpuUs.toFixed(1)} µs, ${found.few.cpuUs.toFixed(1)} with ${FEW}, ratio ` +
          `${found.ratio.toFixed(2)}, ${(rssBytes / 1e6).toFixed(0)} MB`
      )
      await few.stop()
    }
    await many.stop()
  }
  await awaitQuiet(bench)
  const store = await measureStore()
  bench.say(
    `the memory store: ${store.bytesEach.toFixed(1)} bytes a record, longest pause ${store.longestMs.toFixed(2)} ` +
      `ms, while freeing ${store.freeingMs.toFixed(2)} ms`
  )
  return { few: FEW, rows, store }
}
