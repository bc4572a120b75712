import { isJsonObject } from '../base/json.ts'
import type { Part } from './setting-spec.ts'
import { FAPI_ALGS, type RawSettings } from './specs.ts'
import { SCHEMA } from './tree.ts'

/** Only these two words are accepted, in any case: YAML and environments also have `True` and `TRUE`. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Gives each value the type of its schema if its text clearly has that type: `true` and `false` in any case, decimal
 * digits, or a list separated by spaces, commas or both. Any other value stays as it is, and validation refuses it. A
 * validator's own coercion is not used: it accepts `true` for 1 and `0x10` for 16. Then it fills in what the security
 * profile makes the default.
 */
export function typedSettings (values: RawSettings): RawSettings {
  const { idp, dpop, server, ...rest } = typed(SCHEMA, values) as RawSettings
  const byDefault = server.securityProfile === 'fapi2' ? FAPI_ALGS : undefined
  return {
    ...rest,
    idp: { ...idp, algs: idp.algs ?? byDefault },
    dpop: { ...dpop, algs: dpop.algs ?? byDefault },
    server
  }
}

function typed (part: Part, value: unknown): unknown {
  const { type, items, properties, alone, short, variable, digits } = part
  if (properties) {
    const section = short !== undefined && isPlain(value) ? { [short]: value } : value
    if (!isJsonObject(section)) return section
    return Object.fromEntries(
      Object.entries(section).map((
        [key, member]
      ) => [key, Object.hasOwn(properties, key) ? typed(properties[key]!, member) : member])
    )
  }
  if (items?.properties ?? alone) {
    return Array.isArray(value)
      ? value.map(item => typed(items!, item))
      : alone && value !== undefined
        ? [typed(items!, value)]
        : value
  }
  // In a section with parts, the file and options have types already.
  if (variable === undefined && !digits) return value
  switch (type) {
    case 'array':
      return typedList(value)
    case 'object':
      return isJsonObject(value)
        ? Object.fromEntries(Object.entries(value).map(([name, list]) => [name, typedList(list)]))
        : value
    case 'integer':
      return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    case 'boolean':
      return typeof value === 'string' ? BOOLEANS.get(value.toLowerCase()) ?? value : value
    default:
      return typeof value === 'number' ? String(value) : value
  }
}

// A boolean or a number may be an entry, or the whole list: `trustProxy: true`.
function typedList (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(entry => isPlain(entry) ? String(entry) : entry)
  // A text without any entry stays, so that the message shows it.
  return isPlain(value) ? String(value).match(/[^\s,]+/g) ?? value : value
}

const isPlain = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)
