import { JWS_ALGS } from '../../lib/jose/signature.ts'
import { LOGOUT, RULE, SECRET, SECRET_PLACE, TRANSMITTER } from '../../lib/settings/section-specs.ts'
import type { Part } from '../../lib/settings/setting-spec.ts'
import {
  ISSUER_MEMBERS,
  memberKey,
  OF_THE_SERVICE,
  SETTINGS,
  settingSpec,
  variables
} from '../../lib/settings/specs.ts'
import type { SettingName } from '../../lib/settings/specs.ts'
import { readSections } from './sections.ts'
import type { Section } from './sections.ts'

/** What each option is for, as the docstring in the editor says it. */
function purposeOf (name: SettingName): { about: string, allowed: string, byDefault: string } {
  const { about, allowed, unset, default: given } = settingSpec(name)
  return {
    about: OF_THE_SERVICE.has(name) ? `${about} (only the service)` : about,
    allowed,
    byDefault: given === undefined ? unset! : defaultOf(given)
  }
}

const defaultOf = (given: unknown): string =>
  `\`${typeof given === 'object' && !Array.isArray(given) ? JSON.stringify(given) : [given].flat().join(' ')}\``

/** A section, and a type used in several places, has a name, so that applications can name it too. */
const NAMED: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [SETTINGS.gate.properties, 'GateOptions'],
  [RULE.properties, 'GateRuleOptions'],
  [RULE.properties.mcp.properties, 'McpTargetOptions'],
  [SETTINGS.audit.properties, 'AuditOptions'],
  [SETTINGS.revocation.properties, 'RevocationOptions'],
  [TRANSMITTER.properties, 'TransmitterOptions'],
  [LOGOUT.properties, 'LogoutOptions'],
  [SECRET.anyOf, 'SecretOption'],
  [SECRET_PLACE.anyOf, 'SecretPlace']
])

const quoted = (words: readonly string[]): string => words.map(word => `'${word}'`).join(' | ')
const listOf = (type: string): string => type.includes('|') ? `ReadonlyArray<${type}>` : `readonly ${type}[]`

/** The type of a setting in the shape of the file. Digits of a text may be written as a number there. */
function typeOf (name: SettingName): string {
  const { type, items, enum: words, format, properties, placed } = settingSpec(name)
  if (items?.members) return 'readonly IssuerOptions[] | IssuerLookup'
  if (items && placed) return `SecretOption | ${listOf('SecretOption')}`
  if (items) {
    return `${items.format === 'trusted-peer' ? 'boolean | string' : partType(items)} | ${listOf(partType(items))}`
  }
  if (type === 'object' && !properties) return 'Readonly<Record<string, string | readonly string[]>>'
  if (format === 'rate-limit') return "'off' | number"
  const { short } = settingSpec(name)
  return [
    ...short === undefined ? [] : ['string'],
    partType(settingSpec(name)),
    ...(words ?? []).filter(word => /^\d+$/.test(word))
  ].join(' | ')
}

/** The type of a part, as its schema says it. */
function partType (part: Part, indent = ''): string {
  return part.placed ? 'SecretOption' : NAMED.get(part.properties ?? part.anyOf) ?? bareType(part, indent)
}

function bareType (
  { written, type, enum: words, const: value, anyOf, items, alone, properties, required, additionalProperties }: Part,
  indent = ''
): string {
  if (written !== undefined) return written
  if (words === JWS_ALGS) return 'JwsAlg'
  if (words) return quoted(words)
  if (value !== undefined) return String(value)
  if (anyOf) return anyOf.map(form => partType(form, indent)).join(' | ')
  if (items) {
    return `${alone && (items.properties ?? items.anyOf) ? `${partType(items)} | ` : ''}${listOf(partType(items))}`
  }
  if (properties) return `{\n${partMembers(properties, required, '', `${indent}  `)}\n${indent}}`
  if (additionalProperties) return `Readonly<Record<string, ${partType(additionalProperties)}>>`
  return type === 'integer' ? 'number' : type!
}

/**
 * The members of a section with parts.
 * @param orUnset what a member that may be left out may be as well
 */
function partMembers (
  properties: Readonly<Record<string, Part>>,
  required: readonly string[] = [],
  orUnset = ' | undefined',
  indent = '  '
): string {
  return Object.entries(properties).flatMap(([key, part]) => {
    // The reader of paths says itself that one is missing.
    const isNeeded = required.includes(key) || part === RULE.properties.path
    const byDefault = part.default === undefined ? '' : ` Default: ${defaultOf(part.default)}.`
    return [
      `${indent}/** ${sentence(part.about!)}.${byDefault} */`,
      `${indent}readonly ${key}${isNeeded ? '' : '?'}: ${partType(part, indent)}${isNeeded ? '' : orUnset}`
    ]
  }).join('\n')
}

/** It begins with a capital, unless its first word is a value: `false`, `fapi2`. */
const sentence = (about: string): string =>
  /^(?:true|false|fapi2)\b/.test(about) ? about : `${about[0]!.toUpperCase()}${about.slice(1)}`

function member (name: SettingName, key: string, type: string, indent: string): string {
  const { about, allowed, byDefault } = purposeOf(name)
  return [
    `/** ${sentence(about)}. Values: ${allowed}. Default: ${byDefault}. */`,
    `readonly ${key}?: ${type} | undefined`
  ].map(line => indent + line).join('\n')
}

/** What a section is about, for the editor. */
const SECTIONS: Readonly<Record<string, string>> = {
  idp: 'The identity provider, and which of its tokens pass.',
  introspection: 'How tokens are introspected at the provider (RFC 7662).',
  api: 'The answers of the whole service.',
  dpop: 'Which proofs pass (RFC 9449).',
  server: 'The address under which clients reach the app, and the peers that are believed.'
}

function membersOf (section: Section, indent: string): string[] {
  return [...section].map(([key, entry]) => {
    if (typeof entry === 'string') return member(entry, key, typeOf(entry), indent)
    const about = `${indent}/** ${SECTIONS[key]} */\n`
    if (key === 'idp') {
      return [
        `${about}${indent}readonly idp?: IssuerOptions & {`,
        ...membersOf(new Map([...entry].filter(([key]) => !issuerSection().has(key))), `${indent}  `),
        `${indent}} | undefined`
      ].join('\n')
    }
    if (key === 'introspection') return `${about}${indent}readonly introspection?: IntrospectionOptions | undefined`
    return [`${about}${indent}readonly ${key}?: {`, ...membersOf(entry, `${indent}  `), `${indent}} | undefined`].join(
      '\n'
    )
  })
}

/** The members of an issuer, as they are nested. */
function issuerSection (): Section {
  const section: Section = new Map()
  for (const name of ISSUER_MEMBERS) {
    const [key = '', inner] = memberKey(name).split('.')
    if (inner === undefined) section.set(key, name)
    else section.set(key, (section.get(key) as Section | undefined ?? new Map()).set(inner, name))
  }
  return section
}

/** What goes with a function is no setting: a file cannot hold a function. */
function withMaxIssuers (members: string): string {
  return members.replace(
    /^( +)readonly issuers\?: .*IssuerLookup.*$/m,
    `$&
$1/** The most issuers of a function in \`issuers\` that are kept; each has keys of its own. Values: integer, 1 to 100000. Default: \`5000\`. */
$1readonly maxIssuers?: number | undefined`
  )
}

/** What has a name of its own, with what it is. */
const PARTS: ReadonlyArray<readonly [about: string, name: string, part: Part]> = [
  ['One entry of `gate.rules`: the requests that it is for, and what they need.', 'GateRuleOptions', RULE],
  ['`mcp` of a rule.', 'McpTargetOptions', RULE.properties.mcp],
  ['The section `gate`.', 'GateOptions', SETTINGS.gate],
  ['The section `audit`.', 'AuditOptions', SETTINGS.audit],
  [
    'A secret as text, or where it is: a file (its last line break does not count), or a variable of the environment.',
    'SecretOption',
    SECRET
  ],
  ['Where a secret is.', 'SecretPlace', SECRET_PLACE],
  ['A transmitter of the Shared Signals Framework.', 'TransmitterOptions', TRANSMITTER],
  ['A client of a provider that sends logout tokens.', 'LogoutOptions', LOGOUT],
  ['The section `revocation`.', 'RevocationOptions', SETTINGS.revocation]
]

const WIDTH = 120

/** A comment that is too long for a line takes several. */
const wrapComments = (source: string): string =>
  source.replace(/^( *)\/\*\* (.*) \*\/$/gm, (line, indent: string, text: string) => {
    if (line.length <= WIDTH) return line
    const lines = ['']
    for (const word of text.split(' ')) {
      if (`${indent} *${lines.at(-1)} ${word}`.length > WIDTH) lines.push('')
      lines[lines.length - 1] += ` ${word}`
    }
    return `${indent}/**\n${lines.map(part => `${indent} *${part}\n`).join('')}${indent} */`
  })

/** The source of lib/settings/option-types.ts. */
export function makeOptionTypes (): string {
  // A variable is text. What is written as text in code may be written as the value too.
  const environment = [...variables].map(([variable, name]) => {
    const { type, enum: words } = settingSpec(name)
    return member(name, variable, type === 'string' && !words ? typeOf(name) : `${typeOf(name)} | Text`, '  ')
  })
  const parts = PARTS.map(([about, name, part]) =>
    part.anyOf
      ? `/** ${about} */\nexport type ${name} = ${bareType(part, '')}`
      : `/** ${about} */\nexport interface ${name} ` +
        `{\n${partMembers(part.properties!, part.required, /^(?:Gate|Mcp)/.test(name) ? ' | undefined' : '')}\n}`
  ).join('\n\n')
  return wrapComments(`// Made from specs.ts and section-specs.ts by npm run generate.

import type { JwsAlg } from '../jose/signature.ts'
import type { ClaimValue } from '../requirement/requirement.ts'

/** Any text, as a variable holds it. An editor still proposes the words beside it. */
type Text = string & {}

/** How tokens are introspected at the provider (RFC 7662). */
export interface IntrospectionOptions {
${membersOf(issuerSection().get('introspection') as Section, '  ').join('\n')}
}

/** One issuer of several. What it leaves out is taken from the option of that name beside the list. */
export interface IssuerOptions {
${membersOf(issuerSection(), '  ').join('\n')}
}

/**
 * A function of the application that names the issuers, for example one for each tenant. It gets the \`iss\` of a token
 * that is not verified yet, and answers with the options of that issuer, or with undefined if tokens of that issuer do
 * not pass.
 */
export type IssuerLookup = (iss: string) => Promise<IssuerOptions | undefined> | IssuerOptions | undefined

${parts}

/** Options in the shape of the configuration file. */
export interface FileOptions {
${withMaxIssuers(membersOf(readSections(), '  ').join('\n'))}
}

/** Options under the names of the environment. */
export interface EnvironmentOptions {
${environment.join('\n')}
}

type None<T> = { readonly [K in keyof T]?: never }

/** Options in one of the two forms, never both. */
export type HoldfastOptions = (FileOptions & None<EnvironmentOptions>) | (EnvironmentOptions & None<FileOptions>)
`)
}
