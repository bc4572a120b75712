import { settingSpec, variables, type SettingName } from '../../lib/settings/specs.ts'
import { defaultOf, sentence, wrapDocstrings } from './docstrings.ts'
import { listOf, namedTypes, partType } from './part-types.ts'
import { issuerSection, readSections, type Section } from './sections.ts'

/** The type of a setting in the shape of the file. Digits of a text may be written as a number there. */
function typeOf (name: SettingName): string {
  const spec = settingSpec(name)
  const { type, items, enum: words, format, properties, placed, short } = spec
  if (items?.type === 'object') return 'readonly IssuerOptions[] | IssuerLookup'
  if (items && placed) return `SecretOption | ${listOf('SecretOption')}`
  if (items) {
    return `${items.format === 'trusted-peer' ? 'boolean | string' : partType(items)} | ${listOf(partType(items))}`
  }
  if (type === 'object' && !properties) return 'Readonly<Record<string, string | readonly string[]>>'
  if (format === 'rate-limit') return "'off' | number"
  return [
    ...short === undefined ? [] : ['string'],
    partType(spec),
    ...(words ?? []).filter(word => /^\d+$/.test(word))
  ].join(' | ')
}

function member (name: SettingName, key: string, type: string, indent: string): string {
  const { about, allowed, unset, serviceOnly, default: given } = settingSpec(name)
  const purpose = sentence(serviceOnly ? `${about} (only the service)` : about)
  const byDefault = given === undefined ? unset : defaultOf(given)
  return `${indent}/** ${purpose}. Values: ${allowed}. Default: ${byDefault}. */\n${indent}${key}: ${type}`
}

/** A variable is text. What is written as text in code may be written as the value too. */
const orText = (type: string) => type === 'string' ? type : `${type} | Text`

/** The members of an issuer, as they are nested. */
const ISSUER = issuerSection()

/** What a section is about, for the editor. */
const SECTIONS: Readonly<Record<string, string>> = {
  idp: 'The identity provider, and which of its tokens pass.',
  introspection: 'How tokens are introspected at the provider (RFC 7662).',
  api: 'The answers of the whole service.',
  dpop: 'Which proofs pass (RFC 9449).',
  server: 'The address under which clients reach the app, and the peers that are believed.'
}

function membersOf (section: Section, indent: string): string[] {
  return Object.entries(section).map(([key, entry]) => {
    if (typeof entry === 'string') return member(entry, key, typeOf(entry), indent)
    const about = `${indent}/** ${SECTIONS[key]} */\n`
    if (key === 'introspection') return `${about}${indent}introspection: IntrospectionOptions`
    const own = Object.fromEntries(Object.entries(entry).filter(([member]) => key !== 'idp' || !(member in ISSUER)))
    const base = key === 'idp' ? 'IssuerOptions & ' : ''
    return [`${about}${indent}${key}: ${base}Optional<{`, ...membersOf(own, `${indent}  `), `${indent}}>`].join('\n')
  })
}

/** What goes with a function is no setting: a file cannot hold a function. */
function withMaxIssuers (members: string): string {
  return members.replace(
    /^( +)issuers: .*IssuerLookup.*$/m,
    `$&
$1/** The most issuers of a function in \`issuers\` that are kept; each has keys of its own. Values: integer, 1 to 100000. Default: \`5000\`. */
$1maxIssuers: number`
  )
}

/** The declarations of lib/settings/option-types.ts as the package ships them. */
export function makeOptionTypes (): string {
  const ofFile = [...variables].filter(([, name]) => settingSpec(name).from !== 'environment')
  const others = [...variables].filter(([, name]) => settingSpec(name).from === 'environment')
  return wrapDocstrings(`import type { JwsAlg } from '../guard/jose/signature.ts'
import type { ArgumentOption } from '../gate/arguments.ts'
import type { ClaimValue } from '../guard/requirement/requirement.ts'

/** Any text, as a variable holds it. An editor still proposes the words beside it. */
type Text = string & {}

/** Each member may be left out, or be undefined. */
type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined }

/** How tokens are introspected at the provider (RFC 7662). */
export interface IntrospectionOptions extends Optional<{
${membersOf(ISSUER['introspection'] as Section, '  ').join('\n')}
}> {}

/** One issuer of several. What it leaves out is taken from the option of that name beside the list. */
export interface IssuerOptions extends Optional<{
${membersOf(ISSUER, '  ').join('\n')}
}> {}

/**
 * A function of the application that names the issuers, for example one for each tenant. It gets the \`iss\` of a token
 * that is not verified yet, and answers with the options of that issuer, or with undefined if tokens of that issuer do
 * not pass.
 */
export type IssuerLookup = (iss: string) => Promise<IssuerOptions | undefined> | IssuerOptions | undefined

${namedTypes()}

/** Options in the shape of the configuration file. */
export interface FileOptions extends Optional<{
${withMaxIssuers(membersOf(readSections(), '  ').join('\n'))}
}> {}

type OptionAt<Path, Options = FileOptions> = Path extends \`\${infer Word}.\${infer Rest}\`
  ? OptionAt<Rest, NonNullable<Options[Word & keyof Options]>>
  : Options[Path & keyof Options]

/** Options under other names. What is written as text there may be written as the value too. */
type AsVariables<Paths> = { readonly [K in keyof Paths]?: OptionAt<Paths[K]> | Text | undefined }

/** Options under the names of the environment. */
export interface EnvironmentOptions extends AsVariables<{
${ofFile.map(([variable, name]) => member(name, variable, `'${name}'`, '  ')).join('\n')}
}>, Optional<{
${others.map(([variable, name]) => member(name, variable, orText(typeOf(name)), '  ')).join('\n')}
}> {}

type None<T> = { readonly [K in keyof T]?: never }

/** Those that no section has, such as proxies. */
type VariableOptions = Pick<EnvironmentOptions, ${others.map(([variable]) => `'${variable}'`).join(' | ')}>

/** Options in one of the two forms, never both. */
export type HoldfastOptions =
  | (FileOptions & VariableOptions & None<Omit<EnvironmentOptions, keyof VariableOptions>>)
  | (EnvironmentOptions & None<FileOptions>)
`)
}
