import { settingNames, settingSpec } from '../../lib/settings/specs.ts'
import type { SettingName } from '../../lib/settings/specs.ts'

const code = (text: string): string => `\`${text}\``

function row (name: SettingName): string {
  const { variable, from, default: given, allowed, about, unset, secret } = settingSpec(name)
  const byDefault = given === undefined ? unset! : code([given].flat().join(' '))
  const purpose = secret ? `${about}. **Secret**: never shown` : about
  return `| ${from === 'file' ? '-' : code(variable)} | ${from === 'environment' ? '-' : code(name)} | ` +
    `${allowed.replaceAll('|', '\\|')} | ${byDefault} | ${purpose} |`
}

/** The table of docs/reference/settings.md. */
export const makeSettingsTable = (): string =>
  [
    '| environment | file key | values | default | what it is for |',
    '| --- | --- | --- | --- | --- |',
    ...settingNames.map(row)
  ].join('\n') + '\n'
