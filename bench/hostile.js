/**
 * What hostile connections cost the service as shipped: memory and CPU for each, whether honest requests are answered
 * meanwhile, and whether the connections are gone at the end. A service of its own for each kind, so that nothing of
 * one is taken for another's. Run: `npm run build && node bench/hostile.js [--kind NAME]... [--count N]`; whole, it
 * writes its table into test/reports/hostile.md. A kind beyond a bound gives exit code 1.
 */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import getPort from 'get-port'
import { keep } from './holdfast.js'
import { GRPC_KINDS, openHostileGrpc, TRUSTED } from './hostile-grpc.js'
import { KINDS, openHostile } from './hostile-kinds.js'
import { cpuTime, machine, openSockets, residentBytes } from './kernel.js'
import { expectKnown, readOptions } from './options.js'
import { holdfast, LOAD_CORE, ROOT, startServer } from './processes.js'
import { AUDIENCE, HOST, startProvider } from './provider.js'
import { createMint } from './tokens.js'
import { openConnections, saturate } from './wire.js'

const args = readOptions({ kind: { type: 'string', multiple: true }, count: { type: 'string', default: '1000' } })
expectKnown('kind', args.kind ?? [], [...KINDS, ...GRPC_KINDS].map(({ name }) => name))
const COUNT = Number(args.count)
const PATIENCE_MS = 120_000 // More than any limit of the service, and what a busy machine takes to accept the last one.
const SAMPLE_MS = 200
/** No kind may hold more memory, or a connection for longer. */
const MAX_BYTES = 64e6
const MAX_MS = 60_000
const WARM = 6_000
const MEASURED = 10_000
const LARGE_TURNS = 30
const LARGE_AT_ONCE = 32

const [START, END] = ['<!-- hostile:start -->', '<!-- hostile:end -->']
const mb = bytes => Math.max(0, bytes / 1e6).toFixed(0)

const request = (token, connection) =>
  Buffer.from(
    `GET /api/private HTTP/1.1\r\nHost: ${HOST}\r\nConnection: ${connection}\r\nAuthorization: Bearer ${token}\r\n\r\n`
  )

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

/** One honest request after the other, each on its own connection, until stopped. */
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

/** CPU of one such request with its connection, and of the time until the next, without other load. */
const costOfHonest = async (server, token) => {
  const before = cpuTime(server.pid).totalNs
  const stopAsking = askHonestly(server, token)
  await sleep(2_000)
  const { count } = await stopAsking()
  return (cpuTime(server.pid).totalNs - before) / count / 1000
}

/**
 * Answers as large as the hostile ones, each read by its client. The allocator keeps what they took on their way
 * through, and no connection holds that.
 */
const readLarge = async port => {
  for (let turn = 0; turn < LARGE_TURNS; turn++) {
    await Promise.all(
      Array.from(
        { length: LARGE_AT_ONCE },
        async () => (await fetch(`http://127.0.0.1:${port}/open/large`)).arrayBuffer()
      )
    )
  }
}

/** What answers behind the gate. */
const startUpstream = async () => {
  const large = Buffer.alloc(400_000)
  const server = createServer((request, response) => {
    response.on('error', () => {})
    if (request.url === '/open/body') return request.resume()
    if (request.url === '/open/large') return response.end(large)
    if (request.url !== '/open/endless') return response.end('{}')
    const more = () => {
      while (response.write(large));
    }
    response.on('drain', more)
    more()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

const startGate = async settings => {
  const { origin, close } = await startUpstream()
  const config = {
    gate: { upstream: origin, rules: [{ path: '/open/*', allow: 'anyone' }, { path: '/*' }], ...settings }
  }
  return {
    env: { CONFIG_FILE: keep('config.json', JSON.stringify(config)), TRUST_PROXY: TRUSTED },
    probe: '/health/live',
    warm: readLarge,
    open: openHostile,
    close
  }
}

/**
 * What a kind is aimed at, by its `at`: settings beside those of every run, the port if it is not that of honest
 * requests, and what runs behind.
 */
const SERVERS = {
  service: async () => ({ env: {}, open: openHostile }),
  gate: () => startGate({}),
  grpc: async () => {
    const grpcPort = await getPort()
    return { ...await startGate({ grpcPort }), port: grpcPort, open: openHostileGrpc }
  }
}

const measure = async (kind, provider) => {
  const token = createMint(provider)()
  const count = kind.count ?? COUNT
  const { env, probe, warm, port, open, close } = await SERVERS[kind.at ?? 'service']()
  const server = await startServer(holdfast(), {
    IDP_DOMAIN: '',
    IDP_ISSUER: provider.issuer,
    IDP_AUDIENCE: AUDIENCE,
    LOG_LEVEL: 'warn',
    ...env
  }, { probe })
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
    const hostile = await open(kind, port ?? server.port, count)
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
      count,
      mostBytes,
      cpuUs: cpuUs / count,
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

const row = ({ name, count, mostBytes, cpuUs, acceptedUs, honest, longestMs, left }) =>
  `| ${
    [
      name,
      count.toLocaleString('en'),
      `${mb(mostBytes)} MB`,
      `${(mostBytes / count / 1000).toFixed(0)} KB`,
      cpuUs.toFixed(0),
      (cpuUs / acceptedUs).toFixed(1),
      `${honest.answered} of ${honest.count}`,
      honest.worstMs.toFixed(0),
      `${(longestMs / 1000).toFixed(0)} s${left > 0 ? `, **${left} left**` : ''}`
    ].join(' | ')
  } |`

const report = results => {
  const { cpu, node } = machine()
  return [
    '| connections | how many | memory, at most | for each | CPU µs for each | as accepted Bearer requests | ' +
    'honest requests answered meanwhile | slowest, ms | longest connection |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...results.map(row),
    '',
    `All connections of a kind at once, with Node ${node} on one core of an ${cpu}. \`npm run bench -- ` +
    '--hostile` measures it again.',
    ''
  ].join('\n')
}

const write = text => {
  const path = join(ROOT, 'test/reports/hostile.md')
  const page = readFileSync(path, 'utf8')
  const [from, to] = [page.indexOf(START), page.indexOf(END)]
  if (from === -1 || to < from) throw new Error('test/reports/hostile.md has no place for the table')
  writeFileSync(path, `${page.slice(0, from)}${START}\n${text}${page.slice(to)}`)
}

if (
  process.platform !== 'linux' ||
  spawnSync('taskset', ['-a', '-cp', String(LOAD_CORE), String(process.pid)]).status !== 0
) {
  console.error('This reads the accounts of the Linux kernel and needs taskset and two cores.')
  process.exit(2)
}
if (holdfast() === null) {
  console.error('Holdfast is not built: npm run build')
  process.exit(2)
}
const provider = await startProvider()
const results = []
for (const kind of [...KINDS, ...GRPC_KINDS].filter(({ name }) => args.kind?.includes(name) ?? true)) {
  results.push(await measure(kind, provider))
  console.error(row(results.at(-1)))
}
provider.close()
console.log(report(results))
if (args.kind === undefined && COUNT === 1000) write(report(results))
for (const { name, mostBytes, longestMs } of results) {
  if (mostBytes <= MAX_BYTES && longestMs <= MAX_MS) continue
  console.error(`beyond the bound of ${mb(MAX_BYTES)} MB and ${MAX_MS / 1000} s: ${name}`)
  process.exitCode = 1
}
