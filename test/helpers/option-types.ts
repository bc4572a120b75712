import { ISSUER_MEMBERS, memberKey, settingNames, settingSpec, variables } from '../../lib/settings/specs.ts'
import type { SettingName } from '../../lib/settings/specs.ts'
import { readSections } from './settings-files.ts'
import type { Section } from './settings-files.ts'

/** The settings that only the whole service reads. The plugin takes them, so that one object fits both. */
const OF_THE_SERVICE: ReadonlySet<SettingName> = new Set(['idp.customClaim', 'api.profile', 'api.errorBody', 'server.corsOrigins', 'server.corsHeaders', 'server.metrics', 'server.logLevel', 'server.port', 'gate', 'gateUpstream'])

/** What each option is for, said once: for the docstring in the editor and for the row of the table. */
function purposeOf (name: SettingName): { about: string, allowed: string, byDefault: string } {
  const { about, allowed, schema, unset } = settingSpec(name)
  return {
    about: OF_THE_SERVICE.has(name) ? `${about} (only the service)` : about,
    allowed,
    byDefault: schema.default === undefined ? unset! : `\`${typeof schema.default === 'object' && !Array.isArray(schema.default) ? JSON.stringify(schema.default) : [schema.default].flat().join(' ')}\``
  }
}

/** The types of sections that their own modules describe. */
const TREE_TYPES: Readonly<Record<string, string>> = { gate: 'GateOptions', revocation: 'RevocationOptions' }

const quoted = (words: readonly string[]): string => words.map(word => `'${word}'`).join(' | ')

/** The type of a value in the shape of the file. Digits of a text may be written as a number there. */
function typeOf (name: SettingName): string {
  const { schema } = settingSpec(name)
  if (schema.type === 'array') {
    const entry = schema.items.enum ? quoted(schema.items.enum) : 'string'
    const alone = schema.items.format === 'trusted-peer' ? 'boolean | string' : entry
    return `${alone} | ${entry.includes('|') ? `ReadonlyArray<${entry}>` : `readonly ${entry}[]`}`
  }
  if (schema.type === 'tree') return TREE_TYPES[name]!
  if (schema.type === 'object') return 'Readonly<Record<string, string | readonly string[]>>'
  if (schema.type === 'entries') return 'readonly IssuerOptions[] | IssuerLookup'
  if (schema.type === 'boolean') return 'boolean'
  if (schema.type === 'integer') return 'number'
  if (schema.format === 'rate-limit') return "'off' | number"
  if (!schema.enum) return 'string'
  return [quoted(schema.enum), ...schema.enum.filter(word => /^\d+$/.test(word))].join(' | ')
}

function member (name: SettingName, key: string, type: string, indent: string): string {
  const { about, allowed, byDefault } = purposeOf(name)
  return [`/** ${about[0]!.toUpperCase()}${about.slice(1)}. Values: ${allowed}. Default: ${byDefault}. */`, `readonly ${key}?: ${type} | undefined`].map(line => indent + line).join('\n')
}

/** What a section is about, for the editor. */
const SECTIONS: Readonly<Record<string, string>> = {
  idp: 'The identity provider, and which of its tokens pass.',
  introspection: 'How the provider is asked about tokens (RFC 7662).',
  api: 'The answers of the whole service.',
  dpop: 'Which proofs pass (RFC 9449).',
  server: 'The address under which clients reach the app, and the peers that are believed.'
}

/** Sections that stand in several places have a name, so that applications can name them too. */
const NAMED: Readonly<Record<string, string>> = { introspection: 'IntrospectionOptions' }

function membersOf (section: Section, indent: string): string[] {
  return [...section].map(([key, entry]) => {
    if (typeof entry === 'string') return member(entry, key, typeOf(entry), indent)
    const about = `${indent}/** ${SECTIONS[key]} */\n`
    if (key === 'idp') return [`${about}${indent}readonly idp?: IssuerOptions & {`, ...membersOf(new Map([...entry].filter(([key]) => !issuerSection().has(key))), `${indent}  `), `${indent}} | undefined`].join('\n')
    if (NAMED[key] !== undefined) return `${about}${indent}readonly ${key}?: ${NAMED[key]} | undefined`
    return [`${about}${indent}readonly ${key}?: {`, ...membersOf(entry, `${indent}  `), `${indent}} | undefined`].join('\n')
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
  return members.replace(/^( +)readonly issuers\?: .*IssuerLookup.*$/m, `$&
$1/** The most issuers of a function in \`issuers\` that are kept; each has keys of its own. Values: integer, 1 to 100000. Default: \`5000\`. */
$1readonly maxIssuers?: number | undefined`)
}

/** The source of lib/settings/option-types.ts. */
export function makeOptionTypes (): string {
  // A variable is text. What is written as text in code may be written as the value too.
  const environment = [...variables].map(([variable, name]) => {
    const { schema } = settingSpec(name)
    const type = typeOf(name)
    return member(name, variable, schema.type === 'string' && !schema.enum ? type : `${type} | Text`, '  ')
  })
  return `// Made from specs.ts: npx tap --snapshot --disable-coverage test/lib/settings/option-types.test.ts writes it anew.

import type { GateOptions } from '../gate/gate-options.ts'
import type { RevocationOptions } from '../revocation/revocation-options.ts'

/** Any text, as a variable holds it. An editor still proposes the words beside it. */
type Text = string & {}

/** How the provider is asked about tokens (RFC 7662). */
export interface IntrospectionOptions {
${membersOf(issuerSection().get('introspection') as Section, '  ').join('\n')}
}

/** One issuer of several. What it leaves out is taken from the option of that name beside the list. */
export interface IssuerOptions {
${membersOf(issuerSection(), '  ').join('\n')}
}

/**
 * A function of the application that names the issuers, for example one for each tenant. It gets the \`iss\` of a token that nobody has
 * verified yet, and answers with the options of that issuer, or with undefined if tokens of that issuer do not pass.
 */
export type IssuerLookup = (iss: string) => Promise<IssuerOptions | undefined> | IssuerOptions | undefined

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
`
}

/** The table of docs/plugin.md. */
export function makeOptionTable (): string {
  const rows = settingNames.map(name => {
    const { about, allowed, byDefault } = purposeOf(name)
    const { from, variable } = settingSpec(name)
    return `| ${from === 'environment' ? '-' : `\`${name}\``} | ${from === 'file' ? '-' : `\`${variable}\``} | ${allowed.replaceAll('|', '\\|')} | ${byDefault} | ${about} |`
  })
  return ['| option | or | values | default | what it is for |', '| --- | --- | --- | --- | --- |', ...rows].join('\n')
}
