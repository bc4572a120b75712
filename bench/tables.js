import { count, mb, table, us } from './table.js'

const SCHEMES = { bearer: 'Bearer', dpop: 'DPoP', post: 'Bearer, POST', call: 'Bearer, POST' }

/** What a request costs each contender. */
export const comparison = rows =>
  table(
    ['', 'token', 'CPU µs a request', 'of it main thread', 'requests/s', 'p50 ms', 'p99 ms', 'RSS MB'],
    [...rows].sort((a, b) => a.scheme < b.scheme ? -1 : a.scheme > b.scheme ? 1 : a.cpuUs - b.cpuUs).map(one => [
      one.id.startsWith('holdfast') ? `**${one.label}**` : one.label,
      SCHEMES[one.scheme],
      us(one.cpuUs),
      us(one.mainUs),
      count(one.requestsPerSecond),
      one.p50Ms.toFixed(1),
      one.p99Ms.toFixed(1),
      mb(one.rssBytes)
    ])
  )

const halfLoad = ({ rate, proxyP99Ms, gateP99Ms }) =>
  `At ${count(rate)} requests a second, half of what the gate takes: p99 ${gateP99Ms.toFixed(2)} ms, and ` +
  `${proxyP99Ms.toFixed(2)} ms of @fastify/http-proxy.`
const gateTable = ({ rows, halfLoad: half }) => comparison(rows) + (half ? `\n\n${halfLoad(half)}` : '')
const bearerTable = rows =>
  table(
    ['token', 'CPU µs a request', 'of it main thread', 'requests/s', 'p99 ms'],
    rows.map(one => [one.label, us(one.cpuUs), us(one.mainUs), count(one.requestsPerSecond), one.p99Ms.toFixed(1)])
  )

/** What is refused, or hostile, beside what is accepted in its place, which `accepted` describes. */
const besideAccepted = (what, rows, [acceptedHead, accepted]) =>
  table(
    [what, 'status', 'CPU µs', 'main thread', 'its bytes to bare node:http', ...acceptedHead, 'ratio', 'beyond the bytes'],
    rows.map(one => [
      one.name,
      one.status,
      us(one.cpuUs),
      us(one.mainUs),
      us(one.bytesUs),
      ...accepted(one),
      one.ratio.toFixed(2),
      one.beyondBytes.toFixed(2)
    ])
  )
const hostileTable = rows =>
  besideAccepted('hostile', rows, [['accepted in its place', 'CPU µs'], one => [one.like, us(one.acceptedUs)]])
const refusalTable = ({ refused }) =>
  besideAccepted('refused', refused, [['accepting it instead'], one => [us(one.acceptedUs)]])

const sizeTable = (
  {
    cutoffs,
    blocks,
    startMs,
    calm,
    reconnect,
    flush,
    promotion,
    rssBytes,
    bareRssBytes,
    redisBytes,
    costUs,
    emptyCostUs,
    bareCostUs
  }
) =>
  `With ${count(cutoffs)} cutoffs and ${count(blocks)} blocks the first good answer comes ` +
  `${(startMs / 1000).toFixed(1)} s after the start. Memory: ${mb(rssBytes)} (without revocation ` +
  `${mb(bareRssBytes)}), in Redis ${mb(redisBytes)}. A request: ${us(costUs)} µs of CPU (with no entries ` +
  `${us(emptyCostUs)}, without revocation ${us(bareCostUs)}).\n\n` + table(
    ['what happens', 'longest time between two good answers, s', 'restored after, s'],
    Object.entries({
      nothing: calm,
      'the connection is lost': reconnect,
      'Redis is emptied': flush,
      'a Redis without the last entries is promoted': promotion
    }).map((
      [name, { gapMs, restoredMs }]
    ) => [name, (gapMs / 1000).toFixed(2), restoredMs === undefined ? '' : (restoredMs / 1000).toFixed(1)])
  )

const revocationTable = ({ rows, memory, size, hostile }) =>
  `${bearerTable(rows)}\n\nMemory: ${memory.bytesEach.toFixed(0)} bytes for a user with a cutoff, ${memory.sessionBytesEach.toFixed(0)} for a session that has ended (at ${count(memory.number)}).${size ? `\n\n${sizeTable(size)}` : ''}${
    hostile ? `\n\n${hostileTable(hostile)}` : ''
  }`

const targets = judged =>
  table(
    ['target', 'bound', 'measured', ''],
    judged.map(one => [
      one.name,
      `at ${one.bound} ${one.limit}`,
      one.value.toFixed(one.value < 20 ? 2 : 0),
      one.met ? 'met' : '**missed**'
    ])
  )

const mixedTable = ({ loads }) =>
  table(
    ['beside', 'requests/s', 'core in use', 'p50 ms', 'p99 ms'],
    loads.map(
      one => [
        one.id,
        count(one.rate),
        `${(one.serverShare * 100).toFixed(0)} %`,
        one.p50Ms.toFixed(2),
        one.p99Ms.toFixed(2)
      ]
    )
  )

const growthTable = ({ few, rows }) =>
  table(
    ['', 'how many', 'CPU µs a request', `with ${few}`, 'ratio', 'RSS MB'],
    rows.map(one => [one.id, count(one.step), us(one.cpuUs), us(one.fewUs), one.ratio.toFixed(2), mb(one.rssBytes)])
  )

const startTable = ({ holdfastMs, worstMs, bareMs }) =>
  table(
    ['', 'median ms', 'worst ms'],
    [['Holdfast', holdfastMs.toFixed(0), worstMs.toFixed(0)], ['bare Fastify', bareMs.toFixed(0), '']]
  )

/** Every table of a run, as Markdown with a heading each. */
export const pages = (results, judged) =>
  [
    ['What a request costs', results.compare && comparison(results.compare)],
    ['What the gate costs', results.gate && gateTable(results.gate)],
    ['What a refusal costs', results.refusals && refusalTable(results.refusals)],
    ['`/api/public` beside other load', results.mixed && mixedTable(results.mixed)],
    ['With much to remember', results.growth && growthTable(results.growth)],
    ['A Bearer token beside revocations', results.revocation && revocationTable(results.revocation)],
    ['Start', results.start && startTable(results.start)],
    ['Targets', judged.length > 0 && targets(judged)]
  ].filter(([, text]) => text).map(([title, text]) => `### ${title}\n\n${text}\n`)

/** The rows of the README: those that know both schemes. */
const IN_README = ['holdfast', 'oauth4webapi', 'express']
export const forReadme = rows => {
  const costs = id => rows.find(one => one.id === id)
  return table(
    ['CPU µs a request', 'Bearer', 'DPoP'],
    IN_README.map(id => {
      const [bearer, dpop] = [costs(`${id}-bearer`), costs(`${id}-dpop`)]
      return [id === 'holdfast' ? '**Holdfast**' : bearer.label, us(bearer.cpuUs), us(dpop.cpuUs)]
    })
  )
}
