import { GATE_REASONS, type GateReason } from '../../gate/gate-error.ts'
import { REFUSALS, type RefusalReason } from '../../refusal.ts'
import type { AuthScheme } from '../../guard/credentials.ts'

/** One value of a metric, with the labels that distinguish it from the others. */
export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  /** The name with its suffix, for the series of a histogram. */
  readonly metricName?: string
}

/** A sample whose value is counted up. */
type Counted = Sample & { value: number }

export type Histogram = ReturnType<typeof createHistogram>

/**
 * Counts durations by size. Counting takes a few comparisons. Labels are added only on request.
 * @param bounds upper bounds in seconds, inclusive, ascending
 */
export function createHistogram (bounds: readonly number[]) {
  const counts = new Float64Array(bounds.length + 1)
  let sum = 0

  return {
    observe (ms: number) {
      const seconds = ms / 1000
      sum += seconds
      let at = 0
      while (at < bounds.length && seconds > bounds[at]!) at++
      counts[at]!++
    },
    /**
     * The series of a Prometheus histogram: `_bucket` for each bound and `+Inf`, cumulative, then `_sum` and `_count`.
     */
    samples (name: string, labels: Sample['labels'] = {}): Sample[] {
      const series = (suffix: string, value: number, own = labels): Sample => ({
        metricName: `${name}_${suffix}`,
        labels: own,
        value
      })
      let count = 0
      const buckets = [...counts].map((own, at) => {
        count += own
        return series('bucket', count, { ...labels, le: bounds[at] ?? '+Inf' })
      })
      return [...buckets, series('sum', sum), series('count', count)]
    }
  }
}

const VERIFICATION_BOUNDS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5]
const RECORD_BOUNDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5]

export type CountedReason = RefusalReason | GateReason

export type GuardTally = ReturnType<typeof createGuardTally>

/** More issuers are counted together. The settings name no more; a function may name more in time. */
const MAX_ISSUERS = 50

/** Counts what the guard has done since the start. */
export function createGuardTally () {
  const refusals = Object.fromEntries([...Object.keys(REFUSALS), ...GATE_REASONS].map(reason => [reason, 0])) as Record<
    CountedReason,
    number
  >
  const ofIssuers = new Map<string, Map<CountedReason, number>>()
  const messages = new Map<string, Counted>()
  const observed = new Map<string, Counted>()

  /** Every text is ours or comes from the settings. JSON leaves out the labels that are undefined. */
  function count (labels: Readonly<Record<string, string | undefined>>, counts = messages) {
    const key = JSON.stringify(labels)
    const sample = counts.get(key)
    if (sample) sample.value++
    else counts.set(key, { labels: JSON.parse(key), value: 1 })
  }

  return {
    /** The numbers of refusals by reason. Every reason is present from the start. */
    refusals: refusals as Readonly<typeof refusals>,
    /** Durations of signature checks of access tokens that were not known yet. */
    tokens: createHistogram(VERIFICATION_BOUNDS),
    /** Durations of proofs that pass, from the first check to the last one before the `jti` is recorded. */
    proofs: createHistogram(VERIFICATION_BOUNDS),
    /**
     * Durations of records at a shared replay store. A record in memory takes about a microsecond and is not measured.
     */
    records: createHistogram(RECORD_BOUNDS),
    /**
     * @param issuer of the token, as the settings name it, or undefined if it was not known.
     * @param isObserved whether the request passes all the same
     */
    refused (reason: CountedReason, issuer?: string, isObserved = false) {
      if (isObserved) return count({ reason, enforced: 'false' }, observed)
      refusals[reason]++
      if (issuer === undefined || (ofIssuers.size >= MAX_ISSUERS && !ofIssuers.has(issuer))) return
      const own = ofIssuers.get(issuer) ?? new Map<CountedReason, number>()
      ofIssuers.set(issuer, own.set(reason, (own.get(reason) ?? 0) + 1))
    },
    /**
     * Counts the messages of one request for a path that reads them.
     * @param path of the rule
     * @param matches the method and the tool that each of them was found by, as the rule names them, or undefined if no
     * message could be judged.
     */
    judged (
      path: string,
      matches: ReadonlyArray<{ readonly method: string | undefined, readonly tool: string | undefined }> | undefined,
      isPassed: boolean
    ) {
      if (!matches) return count({ path, result: 'unjudged' })
      for (const { method, tool } of matches) count({ path, method, tool, result: isPassed ? 'passed' : 'refused' })
    },
    /** Refusals by reason that were not enforced. */
    observed: (): readonly Sample[] => [...observed.values()],
    /** Messages by path, method and tool of their rule, and what became of their request. */
    messages: (): readonly Sample[] => [...messages.values()],
    /**
     * The same numbers by reason and issuer. Without the label of an issuer: the refusals for which no issuer is known.
     */
    refusalsByIssuer (): Sample[] {
      const rest: Record<string, number> = { ...refusals }
      const named = [...ofIssuers].flatMap(([issuer, own]) =>
        [...own].map(([reason, value]): Sample => {
          rest[reason]! -= value
          return { labels: { issuer, reason }, value }
        })
      )
      return [...Object.entries(rest).map(([reason, value]): Sample => ({ labels: { reason }, value })), ...named]
    }
  }
}

/**
 * How a request ended. `answered`: the whole answer was sent. `client_gone`: its client went before. `upstream_failed`:
 * the upstream of a gate gave no answer, or not all of it. `upgraded`: its connection changed its protocol, and has
 * closed. `token_ended`: its open answer was ended with its token. `shutdown`: it was open when the process ended.
 */
export const REQUEST_ENDS = [
  'answered',
  'client_gone',
  'upstream_failed',
  'upgraded',
  'token_ended',
  'shutdown'
] as const
export type RequestEnd = typeof REQUEST_ENDS[number]

const DURATION_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const SCHEMES: ReadonlyArray<AuthScheme | 'none'> = ['none', 'Bearer', 'DPoP']

export type RequestTally = ReturnType<typeof createRequestTally>
type RouteTally = ReturnType<typeof createRouteTally>

/**
 * Counts requests by route, method, status, scheme and end, and their durations by route. One request costs a few tens
 * of nanoseconds.
 */
export function createRequestTally () {
  const tallies = new Map<string, Map<string, RouteTally>>()
  const all = () => [...tallies.values()].flatMap(ofMethods => [...ofMethods.values()])

  /** The requests of one route with one method. Their tally is made at the first call. */
  function ofRoute (method: string, route: string): RouteTally {
    const ofMethods = tallies.get(route) ?? new Map<string, RouteTally>()
    const known = ofMethods.get(method)
    if (known) return known
    const tally = createRouteTally({ method, route })
    tallies.set(route, ofMethods.set(method, tally))
    return tally
  }

  return {
    ofRoute,
    /**
     * The tally of requests without a route. Clients make up paths and methods, so both labels come from a small fixed
     * set.
     */
    ofUnknown: (method: string) => ofRoute(METHODS.has(method) ? method : 'other', 'unknown'),
    counts: (): Sample[] => all().flatMap(tally => [...tally.counts()]),
    durations: (name: string) => all().flatMap(tally => tally.durations(name))
  }
}

function createRouteTally (labels: { readonly method: string, readonly route: string }) {
  // The key is one small integer for each status, scheme and end.
  const counts = new Map<number, Counted>()
  const times = createHistogram(DURATION_BOUNDS)

  return {
    /**
     * Counts one request.
     * @param scheme the scheme that the client used, if credentials were read
     * @param durationMs from the first byte read to the last one sent
     */
    ended (end: RequestEnd, status: number, scheme: AuthScheme | undefined, durationMs: number) {
      const schemeOrNone = scheme ?? 'none'
      const key = (status * SCHEMES.length + SCHEMES.indexOf(schemeOrNone)) * REQUEST_ENDS.length +
        REQUEST_ENDS.indexOf(end)
      const counted = counts.get(key)
      if (counted) counted.value++
      else counts.set(key, { labels: { ...labels, status, scheme: schemeOrNone.toLowerCase(), end }, value: 1 })
      // Upgraded connections may be open for days.
      if (end !== 'upgraded') times.observe(durationMs)
    },
    counts: (): Iterable<Sample> => counts.values(),
    durations: (name: string) => counts.size === 0 ? [] : times.samples(name, labels)
  }
}
