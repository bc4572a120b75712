import { issuerMembers, memberKey, settingNames, settingSpec, type SettingName } from '../../lib/settings/specs.ts'
import { put } from '../../lib/settings/tree.ts'

/** The keys of the configuration file as they are nested, in the order of the settings. */
export interface Section {
  [key: string]: Section | SettingName
}

/** Nests settings by their keys, such as `dpop.nonce`. */
function nested (settings: readonly SettingName[], keyOf: (name: SettingName) => string): Section {
  const root: Section = {}
  for (const name of settings) put(root, keyOf(name), name)
  return root
}

export const readSections = () =>
  nested(settingNames.filter(name => settingSpec(name).from !== 'environment'), name => name)

/** The members of an entry of `idp.issuers`. */
export const issuerSection = () => nested(issuerMembers, memberKey)
