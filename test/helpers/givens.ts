import type { Givens } from '../../lib/settings/given.ts'
import type { SettingName } from '../../lib/settings/specs.ts'

/** What a source would give that holds these settings, in any form. Undefined is unset. */
export function givensOf (values: Partial<Record<SettingName, unknown>>): Givens {
  const given = Object.entries(values).filter(([, value]) => value !== undefined)
  return {
    givens: given.map(([key, value]) => ({ key: key as SettingName, value, place: 'a test' })),
    places: new Map(),
    problems: [],
    isUnread: false,
    unknownVariables: []
  }
}
