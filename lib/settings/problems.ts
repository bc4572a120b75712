import { inspect } from 'node:util'
import { entryProblems, introspectionLacks } from './issuer-settings.ts'
import { entryPath, profileBreaches } from './security-profile.ts'
import { isEntry } from './setting-spec.ts'
import { memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { findScopeCircle } from '../token/implied-scopes.ts'
import type { ScopeImplications } from '../token/implied-scopes.ts'

/** Bad settings: one message with a line for each problem. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError'
  readonly problems: readonly string[]

  constructor (problems: readonly string[]) {
    super(`The settings are not usable:\n${problems.map(problem => `  - ${problem}`).join('\n')}`)
    this.problems = problems
  }

  /** fastify-cli prints the error as it is. An operator reads it, and the fault is not in the code, so it has no stack. */
  [inspect.custom] (): string {
    return this.message
  }
}

/** One error of the schema's validator: the members of Ajv's `ErrorObject` that are read. */
export interface SchemaError {
  readonly instancePath: string
}

const MAX_SHOWN_CHARS = 200

/** What is known of the sources of the values. */
export interface SourceNotes {
  /** Nothing can be said about missing values. */
  readonly isFileUnread: boolean
  /** Where the file holds the parts of lists, such as `idp.issuers[1].audience`, in words. */
  readonly places?: ReadonlyMap<string, string> | undefined
  /** A function of the application names the issuers. */
  readonly areIssuersAsked?: boolean
}

/**
 * Returns a line for each value that the schema refuses, and for each value that is missing or contradictory by other rules.
 * @param values typed as far as their text allows
 */
export function describeProblems (values: RawSettings, errors: readonly SchemaError[], notes: SourceNotes): string[] {
  const bad = new Set(errors.map(({ instancePath }) => instancePath.split('/').slice(1, 4).join('/')))
  return [
    ...new Set([...bad].map(path => refused(values, path.split('/'), notes))),
    ...(notes.isFileUnread ? [] : missing(values, notes)),
    ...issuerProblems(values, notes),
    ...introspectionProblems(values, notes),
    ...dpopContradictions(values),
    ...profileProblems(values, notes),
    ...certificateProblems(values),
    ...([...bad].some(path => path.startsWith('IDP_SCOPE_IMPLIES')) ? [] : scopeCircles(values)),
    ...wordsThatStandAlone(values)
  ]
}

function refused (values: RawSettings, [name, index, member]: readonly string[], { places }: SourceNotes): string {
  const { schema, file } = settingSpec(name as SettingName)
  const entries = values[name as SettingName]
  if (schema.type !== 'entries' || index === undefined) return `${held(values, name as SettingName)}; allowed: ${settingSpec(name as SettingName).allowed}`
  const entry = (entries as readonly RawSettings[])[Number(index)]
  if (member === undefined) return placed(places, `${file}[${index}]`, `${file}[${index}] is ${shown(entry, false)}; allowed: an object`)
  const spec = settingSpec(member as SettingName)
  const path = `${file}[${index}].${memberKey(member as SettingName)}`
  return placed(places, path, `${path} is ${spec.secret ? 'not usable (its value is not shown)' : shown(entry![member as SettingName], spec.schema.type === 'array')}; allowed: ${spec.allowed}`)
}

function placed (places: SourceNotes['places'], path: string, problem: string): string {
  const place = places?.get(path)
  return place === undefined ? problem : `${place}: ${problem}`
}

function missing (values: RawSettings, { areIssuersAsked }: SourceNotes): string[] {
  if (areIssuersAsked || values.IDP_ISSUERS !== undefined) return []
  const names: SettingName[] = []
  if (values.IDP_DOMAIN === undefined && values.IDP_ISSUER === undefined) names.push('IDP_DOMAIN')
  if (values.IDP_AUDIENCE === undefined) names.push('IDP_AUDIENCE')
  return names.map(name => `${nameOf(name)} is not set; allowed: ${settingSpec(name).allowed}`)
}

function issuerProblems (values: RawSettings, { places, areIssuersAsked }: SourceNotes): string[] {
  const { IDP_ISSUERS: list } = values
  const problems: string[] = []
  if (list !== undefined || areIssuersAsked) {
    const single = (['IDP_DOMAIN', 'IDP_ISSUER'] as const).filter(name => values[name] !== undefined)
    problems.push(...single.map(name => `${held(values, name)}, but idp.issuers is set too: only one of them can say who issues tokens`))
  }
  if (!Array.isArray(list)) return problems
  return [...problems, ...entryProblems(list.map(item => isEntry(item) ? item : undefined), values).map(({ path, problem }) => placed(places, path, problem))]
}

/** What introspection needs, by the single settings. For a list, entryProblems tells it. */
function introspectionProblems (values: RawSettings, { areIssuersAsked }: SourceNotes): string[] {
  if (values.IDP_ISSUERS !== undefined || areIssuersAsked) return []
  return introspectionLacks(values, {}).map(name => `${nameOf(name)} is not set; ${settingSpec(name).unset}`)
}

function dpopContradictions (values: RawSettings): string[] {
  const { DPOP_ENABLED: enabled, DPOP_REQUIRED: required, IDP_DPOP_MODE: mode } = values
  const pairs: Array<[SettingName, SettingName, boolean]> = [
    ['DPOP_ENABLED', 'DPOP_REQUIRED', enabled === false && required === true],
    ['DPOP_ENABLED', 'IDP_DPOP_MODE', enabled === false && (mode === 'ALLOWED' || mode === 'REQUIRED')],
    ['DPOP_ENABLED', 'IDP_DPOP_MODE', enabled === true && mode === 'DISABLED'],
    ['DPOP_REQUIRED', 'IDP_DPOP_MODE', required === true && (mode === 'ALLOWED' || mode === 'DISABLED')],
    ['DPOP_REQUIRED', 'IDP_DPOP_MODE', required === false && mode === 'REQUIRED']
  ]
  return pairs.filter(([, , contradict]) => contradict).map(([a, b]) => `${held(values, a)} and ${held(values, b)}: they contradict each other`)
}

function profileProblems (values: RawSettings, { places }: SourceNotes): string[] {
  return profileBreaches(values).map(({ name, index, allowed }) => {
    const rest = `, but ${nameOf('SECURITY_PROFILE')} is fapi2; allowed: ${allowed}`
    if (index === undefined) return held(values, name) + rest
    const path = entryPath(name, index)
    return placed(places, path, `${path} is ${shown((values.IDP_ISSUERS as readonly RawSettings[])[index]![name], true)}${rest}`)
  })
}

/** Anybody can send a header. */
function certificateProblems (values: RawSettings): string[] {
  const { CLIENT_CERTIFICATE: source, TRUST_PROXY: peers } = values
  const isHeader = source === 'client-cert' || source === 'nginx' || source === 'xfcc'
  const isNobodyTrusted = peers === undefined || (Array.isArray(peers) && peers[0] === 'false')
  return isHeader && isNobodyTrusted ? [`${held(values, 'CLIENT_CERTIFICATE')}, but ${nameOf('TRUST_PROXY')} trusts nobody: a certificate in a header counts only if a trusted proxy sends it`] : []
}

/** The line for a service that looks for certificates on its sockets and does not end TLS. */
export const NO_TLS_SOCKET = `${nameOf('CLIENT_CERTIFICATE')} is "socket", but this server does not end TLS: only an application that does can use it; allowed here: off, client-cert, nginx or xfcc`

function scopeCircles ({ IDP_SCOPE_IMPLIES: implications = {} }: RawSettings): string[] {
  const circle = findScopeCircle(implications as ScopeImplications)
  return circle ? [`${nameOf('IDP_SCOPE_IMPLIES')} has a circle: ${circle.join(' implies ')}`] : []
}

function wordsThatStandAlone (values: RawSettings): string[] {
  const lonely: Array<[SettingName, string[]]> = [['TRUST_PROXY', ['true', 'false']], ['CORS_ORIGINS', ['*']]]
  return lonely.flatMap(([name, words]) => {
    const list = values[name]
    const isMixed = Array.isArray(list) && list.length > 1 && list.some(entry => words.includes(entry))
    return isMixed ? [`${held(values, name)}; ${words.join(' and ')} cannot be combined with other values`] : []
  })
}

function nameOf (name: SettingName): string {
  const { file, environment } = settingSpec(name)
  if (environment === false) return file!
  return file ? `${name} (${file})` : name
}

function held (values: RawSettings, name: SettingName): string {
  const { secret, schema } = settingSpec(name)
  return secret ? `${nameOf(name)} is not usable (its value is not shown)` : `${nameOf(name)} is ${shown(values[name], schema.type === 'array')}`
}

function shown (value: unknown, mayBeList: boolean): string {
  // The value as it would be written in a variable. If no list is allowed, the fault is that the value is a list.
  const isTextList = mayBeList && Array.isArray(value) && value.length > 0 && value.every(entry => typeof entry === 'string')
  const text = JSON.stringify(isTextList ? value.join(' ') : value)
  // The text before an @ may be a password.
  const at = text.lastIndexOf('@')
  const safe = at === -1 ? text : `"…${text.slice(at)}`
  return safe.length > MAX_SHOWN_CHARS ? `${safe.slice(0, MAX_SHOWN_CHARS)}…` : safe
}
