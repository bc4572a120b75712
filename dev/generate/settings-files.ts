import { parse, stringify } from 'yaml'
import type { SettingSpec } from '../../lib/settings/setting-spec.ts'
import { settingSpec, variables, type SettingName } from '../../lib/settings/specs.ts'
import { readSections, type Section } from './sections.ts'

/**
 * The files for people and editors that are made from the descriptions of the settings. The service reads none of them.
 */

/** Without these nothing starts: the only lines that are in force. */
export const IN_FORCE: readonly SettingName[] = ['idp.domain', 'idp.audience']

export const byDefault = ({ default: given, unset }: SettingSpec) =>
  given === undefined ? unset! : [given].flat().join(', ')

/** What a line shows: the default, else an example. A list of one is shown as that one. */
function shownValue ({ default: given, example }: SettingSpec): unknown {
  const value = given ?? example
  return Array.isArray(value) && value.length === 1 ? value[0] : value
}

function remarks (spec: SettingSpec, elsewhere: string): string[] {
  return [
    `# ${spec.about}${spec.secret ? '; secret: it is never shown' : ''}`,
    `# takes: ${spec.allowed}`,
    `# default: ${byDefault(spec)}`,
    `# ${elsewhere}`
  ]
}

export function makeEnvExample (): string {
  const settings = [...variables].map(([variable, name]) => {
    const spec = settingSpec(name)
    const value = [shownValue(spec) ?? ''].flat().join(',')
    const elsewhere = spec.from === 'environment' ? 'in the environment only' : `in the configuration file: ${name}`
    return [...remarks(spec, elsewhere), `${IN_FORCE.includes(name) ? '' : '#'}${variable}=${value}`].join('\n')
  })
  return `# Every setting, for .env or the environment. Copy it to .env and change what differs. Two lines are in force; each other
# shows the default or, if there is none, an example: take its # away to set it. Without a value it counts as unset.
# No quotes and no remarks behind a value: then Docker and systemd read this file as well.

# the configuration file, if there is one
# takes: path
# default: the first of config.yaml, config.yml and config.json that is in the working directory
# in the environment only
#CONFIG_FILE=

${settings.join('\n\n')}
`
}

export function makeConfigExample (): string {
  return `# yaml-language-server: $schema=examples/settings/config.schema.json
# Every setting that the configuration file takes. Copy it to config.yaml and change what differs. Two lines are in force; each
# other shows the default or, if there is none, an example: take its # away to set it. Without a value it counts as unset.
${sectionLines(readSections(), '').join('\n')}
`
}

function sectionLines (section: Section, indent: string): string[] {
  return Object.entries(section).flatMap(([key, entry]) => {
    if (typeof entry !== 'string') return ['', `${indent}${key}:`, ...sectionLines(entry, `${indent}  `).slice(1)]
    const spec = settingSpec(entry)
    const elsewhere = spec.from === 'file' ? 'in the configuration file only' : `in the environment: ${spec.variable}`
    const line = `${IN_FORCE.includes(entry) ? '' : '#'}${key}:${yamlOf(shownValue(spec))}`
    return ['', ...[...remarks(spec, elsewhere), line].map(text => indent + text)]
  })
}

function yamlOf (value: unknown): string {
  if (value === undefined) return ''
  // As a person writes it: a word that YAML reads as a number or a boolean without quotes, for the service takes it so.
  const plain = typeof value === 'string' && String(parse(value)) === value ? parse(value) : value
  return ` ${stringify(plain, { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 }).trimEnd()}`
}
