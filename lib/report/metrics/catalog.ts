import { KEY_SOURCE_STATUSES, type KeySourceState } from '../../guard/provider/key-source.ts'
import type { ClientKeys } from '../../guard/dpop/client-keys.ts'
import type { Observing } from '../../guard/observing.ts'
import type { ReplayState, ReplayStore } from '../../guard/replay/replay-store.ts'
import type { InquiryState } from '../../guard/token/inquiry.ts'
import { isWithoutKeys, type IssuerState, type IssuerTable } from '../../guard/token/issuer-table.ts'
import type { VerifiedTokens } from '../../guard/token/verified-tokens.ts'
import { STREAM_STATUSES } from '../../revocation/transmitter/stream-news.ts'
import type { Transmitter } from '../../revocation/transmitter/transmitter.ts'
import type { Revocations } from '../../revocation/revocations.ts'
import type { GuardTally, RequestTally, Sample } from './tallies.ts'

/** The state of the parts behind the guard. */
interface GuardState {
  /** Absent if the configured domain is unusable. */
  readonly issuers: Pick<IssuerTable, 'isComplete'> & { all (): readonly IssuerState[] } | undefined
  readonly replay: Pick<ReplayStore, 'state'>
  readonly verified: Pick<VerifiedTokens, 'state'>
  readonly clientKeys: Pick<ClientKeys, 'state'>
  /** Absent if each refusal is enforced from the start. */
  readonly observing?: Pick<Observing, 'secondsLeft'>
  /** Absent if nothing can be revoked. */
  readonly revocation: {
    readonly counts: ReadonlyMap<string, number>,
    readonly revocations: Pick<Revocations, 'state'>,
    readonly transmitters: ReadonlyArray<Pick<Transmitter, 'state'>>
  } | undefined
}

interface AuditState {
  readonly written: number
  readonly lost: number
  readonly fault: string | undefined
}

/** The sources of the metrics' values at the moment of a scrape. */
export interface MetricSources {
  readonly requests: Pick<RequestTally, 'counts' | 'durations'>
  readonly guard: GuardTally
  readonly parts: GuardState
  readonly connections: {
    readonly open: number,
    readonly dropped: number,
    readonly unreadable: Readonly<Record<number, number>>
  }
  /** The record of decisions, or undefined if there is none. */
  readonly audit: { state (): AuditState } | undefined
  /** The number of open answers that were ended because their token was. */
  readonly answersEnded: number
  /** The number of requests refused while the process was overloaded. */
  readonly shed: number
  /** Unix seconds. */
  readonly now: number
}

/** What a metric has at a scrape: one number, or samples with labels, or undefined if it is absent. */
type Values = number | boolean | undefined | readonly Sample[]
type Read = (sources: MetricSources, name: string) => Values

function samplesOf (values: Values): readonly Sample[] {
  if (values === undefined) return []
  return typeof values === 'object' ? values : [{ labels: {}, value: Number(values) }]
}

const metric = (type: 'counter' | 'gauge' | 'histogram') => (name: string, help: string, read: Read) => ({
  name,
  type,
  help,
  read: (sources: MetricSources, name: string) => samplesOf(read(sources, name))
})
const counter = metric('counter')
const gauge = metric('gauge')
const histogram = metric('histogram')

/** One metric of our own. */
export type MetricSpec = ReturnType<typeof counter>

const by = (label: string, values: Readonly<Record<string, number | boolean>>): readonly Sample[] =>
  Object.entries(values).map(([key, value]) => ({ labels: { [label]: key }, value: Number(value) }))

/** 1 for the current status, 0 for the others. */
const byStatus = (statuses: readonly string[], current: string): readonly Sample[] =>
  by('status', Object.fromEntries(statuses.map(status => [status, status === current])))

const ofCaches = (read: 'entries' | 'hits' | 'misses'): Read => ({ parts: { verified, clientKeys, issuers } }) => {
  const refused = (issuers?.all() ?? []).flatMap(({ introspection }) =>
    introspection ? [introspection.inquiry.state().cache[read]] : []
  )
  return by('cache', {
    tokens: verified.state()[read],
    client_keys: clientKeys.state()[read],
    ...refused.length > 0 && { introspection: refused.reduce((sum, value) => sum + value) }
  })
}

const ofReplay = (read: (state: ReplayState) => Values): Read => ({ parts }) => read(parts.replay.state())

/** Whether there may be more than one issuer. Then a label names each, as the settings name it. */
const hasSeveral = ({ issuers }: GuardState) =>
  issuers !== undefined && (!issuers.isComplete || issuers.all().length > 1)

const labelled = (label: string, value: string, values: Values): readonly Sample[] =>
  samplesOf(values).map(sample => ({ ...sample, labels: { [label]: value, ...sample.labels } }))

/** The values of each issuer. If the configured domain is unusable, there is none. */
const ofIssuers = (read: (issuer: IssuerState, now: number) => Values): Read => ({ parts, now }) =>
  (parts.issuers?.all() ?? []).flatMap(issuer => {
    const values = read(issuer, now)
    return hasSeveral(parts) ? labelled('issuer', issuer.issuer, values) : samplesOf(values)
  })

const ofKeys = (read: (state: KeySourceState, now: number) => Values): Read =>
  ofIssuers(({ keys }, now) => read(keys.state(), now))

/** The values of each issuer with introspection. */
const ofIntrospection = (read: (state: InquiryState) => Values): Read =>
  ofIssuers(({ introspection }) => introspection && read(introspection.inquiry.state()))

/** Absent if decisions are not recorded. */
const ofAudit = (read: (state: AuditState) => Values): Read => ({ audit }) => audit && read(audit.state())

/** Absent if nothing can be revoked. */
const ofRevocation = (
  read: (parts: NonNullable<GuardState['revocation']>, sources: MetricSources) => Values
): Read =>
  sources => sources.parts.revocation && read(sources.parts.revocation, sources)

/** The values of the stream of each transmitter. */
const ofStreams = (read: (state: ReturnType<Transmitter['state']>, now: number) => Values): Read =>
  ofRevocation(({ transmitters }, { now }) =>
    transmitters.map(({ state }) => state()).flatMap(state =>
      labelled('transmitter', state.transmitter, read(state, now))
    )
  )

/**
 * Every metric of our own. docs/reference/monitoring.md explains them. The metrics of the process are served beside
 * them.
 */
export const METRICS: readonly MetricSpec[] = [
  counter(
    'holdfast_requests_total',
    'Requests by method, route pattern (at a gate that of the rule), status, scheme of the credentials and end ' +
      '(answered, client_gone, upstream_failed, upgraded, token_ended, shutdown).',
    ({ requests }) => requests.counts()
  ),
  histogram(
    'holdfast_request_duration_seconds',
    'Time from reading a request to its end, by method and route pattern; without upgraded connections.',
    ({ requests }, name) => requests.durations(name)
  ),
  counter(
    'holdfast_requests_shed_total',
    'Requests answered with 503 because the process was overloaded.',
    ({ shed }) => shed
  ),
  gauge('holdfast_connections', 'Open connections.', ({ connections }) => connections.open),
  counter(
    'holdfast_connections_dropped_total',
    'Connections refused because the most that are allowed were already open.',
    ({ connections }) => connections.dropped
  ),
  counter(
    'holdfast_requests_unreadable_total',
    'Requests answered before they could be read, by status: 400 (no valid HTTP), 408 (too slow), 431 (headers ' +
      'too large).',
    ({ connections }) => by('status', connections.unreadable)
  ),
  counter(
    'holdfast_refusals_total',
    'Refused requests by reason, and if there are several issuers, by that of the token; with enforced="false" those ' +
      'that passed because of OBSERVE.',
    ({ guard, parts }) => [
      ...hasSeveral(parts) ? guard.refusalsByIssuer() : by('reason', guard.refusals),
      ...guard.observed()
    ]
  ),
  gauge(
    'holdfast_observing_seconds_left',
    'Time until refusals are enforced; 0 once they are, absent without OBSERVE.',
    ({ parts: { observing } }) => observing?.secondsLeft()
  ),
  counter(
    'holdfast_mcp_messages_total',
    'Messages of the Model Context Protocol at the gate by path, method and tool of their rule, and what became ' +
      'of their request.',
    ({ guard }) => guard.messages()
  ),
  histogram(
    'holdfast_verification_duration_seconds',
    'Kind token: time to verify the signature of an access token that was not in the cache. Kind proof: time for ' +
      'all checks of a good DPoP proof, without the record of its jti.',
    (
      { guard },
      name
    ) => [...guard.tokens.samples(name, { kind: 'token' }), ...guard.proofs.samples(name, { kind: 'proof' })]
  ),
  gauge(
    'holdfast_cache_entries',
    'Entries in the caches of verified tokens, of client keys, and of refusals by introspection.',
    ofCaches('entries')
  ),
  counter('holdfast_cache_hits_total', 'Look-ups that found an entry, by cache.', ofCaches('hits')),
  counter(
    'holdfast_cache_misses_total',
    'Look-ups that found no entry, by cache.',
    ofCaches('misses')
  ),
  gauge(
    'holdfast_replay_ready',
    '1 if the replay store could decide a record now, 0 if not, by kind of store.',
    ofReplay(({ kind, ready }) => by('kind', { [kind]: ready }))
  ),
  gauge(
    'holdfast_replay_entries',
    'Live records in the replay store; absent if the store cannot tell.',
    ofReplay(({ entries }) => entries)
  ),
  gauge(
    'holdfast_replay_max_entries',
    'Most live records that the replay store can hold; absent if it has no limit.',
    ofReplay(({ max }) => max)
  ),
  gauge(
    'holdfast_replay_bytes',
    'Memory in bytes that the records of the replay store take; absent if the store cannot tell.',
    ofReplay(({ bytes }) => bytes)
  ),
  counter(
    'holdfast_replay_records_total',
    'Records at the replay store, by outcome: first (first use), seen (a replay), undecided (503, or 429 for a ' +
      'key beyond its share).',
    ofReplay(({ records, seen, refused }) =>
      by('outcome', { first: records - seen - refused, seen, undecided: refused })
    )
  ),
  histogram(
    'holdfast_replay_record_duration_seconds',
    'Time of a record at a shared replay store; empty if the store is in memory.',
    ({ guard }, name) => guard.records.samples(name)
  ),
  gauge(
    'holdfast_keys',
    'Signing keys of the provider that are in use now.',
    ofKeys(({ keys }) => keys)
  ),
  gauge(
    'holdfast_keys_needed',
    '1, or 0 if the provider publishes no keys and needs none, because all of its tokens are opaque.',
    ofIssuers(issuer => !isWithoutKeys(issuer))
  ),
  gauge(
    'holdfast_keys_passed_over',
    'Entries of the last key set that are not used, by reason.',
    ofKeys(({ passedOver }) => by('reason', passedOver))
  ),
  gauge(
    'holdfast_keys_status',
    'State of the signing keys (empty, fresh, stale, expired): 1 for the current one, 0 for the others.',
    ofKeys(({ status }) => byStatus(KEY_SOURCE_STATUSES, status))
  ),
  gauge(
    'holdfast_keys_age_seconds',
    'Time since the last key set was fetched; absent until the first one.',
    ofKeys(({ fetchedAt }, now) => fetchedAt === undefined ? undefined : now - fetchedAt)
  ),
  counter(
    'holdfast_keys_fetches_total',
    'Fetches of the key set that were started.',
    ofKeys(({ fetches }) => fetches)
  ),
  counter(
    'holdfast_keys_fetch_failures_total',
    'Fetches of the key set that failed.',
    ofKeys(({ failures }) => failures)
  ),
  gauge(
    'holdfast_keys_last_failure',
    '1 for the reason why the last fetch of the key set failed; absent if it succeeded.',
    ofKeys(({ lastFailure }) => lastFailure === undefined ? undefined : by('failure', { [lastFailure]: 1 }))
  ),
  counter(
    'holdfast_introspection_calls_total',
    'Calls to ask the provider about a token, by result: active, inactive, failed (503).',
    ofIntrospection(({ active, inactive, failures }) => by('result', { active, inactive, failed: failures }))
  ),
  counter(
    'holdfast_introspection_turned_away_total',
    'Tokens that were not introspected, because the maximum number of calls was in flight (503).',
    ofIntrospection(({ turnedAway }) => turnedAway)
  ),
  gauge(
    'holdfast_introspection_in_flight',
    'Calls to ask the provider about a token that are under way.',
    ofIntrospection(({ inFlight }) => inFlight)
  ),
  counter(
    'holdfast_audit_lines_total',
    'Lines of the record of decisions, by outcome (written, lost); absent if decisions are not recorded.',
    ofAudit(({ written, lost }) => by('outcome', { written, lost }))
  ),
  gauge(
    'holdfast_audit_writable',
    '1 if the record of decisions can be written now, 0 if not; absent if decisions are not recorded.',
    ofAudit(({ fault }) => fault === undefined)
  ),
  counter(
    'holdfast_revocation_events_total',
    'Revocations that came in, by event and outcome (applied, unmapped, unmatched, foreign, none, unknown, state, ' +
      'invalid, unauthorized, unavailable).',
    ofRevocation(({ counts }) =>
      [...counts].map(([words, value]) => {
        const [event, outcome] = words.split(' ') as [string, string]
        return { labels: { event, outcome }, value }
      })
    )
  ),
  gauge(
    'holdfast_revocation_entries',
    'Users, sessions, tokens and others for which a cutoff, an end or a block is kept.',
    ofRevocation(({ revocations }) => revocations.state().entries)
  ),
  gauge(
    'holdfast_revocation_view_age_seconds',
    'Time since this instance last heard from the store of revocations; absent until the first time.',
    ofRevocation(({ revocations }) => {
      const { isLoaded, ageSeconds } = revocations.state()
      return isLoaded ? ageSeconds : undefined
    })
  ),
  gauge(
    'holdfast_revocation_current',
    '1 if this instance knows all revocations, 0 if not.',
    ofRevocation(({ revocations }) => revocations.state().isCurrent)
  ),
  gauge(
    'holdfast_revocation_stream_status',
    'State of the stream of each transmitter (unknown, enabled, paused, disabled, no_subjects, failing): 1 for ' +
      'the current one, 0 for the others.',
    ofStreams(({ status }) => byStatus(STREAM_STATUSES, status))
  ),
  gauge(
    'holdfast_revocation_stream_verified_age_seconds',
    'Time since the last verification of the stream of each transmitter; absent until the first one.',
    ofStreams(({ verifiedAt }, now) => verifiedAt === undefined ? undefined : now - verifiedAt)
  ),
  counter(
    'holdfast_revocation_answers_ended_total',
    'Open answers and WebSockets that were ended because their token was revoked or has expired.',
    ofRevocation((_parts, { answersEnded }) => answersEnded)
  )
]
