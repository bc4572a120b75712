import { setTimeout as delay } from 'node:timers/promises'
import { STORE_FAULTS } from '../explain/faults.ts'
import { createReplayStore } from '../lib/replay/create-store.ts'
import { hostsOf, parseRedisUrl } from '../lib/redis/redis-url.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { reportStart } from '../lib/settings/start-report.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { fault, fine, warning } from './findings.ts'
import type { Finding } from './findings.ts'

/** The store tries again four times a second. */
const LONGEST_MS = 2000
const STEP_MS = 25

/** Opens the replay store as the service does, and waits until it would record a proof. */
export async function checkStore (settings: Settings): Promise<Finding[]> {
  const { replay } = reportStart(settings)
  if (replay === undefined) return [fine('It is not used: DPoP is switched off.')]
  if (replay.kind === 'off') {
    return [
      warning(
        'DPOP_REPLAY is off: a proof that was seen on its way can be sent again until it is too old.',
        'Use memory for one instance, or a redis:// URL for several.'
      )
    ]
  }
  if (!('hosts' in replay)) {
    return [fine('It is the memory of the process. Several instances must share a Redis (docs/guide/instances.md).')]
  }
  return checkRedis(settings.dpop.replay, { works: 'records proofs', lost: 'Requests with DPoP would get 503' })
}

/** Opens a Redis as the service does, and waits until it would record. */
export async function checkRedis (
  url: string,
  { works, lost, probeKey, cure: own }: {
    readonly works: string,
    readonly lost: string,
    readonly probeKey?: string,
    readonly cure?: string
  }
): Promise<Finding[]> {
  const where = hostsOf(parseRedisUrl(url)).join(', ')
  const store = await createReplayStore({
    store: url,
    maxRecords: 1,
    onEvent: () => {},
    surroundings: processSurroundings,
    probeKey
  })
  try {
    for (let waitedMs = 0; waitedMs < LONGEST_MS && !store.state().ready; waitedMs += STEP_MS) await delay(STEP_MS)
    const { ready, reason } = store.state()
    if (!ready) {
      const { meaning, cure } = STORE_FAULTS[reason as keyof typeof STORE_FAULTS]
      return [
        fault(
          `Redis at ${where} cannot be used: ${reason} (${meaning}). ${lost}.`,
          reason === 'auth' && own !== undefined ? own : `Do this: ${cure}.`
        )
      ]
    }
    const isUsed = fine(`Redis at ${where} ${works}.`)
    if (reason === 'policy_unknown') {
      return [
        isUsed,
        warning(
          'It does not say whether it may evict records.',
          'Give the user the right to INFO (+info), or check that maxmemory-policy is noeviction.'
        )
      ]
    }
    return [isUsed, fine('Its policy keeps what is recorded.')]
  } finally {
    await store.close()
  }
}
