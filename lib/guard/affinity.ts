import { Refusal } from '../refusal.ts'
import type { Guard } from './guard.ts'

/** Nonces from before a restart, and instances that start one by one, are no fault of the balancer. */
const SETTLED_AFTER_MS = 5 * 60_000
const WINDOW_MS = 10 * 60_000
const MIN_ACCEPTED = 100
const MAX_MOVED_SHARE = 1 / 20

/** The warning for operators whose balancer sends clients from instance to instance. */
export const AFFINITY_MISSING =
  'The balancer does not keep clients at their instance, so they pay for nonces again and again. Have it choose ' +
  'the instance by the first segment of the DPoP header. ' +
  'For nginx: map $http_dpop $holdfast_client { default $http_authorization; "~^(?<key>[A-Za-z0-9_-]+)\\." $key; ' +
  '} and, first in the upstream, hash $holdfast_client consistent; ' +
  'https://github.com/holdfast/holdfast/blob/main/docs/guide/instances.md leads to the lines for HAProxy, Caddy and ' +
  'Envoy. If it cannot, set DPOP_REPLAY (dpop.replay) to a Redis that all instances share'

/** The counts of ten minutes. */
export interface MissingAffinity {
  /** DPoP requests that were accepted. */
  readonly accepted: number
  /** Requests that were refused because another instance had made the nonce. */
  readonly moved: number
}

interface AffinityOptions {
  /** Milliseconds from any start. The clock is never set back. */
  readonly nowMs: () => number
  /** Called at most once. */
  readonly onEvent: (event: { readonly name: 'affinity_missing' } & MissingAffinity) => void
}

/**
 * Watches whether the balancer keeps clients at their instance, if a nonce is good at one process only. From five
 * minutes after the start, it counts over ten minutes at a time. If at least 100 DPoP requests were accepted in them,
 * and those with a nonce of another instance are more than one in twenty of these, it reports that once, at the next
 * request, and stops counting.
 * @returns wraps a guard. All guards that it wraps are counted together.
 */
export function createAffinityWatch ({ nowMs, onEvent }: AffinityOptions): (guard: Guard) => Guard {
  let from = nowMs() + SETTLED_AFTER_MS
  let accepted = 0
  let moved = 0

  function count (isAccepted: boolean) {
    const now = nowMs()
    if (now < from) return
    if (now >= from + WINDOW_MS) {
      if (accepted >= MIN_ACCEPTED && moved > accepted * MAX_MOVED_SHARE) {
        onEvent({ name: 'affinity_missing', accepted, moved })
        from = Infinity
        return
      }
      from = now
      accepted = moved = 0
    }
    if (isAccepted) accepted++
    else moved++
  }

  return guard => (request, done) =>
    guard(request, (error, identity) => {
      if (identity?.scheme === 'DPoP') count(true)
      else if (error instanceof Refusal && error.reason === 'nonce_of_another_instance') count(false)
      done(error, identity)
    })
}
