import { Refusal } from '../refusal.ts'
import { fetchKeySet } from './fetch-key-set.ts'
import type { FetchedKeys, ProviderAddress } from './fetch-key-set.ts'
import { createFetchLoop, LONGEST_BACK_OFF_MS } from './fetch-loop.ts'
import { createKeyRing, isSameSet, keyChanges } from './key-set.ts'
import type { PassedOver, SigningKey } from './key-set.ts'
import type { ProviderFailure, ProviderFailureWord } from './provider-failure.ts'
import { parseConfiguredJwksUri, parseIssuer } from './provider-url.ts'
import type { Transport } from './transport.ts'

/**
 * empty: no set has been fetched yet. fresh: the last fetch brought a set. stale: the last fetch failed, and the keys of
 * the last set serve on. expired: it is 24 h since the last set, and no key is trusted.
 */
export const KEY_SOURCE_STATUSES = Object.freeze(['empty', 'fresh', 'stale', 'expired'] as const)

export type KeySourceStatus = (typeof KEY_SOURCE_STATUSES)[number]

/** For health and metrics. */
export interface KeySourceState {
  readonly status: KeySourceStatus
  /** Keys that tokens are verified with now. */
  readonly keys: number
  /** Entries of the last set that are not used, by reason. */
  readonly passedOver: PassedOver
  /** When the last set was had, in ms as the source's clock counts. */
  readonly fetchedAt: number | undefined
  /** Fetches begun and fetches failed since the start. */
  readonly fetches: number
  readonly failures: number
  /** Why the last fetch failed; undefined when it did not. */
  readonly lastFailure: ProviderFailureWord | undefined
}

/** For logs: told once for each change, never for a request. */
export type KeySourceEvent =
  /** The first set, a set that differs from the one before, or the end of an outage. */
  | { readonly name: 'keys_fetched', readonly keys: number, readonly added: number, readonly removed: number, readonly passedOver: PassedOver }
  /** The first failure after a success or the start; not each of its repetitions. */
  | { readonly name: 'keys_fetch_failed', readonly failure: ProviderFailureWord, readonly detail: string | number | undefined, readonly keys: number }
  /** 24 h without a set: no key is trusted any more. */
  | { readonly name: 'keys_expired', readonly failure: ProviderFailureWord, readonly keys: number }

export type { SigningKey } from './key-set.ts'

/** Keys are never served without a refresh under way once they are this old. */
const MAX_AGE_MS = 10 * 60_000
const GRACE_MS = 24 * 60 * 60_000
const UNKNOWN_KID_GAP_MS = 30_000

const NONE: readonly SigningKey[] = Object.freeze([])

export interface KeySourceOptions {
  /** The configured issuer, as discovery must repeat it (trailing slash aside). */
  issuer: string
  /** Where the set is; without it, discovery says. */
  jwksUri?: string | undefined
  transport: Transport
  /** Milliseconds since the epoch. */
  now: () => number
  /** At least 0, less than 1: spreads the fetches of many instances. */
  random: () => number
  /** Runs `callback` once, later; returns what cancels it. */
  schedule: (callback: () => void, delayMs: number) => () => void
  onEvent?: (event: KeySourceEvent) => void
}

export interface KeySource {
  /** Fetches the keys in the background. Never throws and never waits. */
  start (): void
  /**
   * The keys at hand that may have signed a token with this `kid`; without `kid`, the keys of the set. At most 8, and the same array for
   * as long as the set stays as it is. Empty when there is none at hand. Never waits.
   */
  candidates (kid: string | undefined): readonly SigningKey[]
  /**
   * For when `candidates` gave none: the candidates after at most one fetch, shared by all who wait. Empty when the provider
   * publishes no such key, as it said now or within the last 30 s. Rejects with Refusal `keys_unavailable` when that
   * cannot be told. Without `kid` it asks anew even though keys are at hand, as seldom as for an unknown `kid`: for
   * a token which none of them has signed.
   */
  fetchCandidates (kid: string | undefined): Promise<readonly SigningKey[]>
  /** Whether a key that verified a token earlier still counts: it is in the last set, and that set is at most 24 h old. */
  isTrusted (key: SigningKey): boolean
  state (): KeySourceState
  /** Stops for good, and cuts a fetch that is under way. The keys at hand stay usable for requests that are being answered. */
  close (): Promise<void>
}

/**
 * The signing keys of one identity provider: at hand without waiting, refreshed in the background, gone at once when a fetched
 * set no longer has them, and there for 24 h when the provider is not. At most one fetch runs at a time. Requests cause one only
 * while the last one succeeded, and for unknown `kid`s at most once each 30 s; after a failure only the clock does.
 *
 * Throws TypeError for an issuer or jwksUri from which keys may not be fetched.
 */
export function createKeySource (options: KeySourceOptions): KeySource {
  const { transport, now, random, schedule, onEvent = () => {} } = options
  const address: ProviderAddress = {
    issuer: options.issuer,
    base: parseIssuer(options.issuer),
    jwksUri: options.jwksUri === undefined ? undefined : parseConfiguredJwksUri(options.jwksUri)
  }

  let ring = createKeyRing(new Map())
  let passedOver: PassedOver = {}
  let fetchedAt: number | undefined
  let trustedUntil = -Infinity
  let overdueAt = Infinity
  let askedAt = -Infinity
  let toldExpired = false

  const loop = createFetchLoop<FetchedKeys>({
    transport,
    attempt: (exchange) => fetchKeySet(address, exchange, ring.keys),
    onSuccess: adopt,
    onFailure: endure,
    now,
    random,
    schedule
  })

  function adopt (fetched: FetchedKeys, afterFailure: boolean): void {
    const { added, removed } = keyChanges(ring.keys, fetched.keys)
    const news = fetchedAt === undefined || afterFailure || added + removed > 0 ||
      JSON.stringify(passedOver) !== JSON.stringify(fetched.passedOver)
    // A set that stays keeps its ring, so that a token which none of its keys has signed is not tried against them again.
    if (!isSameSet(ring.keys, fetched.keys)) ring = createKeyRing(fetched.keys)
    passedOver = fetched.passedOver
    fetchedAt = now()
    trustedUntil = fetchedAt + GRACE_MS
    overdueAt = fetchedAt + MAX_AGE_MS
    toldExpired = false
    if (news) onEvent({ name: 'keys_fetched', keys: ring.keys.size, added, removed, passedOver })
  }

  function endure ({ word, detail }: ProviderFailure, afterFailure: boolean): void {
    overdueAt = Infinity // From now on the back-off alone asks.
    const { status, keys } = state()
    if (!afterFailure) onEvent({ name: 'keys_fetch_failed', failure: word, detail, keys })
    if (status === 'expired' && !toldExpired) {
      toldExpired = true
      onEvent({ name: 'keys_expired', failure: word, keys })
    }
  }

  /** The time, which also starts a refresh that is overdue: timers stand still while the machine sleeps or the process is frozen. */
  function refreshTime (): number {
    const at = now()
    if (at >= overdueAt) {
      overdueAt = Infinity
      loop.run()
    }
    return at
  }

  function candidates (kid: string | undefined): readonly SigningKey[] {
    return refreshTime() < trustedUntil ? ring.candidates(kid) : NONE
  }

  /**
   * After a failure the back-off alone decides when the provider is asked again. Otherwise an unknown `kid` may ask once each
   * 30 s, counted from the last time that one did: a refresh by the clock must not delay a key that is published just after
   * it. A clock that was set back does not close the door for longer.
   */
  function mayAsk (): boolean {
    if (loop.closed || loop.running !== undefined || loop.lastFailure !== undefined) return false
    const at = now()
    const sinceMs = at - askedAt
    return at >= trustedUntil || sinceMs >= UNKNOWN_KID_GAP_MS || sinceMs < 0
  }

  async function fetchCandidates (kid: string | undefined): Promise<readonly SigningKey[]> {
    const atHand = candidates(kid)
    if (kid !== undefined && atHand.length > 0) return atHand
    if (loop.running !== undefined) {
      // It may have read the set before the key was published: what it does not bring may be asked for once more.
      await loop.running
      const brought = candidates(kid)
      if (brought.length > 0 && (kid !== undefined || atHand.length === 0)) return brought
    }
    if (mayAsk()) {
      // The first fetch would come anyway: it is not on behalf of a kid.
      if (fetchedAt !== undefined) askedAt = now()
      loop.run()
    }
    await loop.running
    const found = candidates(kid)
    if (found.length === 0 && (loop.closed || loop.lastFailure !== undefined || now() >= trustedUntil)) {
      throw new Refusal('keys_unavailable', { failure: loop.lastFailure ?? 'closed' }, retryAfterSeconds())
    }
    return found
  }

  /** Until the next attempt: 1 to 60. A clock that was set back makes it seem further away than it is. */
  function retryAfterSeconds (): number {
    return Math.max(1, Math.ceil(Math.min(loop.nextAt - now(), LONGEST_BACK_OFF_MS) / 1000))
  }

  function status (): KeySourceStatus {
    if (fetchedAt === undefined) return 'empty'
    if (now() >= trustedUntil) return 'expired'
    return loop.lastFailure === undefined ? 'fresh' : 'stale'
  }

  function state (): KeySourceState {
    const { fetches, failures, lastFailure } = loop
    const current = status()
    return { status: current, keys: current === 'expired' ? 0 : ring.keys.size, passedOver, fetchedAt, fetches, failures, lastFailure }
  }

  return {
    start () {
      if (loop.fetches === 0) loop.run()
    },
    candidates,
    fetchCandidates,
    isTrusted: (key) => refreshTime() < trustedUntil && ring.has(key),
    state,
    close: loop.close
  }
}
