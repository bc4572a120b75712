import { parse, stringify } from 'yaml'
import type { Part, SettingSpec } from '../../lib/settings/setting-spec.ts'
import { memberKey, settingNames, settingSpec, variables } from '../../lib/settings/specs.ts'
import type { SettingName } from '../../lib/settings/specs.ts'

/**
 * The files for people and editors that are made from the descriptions of the settings. The service reads none of them.
 */

/** Without these nothing starts: the only lines that are in force. */
export const IN_FORCE: readonly SettingName[] = ['idp.domain', 'idp.audience']

type JsonSchema = Readonly<Record<string, unknown>>

/** The keys of the configuration file as they are nested, in the order of the settings. */
export type Section = Map<string, Section | SettingName>

export function readSections (): Section {
  const root: Section = new Map()
  for (const name of settingNames.filter(name => settingSpec(name).from !== 'environment')) {
    const keys = name.split('.')
    let section = root
    for (const key of keys.slice(0, -1)) {
      if (!section.has(key)) section.set(key, new Map())
      section = section.get(key) as Section
    }
    section.set(keys.at(-1)!, name)
  }
  return root
}

const byDefault = ({ default: given, unset }: SettingSpec): string =>
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
  return [...section].flatMap(([key, entry]) => {
    if (typeof entry !== 'string') return ['', `${indent}${key}:`, ...sectionLines(entry, `${indent}  `).slice(1)]
    const spec = settingSpec(entry)
    if (spec.items?.members) {
      return [
        '',
        ...remarks(spec, 'in the configuration file only').map(text => indent + text),
        `${indent}#${key}:${yamlOf(shownValue(spec))}`
      ]
    }
    const line = `${IN_FORCE.includes(entry) ? '' : '#'}${key}:${yamlOf(shownValue(spec))}`
    return [
      '',
      ...[
        ...remarks(
          spec,
          spec.from === 'file' ? 'in the configuration file only' : `in the environment: ${spec.variable}`
        ),
        line
      ].map(text => indent + text)
    ]
  })
}

function yamlOf (value: unknown): string {
  if (value === undefined) return ''
  // As a person writes it: a word that YAML reads as a number or a boolean without quotes, for the service takes it so.
  const plain = typeof value === 'string' && String(parse(value)) === value ? parse(value) : value
  return ` ${stringify(plain, { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 }).trimEnd()}`
}

/** It accepts whatever the service accepts, as an editor reads it: of a format only the service itself can judge. */
export function makeConfigSchema (): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Configuration file of Holdfast',
    ...sectionSchema(readSections(), '#')
  }
  return `${JSON.stringify(schema, null, 2)}\n`
}

function sectionSchema (section: Section, pointer: string): JsonSchema {
  const properties = [...section].map((
    [key, entry]
  ) => [
    key,
    typeof entry === 'string' ? settingSchema(settingSpec(entry)) : sectionSchema(entry, `${pointer}/properties/${key}`)
  ])
  // A key may be written with those of its sections before it: `idp.domain: tenant.example`.
  const joined = [...section].flatMap(([key, entry]) =>
    typeof entry === 'string'
      ? []
      : pathsIn(entry).map(path => [[key, ...path].join('.'), { $ref: [pointer, key, ...path].join('/properties/') }])
  )
  return {
    type: ['object', 'null'],
    additionalProperties: false,
    properties: Object.fromEntries([...properties, ...joined])
  }
}

function pathsIn (section: Section): string[][] {
  return [...section].flatMap(([key, entry]) =>
    typeof entry === 'string' ? [[key]] : pathsIn(entry).map(path => [key, ...path])
  )
}

function settingSchema (spec: SettingSpec): JsonSchema {
  const { default: given, about, allowed, example } = spec
  return {
    description: `${about}\ntakes: ${allowed}\ndefault: ${byDefault(spec)}`,
    ...given === undefined ? {} : { default: given },
    ...example === undefined ? {} : { examples: [example] },
    anyOf: [...formsOf(spec), { type: 'null' }]
  }
}

/** Each way to write a value. A quoted value is text, and counts as what it says. */
function formsOf (schema: Part): JsonSchema[] {
  if (schema.properties) {
    return [...schema.short === undefined ? [] : formsOf(schema.properties[schema.short]!), ...partForms(schema)]
  }
  switch (schema.type) {
    case 'object':
      return [{
        type: 'object',
        ...schema.additionalProperties && { additionalProperties: { anyOf: formsOf(schema.additionalProperties) } }
      }]
    case 'array':
      return schema.items!.members
        ? [{
            type: 'array',
            minItems: schema.minItems,
            maxItems: schema.maxItems,
            items: entrySchema(schema.items!.members as SettingName[])
          }]
        : [
            { type: 'array', minItems: schema.minItems ?? 0, items: { anyOf: entryForms(schema.items!) } },
            ...textForms(schema.items!)
          ]
    case 'integer':
      return [{ type: 'integer', ...limitsOf(schema) }, { type: 'string', pattern: '^\\d{1,15}$' }]
    case 'boolean':
      return [{ type: 'boolean' }, { type: 'string', pattern: '^(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$' }]
    default:
      return schema.enum
        ? [{ enum: schema.enum.flatMap(spellings) }]
        : [{ type: 'string', ...limitsOf(schema) }, { type: 'number' }]
  }
}

/** Each member as the single setting describes it. */
function entrySchema (members: readonly SettingName[]): JsonSchema {
  const properties: Record<string, JsonSchema | { properties: Record<string, JsonSchema> }> = {}
  for (const name of members) {
    const { default: _default, ...rest } = settingSchema(settingSpec(name))
    const [key = '', inner] = memberKey(name).split('.')
    if (inner === undefined) properties[key] = rest
    else {
      ;((properties[key] ??= { type: 'object', additionalProperties: false, properties: {} }) as {
        properties: Record<string, JsonSchema>
      }).properties[inner] = rest
    }
  }
  return { type: 'object', additionalProperties: false, properties }
}

/**
 * Each way to write a part of a section that has parts. A number or boolean there is not written as text, unless digits
 * of a text count as a number.
 */
function partForms (part: Part): JsonSchema[] {
  const { type, properties, required, items, anyOf, alone, digits, additionalProperties, minItems, maxItems } = part
  if (properties) {
    const members = Object.entries(properties).map((
      [name, member]
    ) => [name, partSchema(member, required?.includes(name))])
    return [{
      type: 'object',
      ...additionalProperties === false && { additionalProperties },
      ...required && { required },
      properties: Object.fromEntries(members)
    }]
  }
  if (anyOf) return anyOf.flatMap(partForms)
  if (type === 'array') {
    return [
      { type, ...minItems && { minItems }, ...maxItems && { maxItems }, items: oneForm(partForms(items!)) },
      ...alone ? partForms(items!) : []
    ]
  }
  if (type === 'object') return [{ type, additionalProperties: oneForm(partForms(additionalProperties as Part)) }]
  if (digits || type === 'string') return formsOf(part)
  return [type ? { type, ...limitsOf(part) } : { const: part.const }]
}

/** A member without a value counts as unset. */
function partSchema (part: Part, isRequired = false): JsonSchema {
  const { about, allowed, default: given, written } = part
  const description = about + (allowed === undefined ? '' : `\ntakes: ${allowed}`)
  if (written !== undefined) return { description }
  return {
    description,
    ...given !== undefined && { default: given },
    ...oneForm([...partForms(part), ...isRequired ? [] : [{ type: 'null' }]])
  }
}

function oneForm (forms: readonly JsonSchema[]): JsonSchema {
  return forms.length === 1 ? forms[0]! : { anyOf: forms }
}

function entryForms (items: Part): JsonSchema[] {
  return items.enum ? formsOf(items) : [...formsOf(items), { type: 'boolean' }]
}

/** A list as a text, with spaces or commas between the entries. */
function textForms (items: Part): JsonSchema[] {
  if (!items.enum) return entryForms(items)
  const word = `(?:${items.enum.join('|')})`
  return [{ type: 'string', pattern: `^[\\s,]*${word}(?:[\\s,]+${word})*[\\s,]*$` }]
}

function limitsOf (
  { minimum, maximum, minLength }: { minimum?: number, maximum?: number, minLength?: number }
): JsonSchema {
  return Object.fromEntries(Object.entries({ minimum, maximum, minLength }).filter(([, limit]) => limit !== undefined))
}

/** A word, and what YAML reads in its place if that is no text. */
function spellings (word: string): unknown[] {
  const read = parse(word)
  return read === word ? [word] : [word, read]
}
