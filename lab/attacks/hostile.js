/**
 * What hostile connections cost the service as shipped: memory and CPU for each, whether honest requests are answered
 * meanwhile, and whether the connections are gone at the end. A service of its own for each kind, so that nothing of
 * one is taken for another's. Run: `npm run build && node lab/attacks/hostile.js [--kind NAME]... [--count N]`;
 * whole, it writes its table into lab/reports/hostile.md. A kind beyond a bound gives exit code 1.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { settingsFor } from '../../bench/holdfast.js'
import { askHonestly, costOfAccepted, costOfHonest } from './honest.js'
import { GRPC_KINDS } from './hostile-grpc.js'
import { KINDS } from './hostile-kinds.js'
import { SERVERS } from './hostile-servers.js'
import { cpuTime, machine, openSockets, residentBytes } from '../../bench/kernel.js'
import { writeInto } from '../../bench/marked.js'
import { expectKnown, readOptions } from '../../bench/options.js'
import { holdfast, pinToLoadCore, startServer } from '../../bench/processes.js'
import { startProvider } from '../../bench/provider.js'
import { count, mb, table, tableRow } from '../../bench/table.js'
import { createMint } from '../../bench/tokens.js'

const args = readOptions({ kind: { type: 'string', multiple: true }, count: { type: 'string', default: '1000' } })
expectKnown('kind', args.kind ?? [], [...KINDS, ...GRPC_KINDS].map(({ name }) => name))
const COUNT = Number(args.count)
const PATIENCE_MS = 120_000 // More than any limit of the service, and what a busy machine takes to accept the last one.
const SAMPLE_MS = 200
/** No kind may hold more memory, or a connection for longer. */
const MAX_BYTES = 64e6
const MAX_MS = 60_000

const measure = async (kind, provider) => {
  const token = createMint(provider)()
  const number = kind.count ?? COUNT
  const { env, probe, warm, port, open, close } = await SERVERS[kind.at ?? 'service']()
  const server = await startServer(holdfast(), settingsFor(provider, env), { probe })
  try {
    const acceptedUs = await costOfAccepted(server, token)
    const honestUs = await costOfHonest(server, token)
    await warm?.(server.port)
    const before = {
      rss: residentBytes(server.pid).now,
      sockets: new Set(openSockets(server.pid)),
      cpuNs: cpuTime(server.pid).totalNs
    }
    const stopAsking = askHonestly(server, token)
    const started = performance.now()
    const hostile = await open(kind, port ?? server.port, number)
    let mostBytes = 0
    /** When each connection was accepted. The last ones may wait long for that. */
    const seenMs = new Map()
    let longestMs = 0
    let left = []
    while (performance.now() - started < PATIENCE_MS && !server.ended()) {
      await sleep(SAMPLE_MS)
      mostBytes = Math.max(mostBytes, residentBytes(server.pid).now - before.rss)
      const nowMs = performance.now()
      left = openSockets(server.pid).filter(name => !before.sockets.has(name))
      for (const name of left) {
        if (!seenMs.has(name)) seenMs.set(name, nowMs)
        longestMs = Math.max(longestMs, nowMs - seenMs.get(name))
      }
      // One may be that of an honest request.
      if (left.length <= 1) break
    }
    const honest = await stopAsking()
    if (server.ended()) throw new Error(`${kind.name}: the service has ended: ${server.complaint()}`)
    const cpuUs = (cpuTime(server.pid).totalNs - before.cpuNs) / 1000 - honest.count * honestUs
    hostile.end()
    return {
      name: kind.name,
      number,
      mostBytes,
      cpuUs: cpuUs / number,
      acceptedUs,
      honest,
      longestMs,
      left: left.length > 1 ? left.length : 0
    }
  } finally {
    await server.stop()
    close?.()
  }
}

const HEAD = [
  'connections',
  'how many',
  'memory, at most',
  'for each',
  'CPU µs for each',
  'as accepted Bearer requests',
  'honest requests answered meanwhile',
  'slowest, ms',
  'longest connection'
]

const cells = ({ name, number, mostBytes, cpuUs, acceptedUs, honest, longestMs, left }) => [
  name,
  count(number),
  `${mb(Math.max(0, mostBytes))} MB`,
  `${(mostBytes / number / 1000).toFixed(0)} KB`,
  cpuUs.toFixed(0),
  (cpuUs / acceptedUs).toFixed(1),
  `${honest.answered} of ${honest.count}`,
  honest.worstMs.toFixed(0),
  `${(longestMs / 1000).toFixed(0)} s${left > 0 ? `, **${left} left**` : ''}`
]

const report = results => {
  const { cpu, node } = machine()
  return `${table(HEAD, results.map(cells))}\n\nAll connections of a kind at once, with Node ${node} on one core of an ` +
    `${cpu}. \`npm run build && node lab/attacks/hostile.js\` measures it again.`
}

pinToLoadCore()
if (holdfast() === null) {
  console.error('Holdfast is not built: npm run build')
  process.exit(2)
}
const provider = await startProvider()
const results = []
for (const kind of [...KINDS, ...GRPC_KINDS].filter(({ name }) => args.kind?.includes(name) ?? true)) {
  results.push(await measure(kind, provider))
  console.error(tableRow(cells(results.at(-1))))
}
provider.close()
console.log(`${report(results)}\n`)
if (args.kind === undefined && COUNT === 1000 && !writeInto('lab/reports/hostile.md', 'hostile', report(results))) {
  throw new Error('lab/reports/hostile.md has no place for the table')
}
for (const { name, mostBytes, longestMs } of results) {
  if (mostBytes <= MAX_BYTES && longestMs <= MAX_MS) continue
  console.error(`beyond the bound of ${mb(MAX_BYTES)} MB and ${MAX_MS / 1000} s: ${name}`)
  process.exitCode = 1
}
