import { memberKey, settingNames, settingSpec } from './specs.ts'
import type { EntriesSchema } from './setting-spec.ts'
import type { SettingName } from './specs.ts'

/** The settings that the configuration file can hold, by their keys in it. */
export const SETTING_BY_KEY: ReadonlyMap<string, SettingName> = new Map(settingNames.flatMap(name => {
  const { file } = settingSpec(name)
  return file === null ? [] : [[file, name] as const]
}))

/** The sections around those keys: `idp` and `idp.introspection` for `idp.introspection.for`. */
export const SECTIONS: ReadonlySet<string> = new Set([...SETTING_BY_KEY.keys()].flatMap(key => {
  const words = key.split('.')
  return words.slice(1).map((_, index) => words.slice(0, index + 1).join('.'))
}))

/** What an object of a list can hold, by the paths of its members: `idp.issuers[1].audience`. */
export function membersUnder (path: string, { members }: EntriesSchema): ReadonlyMap<string, SettingName> {
  return new Map((members as readonly SettingName[]).map(name => [`${path}.${memberKey(name)}`, name]))
}

/** Whether a path is a section of such an object, because members are under it. */
export function hasMembers (path: string, members: ReadonlyMap<string, SettingName>): boolean {
  return [...members.keys()].some(member => member.startsWith(`${path}.`))
}
