import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chart } from './chart.js'
import { machine } from './kernel.js'
import { ROOT } from './processes.js'
import { judge } from './targets.js'

const RESULTS = join(ROOT, 'bench/results')
const START = '<!-- bench:start -->'
const END = '<!-- bench:end -->'

const table = (head, rows) => [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n')
const us = value => value < 99.5 ? value.toFixed(1) : value.toFixed(0)
const mb = bytes => (bytes / 1e6).toFixed(0)
const count = value => Math.round(value).toLocaleString('en')
const SCHEMES = { bearer: 'Bearer', dpop: 'DPoP', post: 'Bearer, POST', call: 'Bearer, POST' }

const comparison = rows =>
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

const hostileTable = rows =>
  table(
    [
      'hostile',
      'status',
      'CPU µs',
      'main thread',
      'its bytes to bare node:http',
      'accepted in its place',
      'CPU µs',
      'ratio',
      'beyond the bytes'
    ],
    rows.map(
      one => [
        one.name,
        one.status,
        us(one.cpuUs),
        us(one.mainUs),
        us(one.bytesUs),
        one.like,
        us(one.acceptedUs),
        one.ratio.toFixed(2),
        one.beyondBytes.toFixed(2)
      ]
    )
  )

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

const refusalTable = ({ refused }) =>
  table(
    [
      'refused',
      'status',
      'CPU µs',
      'main thread',
      'its bytes to bare node:http',
      'accepting it instead',
      'ratio',
      'beyond the bytes'
    ],
    refused.map(
      one => [
        one.name,
        one.status,
        us(one.cpuUs),
        us(one.mainUs),
        us(one.bytesUs),
        us(one.acceptedUs),
        one.ratio.toFixed(2),
        one.beyondBytes.toFixed(2)
      ]
    )
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
const pages = (results, judged) =>
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
const forReadme = rows => {
  const costs = id => rows.find(one => one.id === id)
  return table(
    ['CPU µs a request', 'Bearer', 'DPoP'],
    IN_README.map(id => {
      const [bearer, dpop] = [costs(`${id}-bearer`), costs(`${id}-dpop`)]
      return [id === 'holdfast' ? '**Holdfast**' : bearer.label, us(bearer.cpuUs), us(dpop.cpuUs)]
    })
  )
}

/** Puts a text between the markers of a page, if it has them. */
const writeInto = (page, content) => {
  const path = join(ROOT, page)
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const from = text.indexOf(START)
  const to = text.indexOf(END)
  if (from === -1 || to < from) return
  writeFileSync(path, `${text.slice(0, from)}${START}\n${content}\n${text.slice(to)}`)
}

/**
 * Prints the measurements and the targets; stores them if `write` is set, and updates the pages' tables and the chart
 * after a whole run. Returns whether every target that was measured is met.
 */
export const report = (results, { skipped, whole, write }) => {
  const judged = judge(results)
  const about = machine()
  const shown = pages(results, judged).join('\n')
  console.log(`\n${shown}`)
  for (const { name, why } of skipped) console.log(`skipped: ${name} (${why})`)
  if (write) {
    const path = join(RESULTS, `node-${process.versions.node.split('.')[0]}.json`)
    const earlier = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}
    const kept = {
      ...earlier,
      date: new Date().toISOString().slice(0, 10),
      machine: about,
      ...results,
      targets: judge({ ...earlier, ...results }),
      skipped
    }
    writeFileSync(
      path,
      JSON.stringify(kept, (key, value) => typeof value === 'number' ? Number(value.toFixed(4)) : value, 2) + '\n'
    )
  }
  if (write && whole) {
    writeFileSync(join(RESULTS, 'chart.svg'), chart(results.compare, about))
    const measured =
      `Node ${about.node}, OpenSSL ${about.openssl}, one core of an ${about.cpu}; medians of interleaved rounds.`
    writeInto('bench/README.md', `${comparison(results.compare)}\n\n${measured}`)
    writeInto(
      'README.md',
      '![CPU a request of Holdfast and ' +
        `others](bench/results/chart.svg)\n\n${forReadme(results.compare)}\n\n${measured} More rows, and how it is ` +
        'measured: [bench/](bench/README.md).'
    )
  }
  return judged.every(({ met }) => met)
}
