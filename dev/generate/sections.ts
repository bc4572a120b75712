import { settingNames, settingSpec, type SettingName } from '../../lib/settings/specs.ts'

/** The keys of the configuration file as they are nested, in the order of the settings. */
export type Section = Map<string, Section | SettingName>

/** Nests settings by their keys, such as `dpop.nonce`. */
export function nested (settings: ReadonlyArray<readonly [key: string, name: SettingName]>): Section {
  const root: Section = new Map()
  for (const [path, name] of settings) {
    const keys = path.split('.')
    let section = root
    for (const key of keys.slice(0, -1)) {
      if (!section.has(key)) section.set(key, new Map())
      section = section.get(key) as Section
    }
    section.set(keys.at(-1)!, name)
  }
  return root
}

export const readSections = (): Section =>
  nested(settingNames.filter(name => settingSpec(name).from !== 'environment').map(name => [name, name]))
