import { createCutoffs } from '../../lib/revocation/cutoffs.ts'
import { createRedisLog } from '../../lib/revocation/redis-log.ts'
import type { RedisLogOptions } from '../../lib/revocation/redis-log.ts'
import type { Owner } from './owner.ts'
import { until } from './until.ts'

/** A process with its view of the log in a Redis. @param now Unix seconds */
export function startLogReader (t: Owner, { now, ...given }: Pick<RedisLogOptions, 'open' | 'surroundings' | 'retentionSeconds'> & { readonly now: () => number }) {
  const cutoffs = createCutoffs({ max: 10_000, retentionSeconds: given.retentionSeconds, now })
  const changes: Array<string | null> = []
  const log = createRedisLog({ ...given, onEntry: cutoffs.apply, kept: cutoffs.entries, onChange: change => { changes.push(change) } })
  t.teardown(() => log.close())
  return {
    ...log,
    cutoffs,
    changes,
    isRevoked: (key: string) => cutoffs.revocationOf({ keys: [key], issuedAt: now() - 10, loginAt: undefined }) !== undefined,
    isLoaded: () => log.ageMs() !== Infinity,
    loaded: () => until('it is loaded', () => log.ageMs() !== Infinity)
  }
}
