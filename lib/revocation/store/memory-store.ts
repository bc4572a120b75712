import type { Surroundings } from '../../base/surroundings.ts'
import type { View } from '../view.ts'
import { mergeInto, recordOf, writeRecord, type MergeMode } from './record.ts'
import type { RevocationStore } from './store.ts'
import type { RevocationEntry } from '../entry.ts'

/** How an entry is merged. */
export function modeOf ({ effect, event }: RevocationEntry): MergeMode {
  return effect === 'undo' ? 'undo' : event === 'operator' ? 'operator' : 'event'
}

/** The store of a service of one instance: its own memory, gone when it ends. */
export function createMemoryStore (view: View, { now }: Pick<Surroundings, 'now'>): RevocationStore {
  return {
    async append (entries) {
      for (const entry of entries) {
        const seconds = view.seconds()
        const given = recordOf(entry, { heard: Math.ceil(seconds), life: view.lifeSeconds, now: now() })
        const clocks = { seconds, unixMs: Math.floor(now() * 1000) }
        const stands = mergeInto(view.recordOf(entry.key), given, modeOf(entry), clocks)
        view.take(entry.key, writeRecord(stands), 0, true)
      }
    },
    lead: async () => true,
    ageMs: () => 0,
    fault: () => undefined,
    close () {}
  }
}
