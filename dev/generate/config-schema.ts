import { parse } from 'yaml'
import { RULE, SECRET_PLACE } from '../../lib/settings/section-specs.ts'
import type { Part, SettingSpec } from '../../lib/settings/setting-spec.ts'
import { settingSpec } from '../../lib/settings/specs.ts'
import { issuerSection, readSections, type Section } from './sections.ts'
import { byDefault } from './settings-files.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** Where the schema of an entry of `idp.issuers` is. */
const ISSUER = '#/properties/idp/properties/issuers/anyOf/0/items'

/** It accepts whatever the service accepts, as an editor reads it: of a format only the service itself can judge. */
export function makeConfigSchema (): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Configuration file of Holdfast',
    ...sectionSchema(readSections(), '#')
  }
  // Members that are undefined are left out.
  return `${JSON.stringify(schema, null, 2)}\n`
}

/** @param isEntry whether it is an entry of a list, or in one: what it leaves out is taken from beside the list */
function sectionSchema (section: Section, pointer: string, isEntry = false): JsonSchema {
  const properties = Object.entries(section).map(([key, entry]) => [
    key,
    typeof entry === 'string'
      ? { ...settingSchema(settingSpec(entry)), ...isEntry && { default: undefined } }
      : sectionSchema(entry, `${pointer}/properties/${key}`, isEntry)
  ])
  // A key may be written with those of its sections before it: `idp.domain: tenant.example`.
  const joined = Object.entries(section).flatMap(([key, entry]) =>
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
  return Object.entries(section).flatMap(([key, entry]) =>
    typeof entry === 'string' ? [[key]] : pathsIn(entry).map(path => [key, ...path])
  )
}

function settingSchema (spec: SettingSpec): JsonSchema {
  const { default: given, about, allowed, example } = spec
  return {
    description: `${about}\ntakes: ${allowed}\ndefault: ${byDefault(spec)}`,
    default: given,
    examples: example === undefined ? undefined : [example],
    anyOf: [...formsOf(spec), ...placesOf(spec), { type: 'null' }]
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
      return schema.items!.type === 'object'
        ? [{
            type: 'array',
            minItems: schema.minItems,
            maxItems: schema.maxItems,
            items: { ...sectionSchema(issuerSection(), ISSUER, true), type: 'object' }
          }]
        : [
            {
              type: 'array',
              minItems: schema.minItems ?? 0,
              items: { anyOf: [...entryForms(schema.items!), ...placesOf(schema)] }
            },
            ...textForms(schema.items!)
          ]
    case 'integer':
      return [{ type: 'integer', ...limitsOf(schema) }, { type: 'string', pattern: '^\\d{1,15}$' }]
    case 'boolean':
      return [{ type: 'boolean' }, { type: 'string', pattern: '^(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$' }]
    default:
      if (schema.anyOf) return [...partForms(schema), { type: 'number' }]
      return schema.enum
        ? [{ enum: schema.enum.flatMap(spellings) }]
        : [{ type: 'string', ...limitsOf(schema) }, { type: 'number' }]
  }
}

/** Where a secret may be in place of its text, or of an entry of its list. */
const placesOf = ({ placed }: Part) => placed ? partForms(SECRET_PLACE) : []

/**
 * Each way to write a part of a section that has parts. A number or boolean there is not written as text, unless digits
 * of a text count as a number.
 */
function partForms (part: Part, isOfRule = part === RULE): JsonSchema[] {
  const { type, properties, required, items, anyOf, alone, digits, additionalProperties, minItems, maxItems } = part
  if (properties) {
    const members = Object.entries(properties).map((
      [name, member]
    ) => [name, partSchema(member, required?.includes(name), isOfRule)])
    return [{
      type: 'object',
      ...additionalProperties === false && { additionalProperties },
      required,
      properties: Object.fromEntries(members)
    }]
  }
  if (anyOf) return anyOf.flatMap(form => partForms(form))
  if (type === 'array') {
    return [
      { type, minItems, maxItems, items: oneForm(partForms(items!)) },
      ...alone ? partForms(items!) : []
    ]
  }
  if (type === 'object') return [{ type, additionalProperties: oneForm(partForms(additionalProperties as Part)) }]
  if (digits || type === 'string') return formsOf(part)
  return [type ? { type, ...limitsOf(part) } : { const: part.const }]
}

/** A member without a value counts as unset, but in a rule. */
function partSchema (part: Part, isRequired = false, isOfRule = false): JsonSchema {
  const { about, allowed, default: given, written } = part
  const description = about + (allowed === undefined ? '' : `\ntakes: ${allowed}`)
  if (written !== undefined) return { description }
  return {
    description,
    default: given,
    ...oneForm([
      ...partForms(part, isOfRule),
      ...placesOf(part),
      ...isRequired || isOfRule ? [] : [{ type: 'null' }]
    ])
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

function limitsOf ({ minimum, maximum, minLength }: Part): JsonSchema {
  return { minimum, maximum, minLength }
}

/** A word, and what YAML reads in its place if that is no text. */
function spellings (word: string): unknown[] {
  const read = parse(word)
  return read === word ? [word] : [word, read]
}
