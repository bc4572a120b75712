/**
 * What hostile connections cost the service as shipped: memory and CPU for each, whether honest requests are answered meanwhile,
 * and whether the connections are gone at the end. A service of its own for each kind, so that nothing of one is taken for another's.
 * Run: `npm run build && node bench/hostile.js [--kind NAME]... [--count N]`; whole, it writes its table into docs/security.md.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { KINDS, openHostile } from './hostile-kinds.js'
import { cpuTime, machine, openSockets, residentBytes } from './kernel.js'
import { holdfast, LOAD_CORE, ROOT, startServer } from './processes.js'
import { AUDIENCE, HOST, startProvider } from './provider.js'
import { createMint } from './tokens.js'
import { openConnections, saturate } from './wire.js'

const { values: args } = parseArgs({ options: { kind: { type: 'string', multiple: true }, count: { type: 'string', default: '1000' } } })
const COUNT = Number(args.count)
const PATIENCE_MS = 80_000 // More than any limit of the service.
const SAMPLE_MS = 200
const WARM = 6_000
const MEASURED = 10_000

const [START, END] = ['<!-- hostile:start -->', '<!-- hostile:end -->']
const mb = (bytes) => Math.max(0, bytes / 1e6).toFixed(0)

const request = (token, connection) => Buffer.from(`GET /api/private HTTP/1.1\r\nHost: ${HOST}\r\nConnection: ${connection}\r\nAuthorization: Bearer ${token}\r\n\r\n`)

/** CPU of one accepted request in microseconds, once the code is compiled. */
const costOfAccepted = async (server, token) => {
  const open = await openConnections(server.port, 16)
  const stream = { batch: [request(token, 'keep-alive')], expect: { status: 200 } }
  await saturate(open, { ...stream, count: WARM })
  const before = cpuTime(server.pid).totalNs
  const { wrong, sample } = await saturate(open, { ...stream, count: MEASURED })
  const cpuUs = (cpuTime(server.pid).totalNs - before) / MEASURED / 1000
  open.close()
  if (wrong > 0) throw new Error(`honest requests are refused:\n${sample}`)
  return cpuUs
}

/** One honest request after the other, each on a connection of its own, until it is told to stop. */
const askHonestly = (server, token) => {
  const asked = { count: 0, answered: 0, worstMs: 0 }
  const stop = new AbortController()
  const done = (async () => {
    while (!stop.signal.aborted) {
      asked.count++
      try {
        const open = await openConnections(server.port, 1)
        const { wrong, maxMs } = await Promise.race([
          saturate(open, { batch: [request(token, 'close')], count: 1, expect: { status: 200 } }),
          sleep(20_000, { wrong: 1, maxMs: 20_000 })
        ])
        open.close()
        asked.answered += 1 - wrong
        asked.worstMs = Math.max(asked.worstMs, maxMs)
      } catch {} // Not answered.
      await sleep(50)
    }
  })()
  return async () => {
    stop.abort()
    await done
    return asked
  }
}

/** CPU of one such request with its connection, and of the time until the next, while nobody else is there. */
const costOfHonest = async (server, token) => {
  const before = cpuTime(server.pid).totalNs
  const stopAsking = askHonestly(server, token)
  await sleep(2_000)
  const { count } = await stopAsking()
  return (cpuTime(server.pid).totalNs - before) / count / 1000
}

const measure = async (kind, provider) => {
  const token = createMint(provider)()
  const server = await startServer(holdfast(), { IDP_DOMAIN: '', IDP_ISSUER: provider.issuer, IDP_AUDIENCE: AUDIENCE, LOG_LEVEL: 'warn' })
  try {
    const acceptedUs = await costOfAccepted(server, token)
    const honestUs = await costOfHonest(server, token)
    const before = { rss: residentBytes(server.pid).now, sockets: openSockets(server.pid), cpuNs: cpuTime(server.pid).totalNs }
    const stopAsking = askHonestly(server, token)
    const started = performance.now()
    const hostile = await openHostile(kind, server.port, COUNT)
    let mostBytes = 0
    let goneAfterMs
    while (performance.now() - started < PATIENCE_MS && !server.ended()) {
      await sleep(SAMPLE_MS)
      mostBytes = Math.max(mostBytes, residentBytes(server.pid).now - before.rss)
      // One may be that of an honest request.
      if (openSockets(server.pid) > before.sockets + 1) continue
      goneAfterMs = performance.now() - started
      break
    }
    const honest = await stopAsking()
    if (server.ended()) throw new Error(`${kind.name}: the service has ended: ${server.complaint()}`)
    const cpuUs = (cpuTime(server.pid).totalNs - before.cpuNs) / 1000 - honest.count * honestUs
    const left = Math.max(0, openSockets(server.pid) - before.sockets)
    hostile.end()
    return { name: kind.name, mostBytes, cpuUs: cpuUs / COUNT, acceptedUs, honest, goneAfterMs, left }
  } finally {
    await server.stop()
  }
}

const row = ({ name, mostBytes, cpuUs, acceptedUs, honest, goneAfterMs, left }) => `| ${[
  name, `${mb(mostBytes)} MB`, `${(mostBytes / COUNT / 1000).toFixed(0)} KB`, cpuUs.toFixed(0), (cpuUs / acceptedUs).toFixed(1),
  `${honest.answered} of ${honest.count}`, honest.worstMs.toFixed(0), goneAfterMs === undefined ? `**${left} left**` : `after ${(goneAfterMs / 1000).toFixed(0)} s`
].join(' | ')} |`

const report = (results) => {
  const { cpu, node } = machine()
  return [
    '| connections | memory, at most | for each | CPU µs for each | as accepted Bearer requests | honest requests answered meanwhile | slowest, ms | gone |',
    '| --- | --- | --- | --- | --- | --- | --- | --- |',
    ...results.map(row), '',
    `${COUNT.toLocaleString('en')} connections of each kind at once, with Node ${node} on one core of an ${cpu}. \`npm run bench -- --hostile\` measures it again.`, ''
  ].join('\n')
}

const write = (text) => {
  const path = join(ROOT, 'docs/security.md')
  const page = readFileSync(path, 'utf8')
  const [from, to] = [page.indexOf(START), page.indexOf(END)]
  if (from === -1 || to < from) throw new Error('docs/security.md has no place for the table')
  writeFileSync(path, `${page.slice(0, from)}${START}\n${text}${page.slice(to)}`)
}

if (process.platform !== 'linux' || spawnSync('taskset', ['-a', '-cp', String(LOAD_CORE), String(process.pid)]).status !== 0) {
  console.error('This reads the accounts of the Linux kernel and needs taskset and two cores.')
  process.exit(2)
}
if (holdfast() === null) {
  console.error('Holdfast is not built: npm run build')
  process.exit(2)
}
const provider = await startProvider()
const results = []
for (const kind of KINDS.filter(({ name, apart }) => args.kind?.includes(name) ?? !apart)) {
  results.push(await measure(kind, provider))
  console.error(row(results.at(-1)))
}
provider.close()
console.log(report(results))
if (args.kind === undefined && COUNT === 1000) write(report(results))
