import { startHoldfast } from './holdfast.js'
import { contender, startServer } from './processes.js'
import { awaitQuiet, NotReportable, round, summarize, warmUp } from './measure.js'

/**
 * The rows of the comparison. `kind` is what is sent (requests.js), `bad` what has to be answered 401. Every row has a
 * server process of its own. `peer` rows are what others offer; `quick` rows are in the short run too.
 */
const ROWS = [
  { id: 'bare-bearer', label: 'bare Fastify 5 route', kind: 'bearer', file: 'bare', quick: true },
  { id: 'bare-dpop', label: 'bare Fastify 5 route', kind: 'dpop', file: 'bare' },
  {
    id: 'floor-dpop',
    label: 'the floor: one ES256 verification',
    kind: 'dpop',
    file: 'floor',
    bad: ['no credentials', 'proof signature wrong', 'ath wrong'],
    quick: true
  },
  {
    id: 'holdfast-bearer',
    label: 'Holdfast',
    kind: 'bearer',
    bad: ['no credentials', 'token signature wrong'],
    quick: true
  },
  {
    id: 'holdfast-bearer-logged',
    label: 'Holdfast, each request logged',
    kind: 'bearer',
    env: { LOG_LEVEL: 'info' },
    bad: ['no credentials', 'token signature wrong']
  },
  {
    id: 'holdfast-bearer-audited',
    label: 'Holdfast, each decision in a file',
    kind: 'bearer',
    audit: true,
    bad: ['no credentials', 'token signature wrong']
  },
  {
    id: 'holdfast-dpop',
    label: 'Holdfast, replay in memory',
    kind: 'dpop',
    bad: ['no credentials', 'proof signature wrong', 'proof replayed'],
    quick: true
  },
  {
    id: 'holdfast-redis',
    label: 'Holdfast, replay in Redis',
    kind: 'dpop',
    redis: true,
    bad: ['no credentials', 'proof signature wrong', 'proof replayed'],
    quick: true
  },
  {
    id: 'fastify-jwt',
    label: '@fastify/jwt + get-jwks',
    kind: 'bearer',
    file: 'fastify-jwt',
    peer: true,
    bad: ['no credentials', 'token signature wrong']
  },
  {
    id: 'fastify-auth0-verify',
    label: 'fastify-auth0-verify',
    kind: 'bearer',
    file: 'fastify-auth0-verify',
    peer: true,
    bad: ['no credentials', 'token signature wrong'],
    quick: true
  },
  {
    id: 'oauth4webapi-bearer',
    label: 'oauth4webapi in a hook',
    kind: 'bearer',
    file: 'oauth4webapi',
    peer: true,
    bad: ['no credentials', 'token signature wrong']
  },
  {
    id: 'oauth4webapi-dpop',
    label: 'oauth4webapi in a hook',
    kind: 'dpop',
    file: 'oauth4webapi',
    peer: true,
    bad: ['no credentials', 'proof signature wrong'],
    quick: true
  },
  { id: 'express-bare', label: 'Express, no guard', kind: 'bearer', file: 'express-bare' },
  {
    id: 'express-holdfast-bearer',
    label: 'Express with holdfast/guard',
    kind: 'bearer',
    file: 'express-holdfast',
    bad: ['no credentials', 'token signature wrong']
  },
  {
    id: 'express-bearer',
    label: 'express-oauth2-jwt-bearer',
    kind: 'bearer',
    file: 'express',
    peer: true,
    bad: ['no credentials', 'token signature wrong']
  },
  {
    id: 'express-holdfast-dpop',
    label: 'Express with holdfast/guard',
    kind: 'dpop',
    file: 'express-holdfast',
    bad: ['no credentials', 'proof signature wrong']
  },
  {
    id: 'express-dpop',
    label: 'express-oauth2-jwt-bearer',
    kind: 'dpop',
    file: 'express',
    peer: true,
    bad: ['no credentials', 'proof signature wrong'],
    badProof: 400
  }
]

const start = async (bench, row) => {
  if (row.file === undefined) return startHoldfast(bench, row.id, row)
  const server = await startServer(contender(row.file), { ISSUER: bench.provider.issuer, AUDIENCE: bench.audience })
  bench.cleanUp(server.stop)
  return server
}

/**
 * The good is answered 200 and the bad 401 (a bad proof 400, by one of the peers), by this very process, or nothing is
 * reported.
 */
const check = async (bench, row, server) => {
  const good = await bench.load.call('ask', { port: server.port, name: row.kind })
  if (good.status !== 200) throw new NotReportable(`${row.id}: a good request was answered ${good.text}`)
  for (const name of row.bad ?? []) {
    const { status, text } = await bench.load.call('ask', { port: server.port, name })
    if (status !== (name.startsWith('proof') ? row.badProof ?? 401 : 401)) {
      throw new NotReportable(`${row.id}: ${name} was answered ${text}`)
    }
  }
}

/**
 * All rows, round after round, one after the other inside a round: what drifts, drifts for all of them alike. A row may
 * bring a `start` of its own. Returns what was measured, and the servers, which still run.
 */
export const measureRows = async (bench, rows) => {
  const { rounds, seconds, warmSeconds } = bench.plan
  const entries = []
  for (const row of rows.filter(row => bench.wants(row))) {
    bench.say(`starting ${row.id}`)
    const server = await (row.start ?? start)(bench, row)
    if (server === null) continue
    await check(bench, row, server)
    const rate = await warmUp(bench, server, row.id, row.kind, warmSeconds)
    entries.push({ row, server, count: Math.max(2_000, Math.round(rate * seconds)), rounds: [] })
  }
  for (let i = 0; i < rounds; i++) {
    await awaitQuiet(bench)
    // Every other round backwards: no row is always the one that comes after the same other.
    for (const { row, server, count, rounds: done } of i % 2 === 0 ? entries : entries.toReversed()) {
      done.push(await round(bench, server, row.id, [{ name: row.kind, count }]))
      bench.say(
        `round ${i + 1} of ${rounds}  ${row.id}: ${done.at(-1).cpuUs.toFixed(1)} µs, ` +
          `${done.at(-1).mainUs.toFixed(1)} on the main thread`
      )
    }
  }
  for (const { row, server } of entries) await check(bench, row, server)
  return entries.map(({ row, server, rounds: done }) => ({
    server,
    row,
    figures: { id: row.id, label: row.label, scheme: row.kind, peer: row.peer === true, ...summarize(done) }
  }))
}

export const compare = async bench => (await measureRows(bench, ROWS)).map(({ figures }) => figures)

/** The rows whose ratios `--check` compares (check.js). */
export const MAIN_ROWS = ROWS.filter(({ id }) =>
  ['bare-bearer', 'floor-dpop', 'holdfast-bearer', 'holdfast-dpop'].includes(id)
)
