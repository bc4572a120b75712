import { Refusal } from '../../refusal.ts'
import type { KeySetFetch } from './fetch-key-set.ts'
import { createFetchLoop, LONGEST_BACK_OFF_MS } from './fetch-loop.ts'
import { candidatesIn, type KeySet, type PassedOver } from './key-set.ts'
import type { FailureFacts, ProviderFailure, ProviderFailureWord } from './provider-failure.ts'
import type { SigningKey } from '../jose/signed-jwt.ts'
import type { JwsAlg } from '../jose/signature.ts'
import type { Surroundings } from '../../base/surroundings.ts'

/**
 * empty: no set has been fetched yet. fresh: the last fetch brought a set. stale: the last fetch failed, and the keys
 * of the last set are still used. expired: the last set is 24 h old, and no key is trusted.
 */
export const KEY_SOURCE_STATUSES = ['empty', 'fresh', 'stale', 'expired'] as const

type KeySourceStatus = (typeof KEY_SOURCE_STATUSES)[number]

/** For health and metrics. */
export type KeySourceState = ReturnType<KeySource['state']>

/** For logs. Each change is reported once. A request reports nothing. */
export type KeySourceEvent =
  /** The first set, a set that differs from the one before, or the end of an outage. */
  | {
    readonly name: 'keys_fetched',
    readonly keys: number,
    readonly added: number,
    readonly removed: number,
    readonly passedOver: PassedOver
  }
  /** The first failure after the start or after a success. Repeated failures are not reported. */
  | {
    readonly name: 'keys_fetch_failed',
    readonly failure: ProviderFailureWord,
    readonly detail: string | number | undefined,
    readonly keys: number
  } & FailureFacts
  /** The number of keys of a file that include their private half, and are not used. */
  | { readonly name: 'keys_private', readonly passedOver: number }
  /** 24 h have passed without a set: no key is trusted any more. */
  | { readonly name: 'keys_expired', readonly failure: ProviderFailureWord, readonly keys: number }

/** If the keys are older than this, a refresh runs while they are used. */
const MAX_AGE_SECONDS = 10 * 60
const GRACE_SECONDS = 24 * 60 * 60
/** How often requests may cause a fetch: on average, and how many fetches may follow each other at once. */
const REFETCH_GAP_MS = 30_000
const REFETCH_RESERVE = 3

export interface KeySourceOptions extends Pick<Surroundings, 'now' | 'steadyMs' | 'after' | 'random'> {
  readonly fetch: KeySetFetch
  /** Milliseconds between fetches. Unless given, those of `createFetchLoop`. */
  readonly pauseMs?: number
  /** Seconds for which a set is used without another fetch. 24 h unless given. */
  readonly graceSeconds?: number
  readonly onEvent: (event: KeySourceEvent) => void
}

export type KeySource = ReturnType<typeof createKeySource>

/**
 * The signing keys of one identity provider, refreshed in the background, one fetch at a time. A key that is missing in
 * a fetched set is gone at once. If the provider is down, the keys stay for 24 h. Requests cause a fetch only if the
 * last fetch succeeded, and at most once every 30 s on average, with three fetches in reserve. After a failure only the
 * clock causes a fetch.
 */
export function createKeySource (
  { fetch, pauseMs, graceSeconds = GRACE_SECONDS, now, onEvent, ...timing }: KeySourceOptions
) {
  const { steadyMs } = timing
  let set: KeySet = { keys: [], passedOver: {} }
  let fetchedAt: number | undefined
  let trustedUntil = -Infinity
  let overdueAt = Infinity
  /** Each fetch for a request moves it by 30 s. It may be so far ahead that three follow each other at once. */
  let reservedUntilMs = -Infinity
  let reportedExpired = false

  const loop = createFetchLoop({
    attempt: signal => fetch(set.keys, signal),
    onSuccess: adopt,
    onFailure: endure,
    pauseMs: () => pauseMs,
    ...timing
  })

  function adopt (fetched: KeySet, previous: ProviderFailureWord | undefined) {
    const added = fetched.keys.filter(key => !set.keys.includes(key)).length
    const removed = set.keys.filter(key => !fetched.keys.includes(key)).length
    const news = fetchedAt === undefined || previous !== undefined || added + removed > 0 ||
      JSON.stringify(set.passedOver) !== JSON.stringify(fetched.passedOver)
    set = fetched
    fetchedAt = now()
    trustedUntil = fetchedAt + graceSeconds
    overdueAt = fetchedAt + MAX_AGE_SECONDS
    reportedExpired = false
    const { keys, passedOver } = set
    if (news) onEvent({ name: 'keys_fetched', keys: keys.length, added, removed, passedOver })
  }

  function endure ({ word, detail, facts }: ProviderFailure, previous: ProviderFailureWord | undefined) {
    const { status, keys } = state()
    if (previous === undefined) onEvent({ name: 'keys_fetch_failed', failure: word, detail, keys, ...facts })
    if (status === 'expired' && !reportedExpired) {
      reportedExpired = true
      onEvent({ name: 'keys_expired', failure: word, keys })
    }
  }

  /**
   * Returns the time, and starts an overdue refresh: timers do not run while the machine sleeps or the process is
   * frozen.
   */
  function refreshTime () {
    const at = now()
    // After a failure only the back-off plans the next fetch.
    if (at >= overdueAt && loop.lastFailure === undefined) loop.run()
    return at
  }

  function candidates (kid: string | undefined, alg: JwsAlg) {
    return refreshTime() < trustedUntil ? candidatesIn(set, kid, alg) : []
  }

  /**
   * Whether a request may cause a fetch now. Refreshes by the clock do not count: they must not delay a key that is
   * published just after them.
   */
  function takeFetch () {
    if (loop.running !== undefined || loop.lastFailure !== undefined) return false
    // The first fetch, and one after 24 h without keys, would happen anyway.
    if (now() >= trustedUntil) return true
    const until = Math.max(reservedUntilMs, steadyMs()) + REFETCH_GAP_MS
    if (until > steadyMs() + REFETCH_RESERVE * REFETCH_GAP_MS) return false
    reservedUntilMs = until
    return true
  }

  async function fetchCandidates (kid: string | undefined, alg: JwsAlg) {
    const atHand = candidates(kid, alg)
    // A fetch on its way may have read the set before the key was published. If it does not bring a key, one more fetch
    // may follow.
    await loop.running
    const brought = candidates(kid, alg)
    if (brought.some(key => !atHand.includes(key))) return brought
    if (takeFetch()) loop.run()
    await loop.running
    const found = candidates(kid, alg)
    if (found.length === 0 && (loop.closed || loop.lastFailure !== undefined || now() >= trustedUntil)) {
      throw new Refusal('keys_unavailable', {
        detail: { failure: loop.lastFailure ?? 'closed' },
        // 1 to 60: a loop that is closed has no next attempt.
        retryAfterSeconds: Math.max(1, Math.ceil(Math.min(loop.nextAtMs - steadyMs(), LONGEST_BACK_OFF_MS) / 1000))
      })
    }
    return found
  }

  function status (): KeySourceStatus {
    if (fetchedAt === undefined) return 'empty'
    if (now() >= trustedUntil) return 'expired'
    return loop.lastFailure === undefined ? 'fresh' : 'stale'
  }

  function state () {
    const { fetches, failures, lastFailure } = loop
    const { passedOver, keys: { length } } = set
    const current = status()
    return {
      status: current,
      /** The keys that tokens are verified with now. */
      keys: current === 'expired' ? 0 : length,
      /** Unused entries of the last set, by reason. */
      passedOver,
      /** When the last set arrived, in Unix seconds. */
      fetchedAt,
      /** The numbers of fetches begun and fetches failed since the start. */
      fetches,
      failures,
      /** Why the last fetch failed, or undefined if it did not fail. */
      lastFailure
    }
  }

  return {
    /** Fetches the keys in the background. Never throws and never waits. */
    start () {
      if (loop.fetches === 0) loop.run()
    },
    candidates,
    fetchCandidates,
    /**
     * Whether a key that verified a token earlier is still trusted: it is in the last set, and that set is at most 24 h
     * old.
     */
    isTrusted: (key: SigningKey) => refreshTime() < trustedUntil && set.keys.includes(key),
    state,
    /** Stops for good and cuts a running fetch. The keys at hand stay usable for requests that are being answered. */
    close: loop.close
  }
}
