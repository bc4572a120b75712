import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { awaitQuiet, round, summarize, warmUp } from './measure.js'
import { contender, ROOT, startServer } from './processes.js'

/**
 * Ways to lower the floor itself, each against the floor in interleaved rounds. `--node PATH` adds the floor and
 * the bare route on another Node; a program in front of the command stands in `before`.
 */
const WAYS = [
  { id: 'bare', file: 'bare', kind: 'dpop' },
  { id: 'floor', kind: 'dpop' },
  { id: 'on the main thread', kind: 'dpop', env: { FLOOR: 'main' } },
  { id: 'ieee-p1363 instead of DER', kind: 'dpop', env: { FLOOR: 'p1363' } },
  { id: 'a new KeyObject for each request', kind: 'dpop', env: { FLOOR: 'new-key' } },
  { id: 'WebCrypto', kind: 'dpop', env: { FLOOR: 'webcrypto' } },
  { id: 'EdDSA clients', kind: 'dpop-eddsa' },
  { id: 'UV_THREADPOOL_SIZE=1', kind: 'dpop', env: { UV_THREADPOOL_SIZE: '1' } },
  { id: 'UV_THREADPOOL_SIZE=2', kind: 'dpop', env: { UV_THREADPOOL_SIZE: '2' } },
  { id: 'UV_THREADPOOL_SIZE=8', kind: 'dpop', env: { UV_THREADPOOL_SIZE: '8' } },
  { id: 'batch scheduling (chrt -b 0)', kind: 'dpop', before: ['chrt', '-b', '0'] },
  { id: 'no keep-alive time-out', kind: 'dpop', env: { KEEP_ALIVE_TIMEOUT: '0' } }
]

const ways = (nodes) => [
  ...WAYS,
  ...nodes.flatMap(path => WAYS.slice(0, 4).map(way => ({ ...way, id: `${way.id}, other Node`, node: path })))
]

export const tries = async (bench) => {
  const entries = []
  for (const way of ways(bench.nodes).filter(({ id }) => bench.only === undefined || bench.only.includes(id) || id === 'floor')) {
    const [node, ...rest] = contender(way.file ?? 'floor')
    if (way.node !== undefined && !existsSync(join(ROOT, way.node)) && !existsSync(way.node)) throw new Error(`there is no ${way.node}`)
    const server = await startServer([...(way.before ?? []), way.node ?? node, ...rest], way.env ?? {})
    bench.cleanUp(server.stop)
    const rate = await warmUp(bench, server, way.id, way.kind, bench.plan.warmSeconds)
    entries.push({ way, server, count: Math.max(500, Math.round(rate * bench.plan.seconds)), rounds: [] })
  }
  for (let i = 0; i < bench.plan.rounds; i++) {
    await awaitQuiet(bench)
    for (const { way, server, count, rounds } of entries) {
      rounds.push(await round(bench, server, way.id, [{ name: way.kind, count }]))
      bench.say(`round ${i + 1} of ${bench.plan.rounds}  ${way.id}: ${rounds.at(-1).cpuUs.toFixed(1)} µs, ${rounds.at(-1).mainUs.toFixed(1)} on the main thread`)
    }
  }
  return entries.map(({ way, rounds }) => ({ id: way.id, ...summarize(rounds) }))
}
