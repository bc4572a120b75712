import type { SettingSpec } from './setting-spec.ts'
import type { RawSettings } from './sources.ts'
import { settingSpec } from './specs.ts'
import type { SettingName } from './specs.ts'

/** YAML has `True` and `TRUE` as well, and so has many an environment. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Gives each value the type of its schema where its text plainly is one: `true` and `false` in any case, decimal digits, a list
 * separated by spaces, commas or both. Everything else stays as it is, for validation to refuse: a validator's own
 * coercion takes `true` for 1 and `0x10` for 16.
 */
export function typedValues (values: RawSettings): RawSettings {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typed(settingSpec(name as SettingName).schema, value)]))
}

function typed (schema: SettingSpec['schema'], value: unknown): unknown {
  switch (schema.type) {
    case 'array': return typedList(value)
    case 'integer': return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    case 'boolean': return typeof value === 'string' ? BOOLEANS.get(value.toLowerCase()) ?? value : value
    case 'string': return typeof value === 'number' ? String(value) : value
  }
}

// A boolean or number may be an entry, or the only one: `trustProxy: true`.
function typedList (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(entry => isPlain(entry) ? String(entry) : entry)
  return isPlain(value) ? String(value).split(/[\s,]+/).filter(Boolean) : value
}

const isPlain = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)
