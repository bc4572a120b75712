import { createCutoffs } from '../../lib/revocation/cutoffs.ts'
import { createRedisLog } from '../../lib/revocation/redis-log.ts'
import type { RedisLogOptions } from '../../lib/revocation/redis-log.ts'
import type { Owner } from './owner.ts'
import { until } from './until.ts'

/** A process with its view of the log in a Redis. */
export function startLogReader (
  t: Owner,
  { retentionSeconds, ...given }: Pick<RedisLogOptions, 'open' | 'surroundings'> & { readonly retentionSeconds: number }
) {
  const { now } = given.surroundings
  const cutoffs = createCutoffs({
    max: 100_000,
    issuers: ['https://issuer.example'],
    retentionSeconds,
    clockToleranceSeconds: 5,
    ...given.surroundings
  })
  const changes: Array<string | null> = []
  const log = createRedisLog({
    ...given,
    onEntry: cutoffs.apply,
    kept: cutoffs,
    onChange: change => {
      changes.push(change)
    }
  })
  t.teardown(() => log.close())
  return {
    ...log,
    cutoffs,
    changes,
    isRevoked: (key: string) =>
      cutoffs.revocationOf({ keys: [key], issuedAt: now() - 10, loginAt: undefined }) !== undefined,
    isLoaded: () => log.ageMs() !== Infinity,
    loaded: () => until('it is loaded', () => log.ageMs() !== Infinity)
  }
}
