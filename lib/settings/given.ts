import { nameThatWasMeant } from '../suggestion.ts'
import { ISSUER_MEMBERS, memberKey, settingNames, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { noSettings, put } from './tree.ts'

/** A setting as a source gives it. */
export interface Given {
  readonly key: SettingName
  /** As it was written, not judged yet. */
  readonly value: unknown
  /** Where it was found: `config.yaml, line 3`, `.env`, `environment` or `options`. */
  readonly place: string
}

/** What the sources give. */
export interface Givens {
  /** Of two with the same key, the later one holds. */
  readonly givens: readonly Given[]
  /** Where a file holds the parts of lists and sections, such as `idp.issuers[1].audience`. */
  readonly places: ReadonlyMap<string, string>
  /** What is wrong with the sources themselves, reported together with problems of values. */
  readonly problems: readonly string[]
  /** A source could not be read. A value that seems to be missing may be in it. */
  readonly isUnread: boolean
  /** Variables that begin as settings do, but neither are settings nor resemble one. They cause a warning. */
  readonly unknownVariables: readonly string[]
}

/** A value as it is written: in a YAML document, or in options. */
export interface Written {
  /** Where it begins. */
  readonly place: string
  /** It leaves its setting or section unset. */
  readonly isUnset: boolean
  readonly value: unknown
  /** The number that a text of a file without quotes is, if no digit is lost. */
  readonly number?: number | undefined
  /** The members in their order, if it is a section. */
  readonly members: readonly Member[] | undefined
  /** The items, if it is a list. */
  readonly items: readonly Written[] | undefined
}

/** One member of a section. Its place is that of its key. */
export interface Member {
  readonly key: string
  readonly place: string
  readonly written: Written
}

/** What has been read so far. */
export interface Reading {
  readonly givens: Given[]
  readonly places: Map<string, string>
  readonly problems: string[]
  /** The keys of a file, which must not appear twice. */
  readonly seen?: Set<string>
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

/** The values that hold, as a tree. */
export function valuesOf ({ givens }: Pick<Givens, 'givens'>): RawSettings {
  const values = noSettings()
  for (const { key, value } of givens) put(values, key, value)
  return values
}

/** Where each setting that is given was found. */
export function originsOf ({ givens }: Pick<Givens, 'givens'>): Partial<Record<SettingName, string>> {
  return Object.fromEntries(givens.map(({ key, place }) => [key, place]))
}

export function tell ({ problems }: Reading, place: string, problem: string): void {
  problems.push(`${place}: ${problem}`)
}

/**
 * Reads the members of a section with all that is below. A key may be written with those of its sections before it:
 * `idp.domain`. Unknown keys are reported.
 * @param entry what the section gives to, if it is an entry of a list
 */
export function readMembers (
  members: readonly Member[],
  reading: Reading,
  known = TREE_SETTINGS,
  path = '',
  entry?: object
): void {
  for (const { key: word, place, written } of members) {
    const key = path + word
    const name = known.get(key)
    const isSection = [...known.keys()].some(other => other.startsWith(`${key}.`))
    const isUnset = (name !== undefined || isSection) && written.isUnset
    if (isLeftOut(key, place, isUnset, reading, entry !== undefined) || isUnset) continue
    if (name && entry) put(entry, memberKey(name), valueOf(written, reading, key, name))
    else if (name) give(written, reading, key, name, place)
    else if (isSection && written.members) readMembers(written.members, reading, known, `${key}.`, entry)
    else if (isSection && !(entry && reading.seen)) tell(reading, place, `${key} is a section: expected keys under it`)
    else tell(reading, place, unknown('key', key, [...path === '' ? SECTIONS : [], ...known.keys()]))
  }
}

/** Notes a key of a file, and reports one that appears twice. The second one in an entry of a list is left out. */
function isLeftOut (key: string, place: string, isUnset: boolean, reading: Reading, isInEntry: boolean): boolean {
  const { seen, places } = reading
  if (!seen) return false
  const isTwice = seen.has(key)
  if (isTwice) tell(reading, place, `the key ${JSON.stringify(key)} appears twice`)
  seen.add(key)
  if (isInEntry && !isUnset) places.set(key, place)
  return isTwice && isInEntry
}

/** Reads one setting. */
export function give (written: Written, reading: Reading, path: string, name: SettingName, place: string): void {
  const isTree = reading.seen && settingSpec(name).properties
  const value = isTree
    ? readTree(written, reading, path)
    : name === 'idp.issuers' && written.items
      ? written.items.map((item, index) => readEntry(item, reading, `${path}[${index}]`))
      : valueOf(written, reading, path, name)
  if (value !== undefined) reading.givens.push({ key: name, value, place })
}

function readEntry (written: Written, reading: Reading, path: string): unknown {
  if (reading.seen) reading.places.set(path, written.place)
  if (!written.members) return valueOf(written, reading, path)
  const entry = {}
  const known = new Map(ISSUER_MEMBERS.map(name => [`${path}.${memberKey(name)}`, name]))
  readMembers(written.members, reading, known, `${path}.`, entry)
  return entry
}

/**
 * Reads a section of a file whose own schema judges what is in it. A number without quotes becomes a number. Other
 * values stay as they were written. A key without a value counts as unset.
 */
function readTree (written: Written, reading: Reading, path: string): unknown {
  const { place, members, items } = written
  reading.places.set(path, place)
  if (items) return items.map((item, index) => readTree(item, reading, `${path}[${index}]`))
  if (!members) return written.number ?? written.value
  const read = new Map<string, unknown>()
  for (const { key, place, written } of members) {
    const member = `${path}.${key}`
    if (reading.places.has(member)) tell(reading, place, `the key ${JSON.stringify(member)} appears twice`)
    if (!written.isUnset) read.set(key, readTree(written, reading, member))
    reading.places.set(member, place)
  }
  return Object.fromEntries(read)
}

/** The value of a setting or, without a name, of an entry of a list. Undefined if it can be none, which is reported. */
function valueOf ({ value, place }: Written, reading: Reading, path: string, name?: SettingName): unknown {
  if (isData(value)) return value
  tell(
    reading,
    place,
    name === undefined
      ? `${path} is no section: expected keys under it`
      : `${path} is not a text, a number, a boolean or a list; allowed: ${settingSpec(name).allowed}`
  )
  return undefined
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
