import { isJsonObject } from '../base/json.ts'
import { nameThatWasMeant } from '../base/suggestion.ts'
import { RULE, SECRET_PLACE } from './section-specs.ts'
import type { Part } from './setting-spec.ts'
import { issuerMembers, memberKey, settingNames, settingSpec, type RawSettings, type SettingName } from './specs.ts'
import { put } from './tree.ts'

/** What the sources give. */
export interface Givens {
  /** As they were written, not judged yet. */
  readonly values: RawSettings
  /**
   * Where each setting was found: `config.yaml, line 3`, `.env` or `environment`. Of a file, the parts of lists and
   * sections have places too, such as `idp.issuers[1].audience`. Options have none.
   */
  readonly places: ReadonlyMap<string, string>
  /** What is wrong with the sources themselves, reported together with problems of values. */
  readonly problems: readonly string[]
  /** A source could not be read. A value that seems to be missing may be in it. */
  readonly isUnread: boolean
  /** Variables that begin as settings do, but neither are settings nor resemble one. They cause a warning. */
  readonly unknownVariables: readonly string[]
}

/** What becomes of what is read from a file or from options. */
interface Reading {
  /** Gets the settings. */
  readonly values: object
  /** Gets what is wrong with the part at a path. */
  readonly tell: (path: string, problem: string) => void
}

type Known = ReadonlyMap<string, SettingName>

/** The settings that the configuration file and options can hold. */
export const TREE_SETTINGS: Known = new Map(
  settingNames.filter(name => settingSpec(name).from !== 'environment').map(name => [name, name])
)
/** The sections around them: `idp` and `idp.introspection` for `idp.introspection.for`. */
export const SECTIONS: ReadonlySet<string> = new Set(
  [...TREE_SETTINGS.keys()].flatMap(key => [...key.matchAll(/\./g)].map(({ index }) => key.slice(0, index)))
)

/**
 * Reads the members of a section with all that is below. A key may be written with those of its sections before it:
 * `idp.domain`. A key without a value counts as unset. Unknown keys are told.
 */
export function readMembers (section: object, reading: Reading, known = TREE_SETTINGS, path = ''): void {
  for (const [word, value] of Object.entries(section)) {
    const key = path + word
    const name = known.get(key)
    const isSection = [...known.keys()].some(other => other.startsWith(`${key}.`))
    if (name === undefined && !isSection) {
      reading.tell(key, unknown('key', key, [...path === '' ? SECTIONS : [], ...known.keys()]))
    } else if (value === undefined || value === null) continue
    else if (name !== undefined) readSetting(value, reading, key, name)
    else if (isJsonObject(value)) readMembers(value, reading, known, `${key}.`)
    else reading.tell(key, `${key} is a section: expected keys under it`)
  }
}

/**
 * The value that a text of the environment stands for. Where blanks alone separate a list, a comma is part of a text.
 * So is a line break or a tab, for which the text is then refused.
 */
export function ofVariable (name: SettingName, value: unknown): unknown {
  return settingSpec(name).blanks && typeof value === 'string' ? value.split(' ').filter(Boolean) : value
}

/** @param path how the source names the setting */
export function readSetting (value: unknown, { values, tell }: Reading, path: string, name: SettingName): void {
  if (name === 'idp.issuers' && Array.isArray(value)) {
    put(values, name, value.map((entry, index) => readEntry(entry, `${path}[${index}]`, tell)))
  } else if (isData(value)) {
    const spec: Part = settingSpec(name)
    put(values, name, spec.properties ?? spec.anyOf ? withoutUnset(spec, value) : value)
  } else tell(path, `${path} is not a text, a number, a boolean or a list; allowed: ${settingSpec(name).allowed}`)
}

/** The members of an entry are settings of `idp`. */
function readEntry (entry: unknown, path: string, tell: Reading['tell']): unknown {
  if (!isJsonObject(entry)) {
    if (isData(entry)) return entry
    return tell(path, `${path} is no section: expected keys under it`)
  }
  const values = { idp: {} }
  const known = new Map(issuerMembers.map(name => [`${path}.${memberKey(name)}`, name]))
  readMembers(entry, { values, tell }, known, `${path}.`)
  return values.idp
}

/**
 * A section whose own schema judges what is in it. A known member without a value counts as unset. Any other stays and
 * is refused, and so does one of a rule, at any depth, or of a map such as its `claims`: left out, the rule would ask
 * for less than was written.
 */
function withoutUnset (part: Part, value: unknown, isOfRule = part === RULE): unknown {
  const { items } = part
  if (Array.isArray(value)) return value.map(item => withoutUnset(items ?? part, item))
  if (items) return withoutUnset(items, value)
  if (!isJsonObject(value)) return value
  const known = membersOf(part)
  const members = Object.entries(value).flatMap(([key, member]) => {
    if (!Object.hasOwn(known, key)) return [[key, member]]
    const isUnset = member === undefined || (member === null && !isOfRule)
    return isUnset ? [] : [[key, withoutUnset(known[key]!, member, isOfRule)]]
  })
  return Object.fromEntries(members)
}

/** The members that a part may have, also as the place of a secret. Those of a map have names of their own. */
function membersOf ({ properties, placed, anyOf = [] }: Part): Readonly<Record<string, Part>> {
  if (properties) return properties
  return Object.assign({}, ...[...anyOf, ...placed ? [SECRET_PLACE] : []].map(membersOf))
}

/**
 * True for what a configuration file can hold, or leave out. A function or a promise, for example, can be neither
 * copied nor shown.
 */
function isData (value: unknown): boolean {
  if (typeof value !== 'object') return ['string', 'number', 'boolean', 'undefined'].includes(typeof value)
  if (value === null) return true
  // Another realm, such as that of a test runner, has an Object of its own, but gives it the same tag.
  return ['[object Object]', '[object Array]'].includes(Object.prototype.toString.call(value)) &&
    Object.values(value).every(isData)
}

/** The sentence about what is unknown. */
export function unknown (what: 'key' | 'variable', name: string, known: readonly string[]): string {
  const meant = nameThatWasMeant(name, known)
  return `unknown ${what} ${JSON.stringify(name)}${meant === undefined ? '' : `; did you mean ${meant}?`}`
}
