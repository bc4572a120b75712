import { isWithoutKeys, type IssuerState } from '../guard/token/issuer-table.ts'
import type { GuardParts } from './create-guard.ts'

/**
 * States that need an alarm, but the instance stays in service: keys that are still used while the provider is down,
 * issuers of which some have no keys or old ones, a store that does not say whether it forgets, and decisions that are
 * not recorded.
 */
const PASSING: ReadonlySet<string> = new Set(['ok', 'stale', 'partly', 'policy_unknown', 'losing_lines'])

interface ReadinessOptions {
  readonly isClosing: boolean
  /** The state of the record of decisions, or undefined if there is none. */
  readonly audit: { state (): { readonly fault: string | undefined } } | undefined
}

/** Whether a guard can decide about tokens and proofs, as status and body of an answer. Each check has its name. */
export function readiness (
  { issuers, replay, revocation, observing }: Pick<GuardParts, 'issuers' | 'replay' | 'revocation' | 'observing'>,
  { isClosing, audit }: ReadinessOptions
) {
  const checks = {
    process: isClosing ? 'closing' : 'ok',
    keys: keysCheck(issuers),
    replay: replayCheck(replay),
    ...revocation && { revocation: revocationCheck(revocation) },
    ...audit && { audit: audit.state().fault === undefined ? 'ok' : 'losing_lines' }
  }
  const isObserving = observing?.isOn() === true
  // While it observes, nothing that is away keeps a request out.
  const isReady = Object.values(checks).every(check => PASSING.has(check)) || (isObserving && !isClosing)
  const all = issuers?.all() ?? []
  return {
    status: isReady ? 200 as const : 503 as const,
    body: {
      status: isReady ? 'ok' : 'unavailable',
      checks,
      ...isObserving && { observing: { until: observing.lastDay } },
      ...revocation && streamsOf(revocation),
      ...all.length > 1 && { issuers: Object.fromEntries(all.map(issuer => [issuer.issuer, checkKeys(issuer)])) }
    }
  }
}

function keysCheck (issuers: GuardParts['issuers']): string {
  if (!issuers) return 'domain_has_scheme'
  // What the application may still list cannot be waited for, and one tenant must not take the others out of service.
  return issuers.isComplete ? checkAllKeys(issuers.all()) : 'ok'
}

type Revocation = NonNullable<GuardParts['revocation']>

function revocationCheck ({ revocations }: Revocation): string {
  const { isCurrent, isLoaded, fault } = revocations.state()
  return isCurrent ? 'ok' : fault ?? (isLoaded ? 'stale_view' : 'loading')
}

/** What a stream has become is for people: no instance can do better than another. */
function streamsOf ({ transmitters }: Revocation): object {
  const states = transmitters.map(({ state }) => state())
  if (states.length === 0) return {}
  return {
    streams: Object.fromEntries(
      states.map((
        { transmitter, status, verifiedAt }
      ) => [transmitter, { status, ...verifiedAt !== undefined && { verifiedAt } }])
    )
  }
}

function replayCheck (replay: GuardParts['replay']): string {
  const { ready, reason } = replay.state()
  return ready && reason !== 'policy_unknown' ? 'ok' : String(reason)
}

function checkKeys (issuer: IssuerState): string {
  const { status, keys } = issuer.keys.state()
  // Without keys its answers about tokens count, and so the address where it gives them.
  if (isWithoutKeys(issuer)) return issuer.introspection!.endpoint.isKnown() ? 'ok' : 'endpoint_unknown'
  // The provider has answered and every token is refused, so no instance may get traffic.
  if (keys === 0 && (status === 'fresh' || status === 'stale')) return 'none_usable'
  return status === 'fresh' ? 'ok' : status
}

/**
 * With one issuer the word is its own. With several, each first fetch must have ended, and one issuer must have keys.
 */
function checkAllKeys (issuers: readonly IssuerState[]): string {
  const words = issuers.map(checkKeys)
  const isPending = issuers.some(({ keys }) => {
    const { fetchedAt, failures } = keys.state()
    return fetchedAt === undefined && failures === 0
  })
  if (isPending) return 'empty'
  if (words.every(word => word === words[0])) return words[0]!
  return words.some(word => PASSING.has(word)) ? 'partly' : words.find(word => !PASSING.has(word))!
}
