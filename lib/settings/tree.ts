import type { Part } from './setting-spec.ts'
import { issuerMembers, memberKey, settingNames, settingSpec, type RawSettings, type SettingName } from './specs.ts'

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

/** Settings as one JSON schema, nested as they are. */
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
  for (const name of issuerMembers) {
    put(entry, schemaPath(memberKey(name)), { ...settingSpec(name), default: undefined })
  }
  return entry
}

/** All settings as one schema: the words of problems are in it, too. */
export const SCHEMA = schemaOf(settingNames)

function schemaPath (path: string): string {
  return `properties.${path.replaceAll('.', '.properties.')}`
}
