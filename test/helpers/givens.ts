import type { Givens } from '../../lib/settings/given.ts'
import type { SettingName } from '../../lib/settings/specs.ts'
import { noSettings, put } from '../../lib/settings/tree.ts'

/** What a source would give that holds these settings, in any form. Undefined is unset. */
export function givensOf (settings: Partial<Record<SettingName, unknown>>): Givens {
  const values = noSettings()
  for (const [name, value] of Object.entries(settings)) put(values, name, value)
  return { values, places: new Map(), problems: [], isUnread: false, unknownVariables: [] }
}
