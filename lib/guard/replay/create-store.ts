import type { Surroundings } from '../../base/surroundings.ts'
import { createMemoryStore } from './memory-store.ts'
import type { RedisFault } from '../redis/redis-faults.ts'
import { reachRedis } from '../redis/reach-redis.ts'
import type { RedisPlace } from '../redis/redis-url.ts'
import type { ReplayStore } from './replay-store.ts'

/** Reports that a store stopped or started to be usable. */
export type ReplayStoreEvent =
  | { readonly name: 'replay_unavailable', readonly reason: RedisFault, readonly hosts: readonly string[] }
  | { readonly name: 'replay_available', readonly hosts: readonly string[] }
  /** The store is used, although it is unknown whether it evicts records. */
  | { readonly name: 'replay_policy_unknown', readonly hosts: readonly string[] }

interface ReplayStoreOptions {
  /** `memory`, `off`, or a Redis: see `parseRedisUrl`. */
  readonly store: RedisPlace
  /** Maximum number of live records in the memory store. */
  readonly maxRecords: number
  readonly onEvent: (event: ReplayStoreEvent) => void
  readonly surroundings: Surroundings
}

/**
 * Makes a replay store: the memory of this process, a Redis or Valkey shared by many, or none.
 *
 * @throws Error if the URL cannot be used, or if the Redis client is not installed. See `reachRedis`.
 */
export async function createReplayStore (
  { store, maxRecords, onEvent, surroundings }: ReplayStoreOptions
): Promise<ReplayStore> {
  if (store === 'off') return createOffStore()
  if (store === 'memory') return createMemoryStore({ max: maxRecords, ...surroundings })
  const { hosts, open } = await reachRedis(store, 'DPOP_REPLAY (dpop.replay)', surroundings)
  // Loaded only if a Redis is configured.
  const { createRedisStore } = await import('./redis-store.ts')
  return createRedisStore({
    open,
    surroundings,
    onChange: reason =>
      onEvent(reason === null ? { name: 'replay_available', hosts } : { name: 'replay_unavailable', reason, hosts }),
    onPolicyUnknown: () => onEvent({ name: 'replay_policy_unknown', hosts })
  })
}

/**
 * The store of a service that does not check for replays: every record counts as the first. Then only the age of a
 * proof limits replays (RFC 9449 section 11.1).
 */
export function createOffStore (): ReplayStore {
  let records = 0
  return {
    record (_id, _jkt, _expiresAt, done) {
      records++
      done(null, true)
    },
    state: () => ({ kind: 'off', ready: true, records, seen: 0, refused: 0 }),
    close () {}
  }
}
