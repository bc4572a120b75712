import { STORE_FAULTS } from './explain/faults.ts'
import { createReplayStore } from '../lib/guard/replay/create-store.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { reportStart } from '../lib/settings/start-report.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { fault, fine, warning, type Finding } from './findings.ts'
import { isSoon } from './stored-revocations.ts'

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
  const store = await createReplayStore({
    store: settings.dpop.replay,
    maxRecords: 1,
    onEvent: () => {},
    surroundings: processSurroundings
  })
  try {
    await isSoon(() => store.state().ready)
    const { reason } = store.state()
    return judgeRedis(replay.hosts!, reason as RedisReason | undefined, {
      works: 'records proofs',
      lost: 'Requests with DPoP would get 503'
    })
  } finally {
    await store.close()
  }
}

/** Why a Redis cannot be used, or that it does not say whether it evicts. */
type RedisReason = keyof typeof STORE_FAULTS | 'policy_unknown'

/** What to say of a Redis. @param rights what to do if the user lacks rights, unless what is usual */
export function judgeRedis (
  hosts: readonly string[],
  reason: RedisReason | undefined,
  { works, lost, rights }: { works: string, lost: string, rights?: string }
): Finding[] {
  const where = `Redis at ${hosts.join(', ')}`
  if (reason !== undefined && reason !== 'policy_unknown') {
    const { meaning, cure } = STORE_FAULTS[reason]
    return [
      fault(
        `${where} cannot be used: ${reason} (${meaning}). ${lost}.`,
        reason === 'auth' && rights !== undefined ? rights : `Do this: ${cure}.`
      )
    ]
  }
  return [
    fine(`${where} ${works}.`),
    reason === undefined
      ? fine('Its policy keeps what is recorded.')
      : warning(
        'It does not say whether it may evict records.',
        'Give the user the right to INFO (+info), or check that maxmemory-policy is noeviction.'
      )
  ]
}
