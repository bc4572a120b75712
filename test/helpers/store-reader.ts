import { createStoreClock } from '../../lib/revocation/store/clock.ts'
import { createRedisStore, type RedisStoreOptions } from '../../lib/revocation/store/redis-store.ts'
import { createView, type ViewOptions } from '../../lib/revocation/view.ts'
import type { Owner } from './owner.ts'
import { until } from './until.ts'

/** A process with its view of the store in a Redis. */
export function startStoreReader (
  t: Owner,
  { open, surroundings, staleSeconds = 10, ...given }:
    & Pick<RedisStoreOptions, 'open' | 'surroundings'>
    & { staleSeconds?: number }
    & Partial<ViewOptions>
    & Pick<ViewOptions, 'lifeSeconds'>
) {
  const { now } = surroundings
  const clock = createStoreClock(surroundings)
  const view = createView({
    max: 1_000_000,
    issuers: ['https://issuer.example'],
    clockToleranceSeconds: 5,
    now,
    ...clock,
    ...given
  })
  const changes: Array<string | null> = []
  const takenOver: string[] = []
  const store = createRedisStore({
    open,
    surroundings,
    clock,
    view,
    staleSeconds,
    onChange: change => {
      changes.push(change)
    },
    onTakeOver: () => takenOver.push('taken over')
  })
  t.teardown(() => store.close())
  return {
    ...store,
    view,
    clock,
    changes,
    takenOver,
    isRevoked: (key: string, issuedAt = now() - 10) =>
      view.revocationOf({ keys: [key], issuedAt, loginAt: undefined }) !== undefined,
    isLoaded: () => store.ageMs() !== Infinity,
    loaded: () => until('it is loaded', () => store.ageMs() !== Infinity)
  }
}
