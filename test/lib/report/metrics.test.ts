import { readFileSync } from 'node:fs'
import t from 'tap'
import { GATE_REASONS } from '../../../lib/gate/gate-error.ts'
import { METRICS, type MetricSources } from '../../../lib/report/metrics/catalog.ts'
import { createGuardTally, createHistogram, createRequestTally } from '../../../lib/report/metrics/tallies.ts'
import { timeProofs, timeRecords, timeSignatures } from '../../../lib/report/metrics/timings.ts'
import { REFUSALS } from '../../../lib/refusal.ts'
import { STREAM_STATUSES } from '../../../lib/revocation/transmitter/stream-news.ts'
import { createOffStore } from '../../../lib/guard/replay/create-store.ts'
import type { ReplayStore } from '../../../lib/guard/replay/replay-store.ts'
import { createVerifiedTokens } from '../../../lib/guard/token/verified-tokens.ts'
import type { KeySourceState } from '../../../lib/guard/provider/key-source.ts'
import { untriedKey } from '../../helpers/signing-key.ts'

/** A clock that shows the given milliseconds, one after the other. */
const clockOf = (...times: number[]) => () => times.shift()!

t.test('A histogram counts each duration under every bound that it does not exceed', async t => {
  const histogram = createHistogram([0.1, 0.5])
  for (const ms of [50, 100, 200, 3000]) histogram.observe(ms)
  t.strictSame(histogram.samples('x', { kind: 'a' }), [
    { metricName: 'x_bucket', labels: { kind: 'a', le: 0.1 }, value: 2 },
    { metricName: 'x_bucket', labels: { kind: 'a', le: 0.5 }, value: 3 },
    { metricName: 'x_bucket', labels: { kind: 'a', le: '+Inf' }, value: 4 },
    { metricName: 'x_sum', labels: { kind: 'a' }, value: 3.35 },
    { metricName: 'x_count', labels: { kind: 'a' }, value: 4 }
  ])
})

t.test('Upgraded connections and routes that were never requested have no durations', async t => {
  const tally = createRequestTally()
  tally.ofRoute('GET', '/a').ended('upgraded', 101, 'Bearer', 9e9)
  tally.ofRoute('GET', '/a').ended('answered', 200, 'Bearer', 1)
  tally.ofRoute('GET', '/never')
  t.strictSame(tally.durations('d').filter(({ metricName }) => metricName === 'd_count'), [
    { labels: { method: 'GET', route: '/a' }, metricName: 'd_count', value: 1 }
  ])
})

t.test('Every reason is in the tally from the start, and is counted', async t => {
  const tally = createGuardTally()
  t.strictSame(Object.keys(tally.refusals), [...Object.keys(REFUSALS), ...GATE_REASONS])
  tally.refused('htu_mismatch')
  t.equal(tally.refusals.htu_mismatch, 1)
  t.equal(tally.refusals.token_expired, 0)
})

t.test('The time of a signature is measured whatever its outcome', async t => {
  const key = untriedKey()
  for (const outcome of [key, undefined]) {
    const times = createHistogram([])
    const findSigner = timeSignatures(() => outcome, times, clockOf(100, 350))
    t.equal(findSigner('token', [key], 'RS256'), outcome)
    t.hasStrict(times.samples('t').find(({ metricName }) => metricName === 't_sum'), { value: 0.25 })
  }
})

t.test('The time of an accepted proof is measured, that of a refused one is not', async t => {
  for (const [error, count] of [[null, 1], [new Error('refused'), 0]] as const) {
    const times = createHistogram([])
    const verify = timeProofs((_attempt, _policy, done) => done(error), times, clockOf(5, 8))
    verify({} as never, {} as never, given => t.equal(given, error))
    t.hasStrict(times.samples('p').at(-1), { metricName: 'p_count', value: count })
    t.hasStrict(times.samples('p').at(-2), { metricName: 'p_sum', value: count * 0.003 })
  }
})

t.test('A record is measured and passed on as it is', async t => {
  const times = createHistogram([])
  const store = createOffStore()
  const timed = timeRecords(store, times, clockOf(0, 2))
  timed.record('id', 'jkt', 1, (refusal, first) => t.strictSame([refusal, first], [null, true]))
  t.hasStrict(times.samples('c').at(-2), { value: 0.002 })
  t.strictSame(timed.state(), store.state())
  t.equal(timed.close(), undefined)
})

const issuersOf = (...states: KeySourceState[]) => ({
  isComplete: true,
  all: () =>
    states.map((state, index) => ({
      issuer: `https://${index}/`,
      keys: { state: () => state },
      introspection: undefined
    }))
})

const introspectionOf = (inFlight: number, needsNoKeys = false) => ({
  needsNoKeys,
  endpoint: { isKnown: () => true },
  inquiry: {
    state: () => ({
      active: 5,
      inactive: 4,
      failures: 3,
      turnedAway: 2,
      inFlight,
      cache: { entries: 6, hits: 7, misses: 8 }
    })
  }
})

function sources (overrides: Partial<MetricSources['parts']> = {}) {
  const verified = createVerifiedTokens()
  verified.get('absent')
  verified.keep({ text: 'there' } as never)
  verified.get('there')
  verified.get('there')
  return {
    requests: createRequestTally(),
    guard: createGuardTally(),
    connections: { open: 3, dropped: 4, unreadable: { 400: 1, 408: 0, 431: 2 } },
    answersEnded: 6,
    audit: undefined,
    shed: 5,
    now: 61,
    parts: {
      issuers: issuersOf({
        status: 'stale',
        keys: 2,
        passedOver: { key_type: 1 },
        fetchedAt: 1,
        fetches: 7,
        failures: 6,
        lastFailure: 'deadline'
      }),
      replay: {
        state: () => ({ kind: 'memory', ready: true, entries: 10, max: 20, bytes: 30, records: 9, seen: 2, refused: 3 })
      } as unknown as ReplayStore,
      verified,
      clientKeys: { state: () => ({ entries: 1, hits: 8, misses: 9 }) } as never,
      revocation: undefined,
      ...overrides
    }
  }
}

const readAll = (from: MetricSources) =>
  Object.fromEntries(
    METRICS.map((
      { name, read }
    ) => [
      name,
      Object.fromEntries(read(from, name).map(({ labels, value }) => [Object.values(labels).join(' '), value]))
    ])
  )

t.test('Each metric is explained in words of its own', async t => {
  for (const { name, help } of METRICS) t.match(help, /^[A-Z1].+[^.;,]\.$/, name)
  t.equal(new Set(METRICS.map(({ help }) => help)).size, METRICS.length)
})

t.test('Each metric shows what its source says', async t => {
  t.hasStrict(readAll(sources()), {
    holdfast_requests_shed_total: { '': 5 },
    holdfast_connections: { '': 3 },
    holdfast_connections_dropped_total: { '': 4 },
    holdfast_requests_unreadable_total: { 400: 1, 408: 0, 431: 2 },
    holdfast_cache_entries: { tokens: 1, client_keys: 1 },
    holdfast_cache_hits_total: { tokens: 2, client_keys: 8 },
    holdfast_cache_misses_total: { tokens: 1, client_keys: 9 },
    holdfast_replay_ready: { memory: 1 },
    holdfast_replay_entries: { '': 10 },
    holdfast_replay_max_entries: { '': 20 },
    holdfast_replay_bytes: { '': 30 },
    holdfast_replay_records_total: { first: 4, seen: 2, undecided: 3 },
    holdfast_keys: { '': 2 },
    holdfast_keys_needed: { '': 1 },
    holdfast_keys_passed_over: { key_type: 1 },
    holdfast_keys_status: { empty: 0, fresh: 0, stale: 1, expired: 0 },
    holdfast_keys_age_seconds: { '': 60 },
    holdfast_keys_fetches_total: { '': 7 },
    holdfast_keys_fetch_failures_total: { '': 6 },
    holdfast_keys_last_failure: { deadline: 1 }
  })
})

const revocation = (ageSeconds: number, isCurrent: boolean) => ({
  counts: new Map([['logout applied', 2], ['refused invalid', 1]]),
  revocations: {
    state: () => ({ isLoaded: ageSeconds !== Infinity, ageSeconds, isCurrent, fault: undefined, entries: 7 })
  },
  transmitters: [{ transmitter: 'https://a.example', status: 'enabled', verifiedAt: 1 }, {
    transmitter: 'https://b.example',
    status: 'no_subjects',
    verifiedAt: undefined
  }].map(state => ({ state: () => state }))
})

/** Each of them has values. */
const FRESH: KeySourceState = {
  status: 'fresh',
  keys: 1,
  passedOver: {},
  fetchedAt: 0,
  fetches: 1,
  failures: 0,
  lastFailure: undefined
}

function allSources () {
  const issuers = issuersOf({
    ...FRESH,
    passedOver: { key_use: 1 },
    fetchedAt: 1,
    failures: 1,
    lastFailure: 'deadline'
  })
  const from: MetricSources = {
    ...sources({
      issuers: {
        ...issuers,
        all: () => issuers.all().map(issuer => ({ ...issuer, introspection: introspectionOf(1) }))
      },
      revocation: revocation(0.5, true),
      observing: { secondsLeft: () => 9 } as never
    }),
    audit: { state: () => ({ written: 3, lost: 2, fault: undefined }) }
  }
  const tally = createRequestTally()
  tally.ofRoute('GET', '/a').ended('answered', 200, 'Bearer', 1)
  const { guard } = from
  guard.tokens.observe(1)
  for (const ms of [1, 1]) guard.proofs.observe(ms)
  for (const ms of [1, 1, 1]) guard.records.observe(ms)
  guard.judged('/mcp', [{ method: 'm', tool: 't' }], true)
  return { ...from, requests: tally }
}

t.test('Types and labels are those that the documentation names', async t => {
  const page = readFileSync(new URL('../../../docs/reference/monitoring.md', import.meta.url), 'utf8')
  const from = allSources()
  for (const { name, type, read } of METRICS) {
    const [, documented, cell] = new RegExp(`^\\| \`${name}\` \\| (\\w+) \\| ([^|]*)\\|`, 'm').exec(page)!
    const labels = new Set(read(from, name).flatMap(({ labels }) => Object.keys(labels)))
    // `le` belongs to each histogram.
    labels.delete('le')
    const known = [...cell!.matchAll(/`(\w+)`/g)].map(([, label]) => label)
    t.strictSame([type, [...labels].sort()], [documented, known.sort()], name)
  }
})

t.test('Durations, messages and the audit are shown as they were counted', async t => {
  t.hasStrict(readAll(allSources()), {
    // The last series of a histogram is its count.
    holdfast_verification_duration_seconds: { token: 1, proof: 2 },
    holdfast_replay_record_duration_seconds: { '': 3 },
    holdfast_mcp_messages_total: { '/mcp m t passed': 1 },
    holdfast_observing_seconds_left: { '': 9 },
    holdfast_audit_lines_total: { written: 3, lost: 2 },
    holdfast_audit_writable: { '': 1 }
  })
  const audit = { state: () => ({ written: 0, lost: 1, fault: 'ENOSPC' }) }
  t.hasStrict(readAll({ ...sources(), audit }), { holdfast_audit_writable: { '': 0 } })
  t.hasStrict(readAll(sources()), { holdfast_audit_lines_total: {}, holdfast_audit_writable: { '': undefined } })
})

t.test('Revocations are shown if there can be any', async t => {
  const shown = (from: MetricSources) =>
    Object.fromEntries(Object.entries(readAll(from)).filter(([name]) => name.includes('_revocation_')))
  t.strictSame(shown(sources({ revocation: revocation(0.5, true) })), {
    holdfast_revocation_events_total: { 'logout applied': 2, 'refused invalid': 1 },
    holdfast_revocation_entries: { '': 7 },
    holdfast_revocation_view_age_seconds: { '': 0.5 },
    holdfast_revocation_current: { '': 1 },
    holdfast_revocation_stream_status: {
      ...Object.fromEntries(
        STREAM_STATUSES.flatMap(status =>
          ['https://a.example', 'https://b.example'].map(name => [`${name} ${status}`, 0])
        )
      ),
      'https://a.example enabled': 1,
      'https://b.example no_subjects': 1
    },
    holdfast_revocation_stream_verified_age_seconds: { 'https://a.example': 60 },
    holdfast_revocation_answers_ended_total: { '': 6 }
  })
  const { holdfast_revocation_current: current, holdfast_revocation_view_age_seconds: age } = shown(
    sources({ revocation: revocation(Infinity, false) })
  )
  t.strictSame([current, age], [{ '': 0 }, {}])
  t.strictSame(Object.values(shown(sources())), [{}, {}, {}, {}, {}, {}, {}])
})

t.test('Refusals and introspection have an issuer label only if there may be several', async t => {
  const asked = (isComplete: boolean, ...calls: number[]) => {
    const from = sources({
      issuers: {
        isComplete,
        all: () =>
          calls.map((inFlight, index) => ({
            issuer: `https://${index}/`,
            keys: { state: () => FRESH },
            introspection: inFlight === 0 ? undefined : introspectionOf(inFlight)
          }))
      }
    })
    from.guard.refused('token_expired')
    from.guard.refused('token_expired', 'https://0/')
    from.guard.refused('token_expired', 'https://0/')
    return readAll(from)
  }
  t.hasStrict(asked(true, 1), {
    holdfast_refusals_total: { token_expired: 3, token_inactive: 0 },
    holdfast_introspection_calls_total: { active: 5, inactive: 4, failed: 3 },
    holdfast_introspection_turned_away_total: { '': 2 },
    holdfast_introspection_in_flight: { '': 1 },
    holdfast_cache_entries: { introspection: 6 },
    holdfast_cache_hits_total: { introspection: 7 },
    holdfast_cache_misses_total: { introspection: 8 }
  })
  t.hasStrict(asked(true, 1, 0, 3), {
    holdfast_refusals_total: { token_expired: 1, 'https://0/ token_expired': 2 },
    holdfast_introspection_in_flight: { 'https://0/': 1, 'https://2/': 3, 'https://1/': undefined },
    holdfast_cache_entries: { introspection: 12 }
  })
  t.hasStrict(asked(false, 1), {
    holdfast_refusals_total: { 'https://0/ token_expired': 2 },
    holdfast_keys: { 'https://0/': 1 }
  }, 'a function may name more of them')
  t.equal(
    Object.keys(asked(true, 0).holdfast_introspection_calls_total as object).length,
    0,
    'without introspection there are no series'
  )
})

t.test('Keys are not needed of an issuer of opaque tokens alone that publishes none', async t => {
  const state = { ...FRESH, keys: 0 }
  const needed = (own: Partial<KeySourceState>, needsNoKeys: boolean) =>
    readAll(
      sources({
        issuers: {
          isComplete: true,
          all: () => [{
            issuer: 'https://0/',
            keys: { state: () => ({ ...state, ...own }) },
            introspection: introspectionOf(0, needsNoKeys)
          }]
        }
      })
    ).holdfast_keys_needed
  t.strictSame(needed({}, true), { '': 0 })
  t.strictSame(needed({}, false), { '': 1 }, 'others need them')
  t.strictSame(needed({ keys: 1 }, true), { '': 1 })
  t.strictSame(needed({ passedOver: { key_use: 1 } }, true), { '': 1 }, 'it publishes keys, and none that can be used')
  t.strictSame(needed({ status: 'empty' }, true), { '': 1 }, 'what it publishes is not known yet')
})

t.test('At most 50 issuers have a label', async t => {
  const tally = createGuardTally()
  for (let turn = 0; turn < 2; turn++) for (let i = 0; i < 60; i++) tally.refused('token_expired', `https://${i}/`)
  const samples = tally.refusalsByIssuer()
  t.equal(samples.filter(({ labels }) => labels.issuer).length, 50)
  t.hasStrict(samples.find(({ labels }) => labels.reason === 'token_expired' && !labels.issuer), { value: 20 })
})

t.test('What a source does not know is absent, not zero', async t => {
  const replay = {
    state: () => ({ kind: 'redis', ready: false, reason: 'down', records: 0, seen: 0, refused: 0 })
  } as unknown as ReplayStore
  const issuers = issuersOf({
    status: 'empty',
    keys: 0,
    passedOver: {},
    fetchedAt: undefined,
    fetches: 1,
    failures: 1,
    lastFailure: 'deadline'
  })
  const outage = readAll(sources({ replay, issuers }))
  t.strictSame(outage.holdfast_replay_ready, { redis: 0 })
  for (
    const name of [
      'holdfast_replay_entries',
      'holdfast_replay_max_entries',
      'holdfast_replay_bytes',
      'holdfast_keys_age_seconds'
    ]
  ) t.strictSame(outage[name], {}, name)
  t.strictSame(readAll(sources({ issuers: issuersOf(FRESH) })).holdfast_keys_last_failure, {})
  const several = readAll(
    sources({ issuers: issuersOf(FRESH, { ...FRESH, keys: 2, failures: 3, lastFailure: 'deadline' }) })
  )
  t.hasStrict(several, {
    holdfast_keys: { 'https://0/': 1, 'https://1/': 2 },
    holdfast_keys_last_failure: { 'https://1/ deadline': 1 }
  }, 'several issuers have a label each')
  t.strictSame(METRICS.find(({ name }) => name === 'holdfast_keys_last_failure')!.read(sources({ issuers }), ''), [{
    labels: { failure: 'deadline' },
    value: 1
  }])
  const unusable = readAll(sources({ issuers: undefined }))
  for (const { name } of METRICS.filter(({ name }) => name.startsWith('holdfast_keys'))) {
    t.strictSame(unusable[name], {}, `${name} with an unusable domain`)
  }
})
