/**
 * What the worst bodies of a megabyte cost the gate that judges them, beside JSON.parse of the same bytes; and whether
 * honest requests are answered while many connections send such bodies. Run: `npm run build &&
 * node lab/attacks/bodies.js [--kind NAME]... [--at-once N]...`
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { keep, settingsFor } from '../../bench/holdfast.js'
import { cpuTime } from '../../bench/kernel.js'
import { expectKnown, readOptions } from '../../bench/options.js'
import { holdfast, startServer } from '../../bench/processes.js'
import { startProvider } from '../../bench/provider.js'
import { createMint } from '../../bench/tokens.js'
import { startUpstream } from '../../bench/upstream.js'

const MAX_BYTES = 1024 * 1024
const MAX_VALUES = 20_000
const ROUNDS = 15
const SECONDS = 5
const HONEST_EVERY_MS = 50

const call = member => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop",${member}}}`
/** A message whose only long value repeats a part. */
const filled = (part, bytes = Buffer.byteLength(part)) =>
  call(`"x":"${part.repeat(Math.floor((MAX_BYTES - 80) / bytes))}"`)
const numbered = (count, part) => Array.from({ length: count }, (_, n) => part(n)).join()
const MANY = MAX_VALUES - 100
const EACH = Math.floor(MAX_BYTES / MAX_VALUES)

/** By their names: bodies as large as the bounds allow, or beyond them. */
const BODIES = {
  'one text': filled('x'),
  'one text of 3-byte characters': filled('\u20ac'),
  'one text of line feeds': filled('\\n'),
  'one text of quotes': filled('\\"'),
  'one text of quotes, 40 bytes apart': filled('x'.repeat(40) + '\\"'),
  'one text of \\u escapes': filled('\\u00e9'),
  'one number of a million digits': call(`"x":${'1'.repeat(MAX_BYTES - 80)}`),
  '1,000 numbers of 1,000 digits': call(`"x":[${numbered(1000, () => '9'.repeat(1000))}]`),
  'many numbers of 50 digits': call(`"x":[${numbered(MANY, () => '0.' + '1'.repeat(EACH - 4))}]`),
  'many texts': call(`"x":[${numbered(MANY, () => `"${'x'.repeat(EACH - 4)}"`)}]`),
  'many lists': call(`"x":[${numbered(MANY, () => '[]')}]`),
  'many members with one beginning': call(numbered(MANY, n => `"${String(n).padStart(EACH - 6, 'a')}":1`)),
  'many members with escapes': call(numbered(MANY, n => `"\\u0061${n}":1`)),
  'many members named by numbers': call(numbered(MANY, n => `"${4_294_967_294 - n * 20_000}":1`)),
  'members of one name': call(numbered(MANY, () => '"a":1')),
  'objects of as many shapes': call(`"x":[${numbered(MANY / 2, n => `{"k${n}":1}`)}]`),
  'a member with a name of a megabyte': call(`"${'\u0130'.repeat((MAX_BYTES - 90) / 2)}":1`),
  'a batch of calls': `[${numbered(4900, () => '{"jsonrpc":"2.0","id":1,"method":"a"}')}]`,
  'white space': call('"x":1') + ' '.repeat(MAX_BYTES - 80),
  brackets: '['.repeat(MAX_BYTES),
  'brackets, closed': '['.repeat(MAX_BYTES / 2) + ']'.repeat(MAX_BYTES / 2),
  quotes: '"'.repeat(MAX_BYTES),
  'no UTF-8 at the end': Buffer.from(filled('x').slice(0, -4) + '\u00ff"}}', 'latin1')
}

const args = readOptions({
  kind: { type: 'string', multiple: true },
  'at-once': { type: 'string', multiple: true, default: ['8', '32'] }
})
expectKnown('kind', args.kind ?? [], Object.keys(BODIES))
const bodies = Object.entries(BODIES).filter(([name]) => args.kind?.includes(name) ?? true).map(([name, body]) => ({
  name,
  body: Buffer.from(body)
}))

/** CPU milliseconds, the least of several turns. */
const cost = work => {
  let least = Infinity
  for (let i = 0; i < ROUNDS; i++) {
    const before = process.cpuUsage()
    try {
      work()
    } catch {}
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

const costs = async () => {
  const { readMcpMessages } = await import('../../dist/lib/gate/mcp-message.js')
  const { requestId } = await import('../../dist/lib/gate/rpc-error.js')
  console.log('| body | KB | JSON.parse, CPU ms | judged | judged and refused |\n| --- | --- | --- | --- | --- |')
  for (const { name, body } of bodies) {
    const judge = () => readMcpMessages(body, ['Content-Type', 'application/json'])
    const figures = [() => JSON.parse(body.toString()), judge, () => {
      try {
        judge()
      } finally {
        requestId(body)
      }
    }].map(cost)
    console.log(`| ${[name, Math.round(body.length / 1024), ...figures.map(ms => ms.toFixed(1))].join(' | ')} |`)
  }
}

const ask = (options, body) =>
  new Promise(resolve => {
    const started = performance.now()
    const done = status => resolve({ status, ms: performance.now() - started })
    request({ host: '127.0.0.1', ...options }, response =>
      response.resume().once('end', () => done(response.statusCode)).once('error', () => done(0))).once('error', () =>
      done(0)).end(body)
  })

const answer = (request, response) => {
  request.resume().once('end', () => response.end('{}'))
}

/** Sends one body over and over, by as many tokens as connections. */
const floods = async () => {
  const [provider, upstream] = [await startProvider(), await startUpstream(answer)]
  const mint = createMint(provider)
  const rules = [{ path: '/mcp', mcp: { tools: ['read_*'] } }, { path: '/good' }]
  const server = await startServer(holdfast(), settingsFor(provider, {
    CONFIG_FILE: keep('config.json', JSON.stringify({ gate: { upstream: upstream.origin, rules } }))
  }), { probe: '/health/live' })
  const { port } = server
  const bearer = () => ({ authorization: `Bearer ${mint()}` })
  const honest = { port, path: '/good', headers: bearer() }
  const warm = async () => {
    for (let i = 0; i < 300; i++) await ask(honest)
  }
  await warm()
  console.log(
    '\n| body | connections | answers | CPU ms for each | honest requests answered | slowest, ms |\n| --- | --- ' +
      '| --- | --- | --- | --- |'
  )
  for (const { name, body } of bodies) {
    for (const count of args['at-once'].map(Number)) {
      const agent = new Agent({ keepAlive: true, maxSockets: count })
      const stop = new AbortController()
      const seen = new Map()
      const before = cpuTime(server.pid).totalNs
      const hostile = Array.from({ length: count }, async () => {
        const options = {
          port,
          agent,
          method: 'POST',
          path: '/mcp',
          headers: { ...bearer(), 'content-type': 'application/json', 'content-length': body.length }
        }
        while (!stop.signal.aborted) {
          const { status } = await ask(options, body)
          seen.set(status, (seen.get(status) ?? 0) + 1)
        }
      })
      const good = []
      for (const end = performance.now() + SECONDS * 1000; performance.now() < end; await sleep(HONEST_EVERY_MS)) {
        good.push(await ask({ ...honest, agent: false }))
      }
      stop.abort()
      await Promise.all(hostile)
      agent.destroy()
      const answers = [...seen.values()].reduce((sum, n) => sum + n, 0)
      const cpuMs = (cpuTime(server.pid).totalNs - before) / 1e6 / answers
      console.log(
        `| ${
          [
            name,
            count,
            [...seen].map(([status, n]) => `${n} x ${status}`).join(', '),
            cpuMs.toFixed(1),
            `${good.filter(({ status }) => status === 200).length} of ${good.length}`,
            Math.max(...good.map(({ ms }) => ms)).toFixed(0)
          ].join(' | ')
        } |`
      )
      await sleep(3000)
    }
  }
  await server.stop()
  upstream.close()
  provider.close()
}

await costs()
await floods()
