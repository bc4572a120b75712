import { nameThatWasMeant } from '../suggestion.ts'
import type { Part } from './setting-spec.ts'
import { ISSUER_MEMBERS, memberKey, settingNames, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'

/** One member of a section, with its place in words. */
export interface Member<Node> {
  readonly key: string
  readonly node: Node
  readonly place: string
}

/** How a tree of settings is written: as nodes of a YAML document, or as values of options. */
export interface Form<Node> {
  /** The members of a section in their order. Undefined if the node is none. */
  members (node: Node): ReadonlyArray<Member<Node>> | undefined
  /** The items of a list. Undefined if the node is none. */
  items (node: Node, path: string): readonly Node[] | undefined
  /** Whether the node leaves its setting or section unset. */
  isUnset (node: Node): boolean
  /**
   * The value of a node. Undefined if it can be no value, which is then reported.
   * @param name undefined for an item of a list
   */
  value (node: Node, path: string, name: SettingName | undefined): unknown
  /** Notes a key, and reports one that appears twice. True if the second one is left out. */
  isLeftOut (path: string, place: string, isUnset: boolean, isOfEntry: boolean): boolean
  /** Whether a value in place of a section of an entry is reported as that. Otherwise its key is unknown. */
  readonly areEntriesNested: boolean
  tell (place: string, problem: string): void
}

/** The settings that the configuration file and options can hold. */
export const TREE_SETTINGS: ReadonlyMap<string, SettingName> = new Map(
  settingNames.filter(name => settingSpec(name).from !== 'environment').map(name => [name, name])
)
/** The sections around them: `idp` and `idp.introspection` for `idp.introspection.for`. */
export const SECTIONS: ReadonlySet<string> = new Set(
  [...TREE_SETTINGS.keys()].flatMap(key => [...key.matchAll(/\./g)].map(({ index }) => key.slice(0, index)))
)

/** Settings of which none is set. */
export function noSettings (): RawSettings {
  return { idp: { introspection: {} }, api: {}, dpop: {}, server: {}, proxies: {} } as RawSettings
}

/** The value of a setting, or of a member of an entry. */
export function valueAt (tree: object, path: string): unknown {
  return path.split('.').reduce<unknown>(
    (section, word) => (section as Record<string, unknown> | undefined)?.[word],
    tree
  )
}

/** Sets a setting, or a member of an entry. */
export function put (tree: object, path: string, value: unknown): void {
  const words = path.split('.')
  const last = words.pop()!
  let section = tree as Record<string, object>
  for (const word of words) section = (section[word] ??= {}) as Record<string, object>
  section[last] = value as object
}

/** The settings as one JSON schema, nested as they are. The validator gets it, and problems find their words in it. */
export function schemaOf (names: readonly SettingName[]): Part {
  const root: Part = { type: 'object' }
  for (const name of names) put(root, schemaPath(name), partOf(name))
  return root
}

/** The schema of one setting. */
export function partOf (name: SettingName): Part {
  return name === 'idp.issuers' ? { ...settingSpec(name), items: issuerSchema() } : settingSpec(name)
}

function issuerSchema (): Part {
  const entry = { ...settingSpec('idp.issuers').items }
  // What an entry leaves out is taken from the setting beside the list, not from a default of its own.
  for (const name of ISSUER_MEMBERS) {
    put(entry, schemaPath(memberKey(name)), { ...settingSpec(name), default: undefined })
  }
  return entry
}

const schemaPath = (path: string): string => `properties.${path.replaceAll('.', '.properties.')}`

/**
 * Reads the members of a section with all that is below, each setting with its place. A key may be written with those
 * of its sections before it: `idp.domain`. Unknown keys are reported.
 */
export function readMembers<Node> (
  members: ReadonlyArray<Member<Node>>,
  form: Form<Node>,
  set: (name: SettingName, value: unknown, place: string) => void,
  settings = TREE_SETTINGS,
  path = ''
): void {
  const isOfEntry = settings !== TREE_SETTINGS
  for (const { key: word, node, place } of members) {
    const key = path + word
    const name = settings.get(key)
    const isSection = [...settings.keys()].some(known => known.startsWith(`${key}.`))
    const isUnset = (name !== undefined || isSection) && form.isUnset(node)
    if (form.isLeftOut(key, place, isUnset, isOfEntry) || isUnset) continue
    const inner = isSection ? form.members(node) : undefined
    if (name) {
      const value = readValue(node, form, key, name)
      if (value !== undefined) set(name, value, place)
    } else if (inner) readMembers(inner, form, set, settings, `${key}.`)
    else if (isSection && (form.areEntriesNested || !isOfEntry)) {
      form.tell(place, `${key} is a section: expected keys under it`)
    } else form.tell(place, unknown('key', key, [...path === '' ? SECTIONS : [], ...settings.keys()]))
  }
}

/** The value of one setting. The entries of a list are trees. */
export function readValue<Node> (node: Node, form: Form<Node>, path: string, name: SettingName): unknown {
  if (name !== 'idp.issuers') return form.value(node, path, name)
  return form.items(node, path)?.map((item, index) => {
    const members = form.members(item)
    if (!members) return form.value(item, `${path}[${index}]`, undefined)
    const entry = {}
    const prefix = `${path}[${index}].`
    readMembers(
      members,
      form,
      (name, value) => put(entry, memberKey(name), value),
      new Map(ISSUER_MEMBERS.map(name => [prefix + memberKey(name), name])),
      prefix
    )
    return entry
  }) ?? form.value(node, path, name)
}

/** The sentence about what is unknown. */
export function unknown (what: 'key' | 'variable', name: string, known: readonly string[]): string {
  const meant = nameThatWasMeant(name, known)
  return `unknown ${what} ${JSON.stringify(name)}${meant === undefined ? '' : `; did you mean ${meant}?`}`
}
