import { KEY_SOURCE_STATUSES } from '../provider/key-source.ts'
import type { KeySource, KeySourceState } from '../provider/key-source.ts'
import type { ClientKeys } from '../dpop/client-keys.ts'
import type { ReplayStore } from '../replay/replay-store.ts'
import type { VerifiedTokens } from '../token/verified-tokens.ts'
import type { GuardTally, RequestTally } from './tallies.ts'
import type { Sample } from './histogram.ts'

/** The sources of the metrics' values at the moment of a scrape. */
export interface MetricSources {
  readonly requests: RequestTally
  readonly guard: GuardTally
  /** The parts that the guard uses. `keys` is undefined if the configured domain is unusable. */
  readonly parts: {
    readonly keys: Pick<KeySource, 'state'> | undefined
    readonly replay: Pick<ReplayStore, 'state'>
    readonly verified: Pick<VerifiedTokens, 'state'>
    readonly clientKeys: Pick<ClientKeys, 'state'>
  }
  readonly connections: { readonly open: number, readonly dropped: number }
  /** The number of requests refused while the process was overloaded. */
  readonly shed: number
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

/** One metric of our own. */
export interface MetricSpec {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly read: (sources: MetricSources, name: string) => readonly Sample[]
}

const value = (value: number | undefined): readonly Sample[] => value === undefined ? [] : [{ labels: {}, value }]

const caches = ({ parts: { verified, clientKeys } }: MetricSources, read: 'entries' | 'hits' | 'misses'): readonly Sample[] => {
  return [{ labels: { cache: 'tokens' }, value: verified.state()[read] }, { labels: { cache: 'client_keys' }, value: clientKeys.state()[read] }]
}

/** If the configured domain is unusable, there is no source of keys, so these metrics are left out. */
const keys = ({ parts }: MetricSources, read: (state: KeySourceState) => readonly Sample[]): readonly Sample[] =>
  parts.keys ? read(parts.keys.state()) : []

/** Every metric of our own. docs/operating.md explains them. The metrics of the process are served beside them. */
export const METRICS: readonly MetricSpec[] = [
  {
    name: 'holdfast_requests_total',
    type: 'counter',
    help: 'Answered requests by method, route pattern, status and scheme of the credentials.',
    read: ({ requests }) => requests.counts()
  },
  {
    name: 'holdfast_request_duration_seconds',
    type: 'histogram',
    help: 'Time from reading a request to having sent its answer, by method and route pattern.',
    read: ({ requests }, name) => requests.durations(name)
  },
  {
    name: 'holdfast_requests_shed_total',
    type: 'counter',
    help: 'Requests answered with 503 because the process was overloaded.',
    read: ({ shed }) => value(shed)
  },
  {
    name: 'holdfast_connections',
    type: 'gauge',
    help: 'Open connections.',
    read: ({ connections }) => value(connections.open)
  },
  {
    name: 'holdfast_connections_dropped_total',
    type: 'counter',
    help: 'Connections refused because the most that are allowed were already open.',
    read: ({ connections }) => value(connections.dropped)
  },
  {
    name: 'holdfast_refusals_total',
    type: 'counter',
    help: 'Refused requests by reason.',
    read: ({ guard }) => Object.entries(guard.refusals).map(([reason, value]) => ({ labels: { reason }, value }))
  },
  {
    name: 'holdfast_verification_duration_seconds',
    type: 'histogram',
    help: 'Kind token: time to verify the signature of an access token that was not in the cache. Kind proof: time for all checks of a good DPoP proof, without the record of its jti.',
    read: ({ guard }, name) => [...guard.tokens.samples(name, { kind: 'token' }), ...guard.proofs.samples(name, { kind: 'proof' })]
  },
  {
    name: 'holdfast_cache_entries',
    type: 'gauge',
    help: 'Entries in the caches of verified tokens and of client keys.',
    read: sources => caches(sources, 'entries')
  },
  {
    name: 'holdfast_cache_hits_total',
    type: 'counter',
    help: 'Look-ups that found an entry, by cache.',
    read: sources => caches(sources, 'hits')
  },
  {
    name: 'holdfast_cache_misses_total',
    type: 'counter',
    help: 'Look-ups that found no entry, by cache.',
    read: sources => caches(sources, 'misses')
  },
  {
    name: 'holdfast_replay_ready',
    type: 'gauge',
    help: '1 if the replay store could decide a record now, 0 if not, by kind of store.',
    read: ({ parts }) => {
      const { kind, ready } = parts.replay.state()
      return [{ labels: { kind }, value: ready ? 1 : 0 }]
    }
  },
  {
    name: 'holdfast_replay_entries',
    type: 'gauge',
    help: 'Live records in the replay store; absent if the store cannot tell.',
    read: ({ parts }) => value(parts.replay.state().entries)
  },
  {
    name: 'holdfast_replay_max_entries',
    type: 'gauge',
    help: 'Most live records that the replay store can hold; absent if it has no limit.',
    read: ({ parts }) => value(parts.replay.state().max)
  },
  {
    name: 'holdfast_replay_bytes',
    type: 'gauge',
    help: 'Memory in bytes that the records of the replay store take; absent if the store cannot tell.',
    read: ({ parts }) => value(parts.replay.state().bytes)
  },
  {
    name: 'holdfast_replay_records_total',
    type: 'counter',
    help: 'Records at the replay store, by outcome: first (first use), seen (a replay), undecided (503, or 429 for a key beyond its share).',
    read: ({ parts }) => {
      const { records, seen, refused } = parts.replay.state()
      return Object.entries({ first: records - seen - refused, seen, undecided: refused }).map(([outcome, value]) => ({ labels: { outcome }, value }))
    }
  },
  {
    name: 'holdfast_replay_record_duration_seconds',
    type: 'histogram',
    help: 'Time of a record at a shared replay store; empty if the store is in memory.',
    read: ({ guard }, name) => guard.records.samples(name)
  },
  {
    name: 'holdfast_keys',
    type: 'gauge',
    help: 'Signing keys of the provider that are in use now.',
    read: sources => keys(sources, state => value(state.keys))
  },
  {
    name: 'holdfast_keys_passed_over',
    type: 'gauge',
    help: 'Entries of the last key set that are not used, by reason.',
    read: sources => keys(sources, state => Object.entries(state.passedOver).map(([reason, value]) => ({ labels: { reason }, value })))
  },
  {
    name: 'holdfast_keys_status',
    type: 'gauge',
    help: 'State of the signing keys (empty, fresh, stale, expired): 1 for the current one, 0 for the others.',
    read: sources => keys(sources, state => KEY_SOURCE_STATUSES.map(status => ({ labels: { status }, value: status === state.status ? 1 : 0 })))
  },
  {
    name: 'holdfast_keys_age_seconds',
    type: 'gauge',
    help: 'Time since the last key set was fetched; absent until the first one.',
    read: sources => keys(sources, ({ fetchedAt }) => value(fetchedAt === undefined ? undefined : (sources.nowMs - fetchedAt) / 1000))
  },
  {
    name: 'holdfast_keys_fetches_total',
    type: 'counter',
    help: 'Fetches of the key set that were started.',
    read: sources => keys(sources, state => value(state.fetches))
  },
  {
    name: 'holdfast_keys_fetch_failures_total',
    type: 'counter',
    help: 'Fetches of the key set that failed.',
    read: sources => keys(sources, state => value(state.failures))
  },
  {
    name: 'holdfast_keys_last_failure',
    type: 'gauge',
    help: '1 for the reason why the last fetch of the key set failed; absent if it succeeded.',
    read: sources => keys(sources, ({ lastFailure }) => lastFailure === undefined ? [] : [{ labels: { failure: lastFailure }, value: 1 }])
  }
]
