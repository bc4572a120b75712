import type { FastifyPluginAsync } from 'fastify'
import { readBuild } from '../server/build.ts'
import { readTextIfThere } from '../lib/settings/sources.ts'
import { withExample } from '../schemas/answers.ts'
import { isWithoutKeys } from '../lib/token/issuer-table.ts'
import type { IssuerState } from '../lib/token/issuer-table.ts'
import { aliveSchema, readySchema } from '../schemas/operation.ts'

/**
 * States that need an alarm, but the instance stays in service: keys that are still used while the provider is down,
 * issuers of which some have no keys or old ones, a store that does not say whether it forgets, and decisions that are
 * not recorded.
 */
const PASSING: ReadonlySet<string> = new Set(['ok', 'stale', 'partly', 'policy_unknown', 'losing_lines'])

const READY = { status: 'ok', checks: { process: 'ok', keys: 'ok', replay: 'ok' } }
/** As it is until the keys have been fetched once. */
const NOT_READY = { status: 'unavailable', checks: { ...READY.checks, keys: 'empty' } }

/** `/health/live`: the process answers. `/health/ready`: it can decide about tokens and proofs. */
const routes: FastifyPluginAsync<{ ownPrefix: string }> = async (app, { ownPrefix }) => {
  const { issuers, replay, revocation, observing } = app.holdfastGuard.parts
  const { guardAudit: audit } = app
  const config = { essential: true }
  const alive = { status: 'ok', ...readBuild(import.meta.dirname, readTextIfThere, process.env.HOLDFAST_COMMIT) }

  app.get(`${ownPrefix}/health/live`, {
    config,
    schema: {
      tags: ['Operation'],
      summary: 'Whether the process answers, and which build it is',
      response: { 200: withExample(aliveSchema, alive) }
    }
  }, (_request, reply) => {
    reply.header('cache-control', 'no-store')
    return alive
  })

  app.get(`${ownPrefix}/health/ready`, {
    config,
    schema: {
      tags: ['Operation'],
      summary: 'Whether the service can decide about tokens and proofs',
      response: { 200: withExample(readySchema, READY), 503: withExample(readySchema, NOT_READY) }
    }
  }, (_request, reply) => {
    const checks = {
      process: app.closing.hasBegun ? 'closing' : 'ok',
      keys: keysCheck(),
      replay: replayCheck(),
      ...revocation && { revocation: revocationCheck() },
      ...audit && { audit: audit.state().fault === undefined ? 'ok' : 'losing_lines' }
    }
    const isObserving = observing?.isOn() === true
    // Nothing that is away keeps a request out.
    const isOpen = isObserving && checks.process === 'ok'
    const ready = isOpen || Object.values(checks).every(check => PASSING.has(check))
    reply.code(ready ? 200 : 503).header('cache-control', 'no-store')
    const all = issuers?.all() ?? []
    return {
      status: ready ? 'ok' : 'unavailable',
      checks,
      ...isObserving && { observing: { until: observing.lastDay } },
      ...revocation && streamsOf(revocation),
      ...all.length > 1 && { issuers: Object.fromEntries(all.map(issuer => [issuer.issuer, checkKeys(issuer)])) }
    }
  })

  function keysCheck (): string {
    if (!issuers) return 'domain_has_scheme'
    // What the application may still list cannot be waited for, and one tenant must not take the others out of service.
    return issuers.isComplete ? checkAllKeys(issuers.all()) : 'ok'
  }

  function revocationCheck (): string {
    const { isCurrent, isLoaded, fault } = revocation!.revocations.state()
    return isCurrent ? 'ok' : fault ?? (isLoaded ? 'stale_view' : 'loading')
  }

  /** What a stream has become is for people: no instance can do better than another. */
  function streamsOf ({ transmitters }: NonNullable<typeof revocation>): object {
    const states = transmitters.map(({ state }) => state())
    return states.length === 0
      ? {}
      : {
          streams: Object.fromEntries(
            states.map((
              { transmitter, status, verifiedAt }
            ) => [transmitter, { status, ...verifiedAt !== undefined && { verifiedAt } }])
          )
        }
  }

  function replayCheck (): string {
    const { ready, reason } = replay.state()
    return ready && reason !== 'policy_unknown' ? 'ok' : String(reason)
  }
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

export default routes
