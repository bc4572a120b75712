import { inspect } from 'node:util'
import { coversOpaque, entryProblems, introspectionLacks } from './issuer-settings.ts'
import { entryPath, profileBreaches } from './security-profile.ts'
import { isEntry } from './setting-spec.ts'
import { memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { isVerifiable } from '../jose/public-key.ts'
import { quoteSetting } from '../printable.ts'
import { findScopeCircle } from '../requirement/implied-scopes.ts'
import type { ScopeImplications } from '../requirement/implied-scopes.ts'

/** Bad settings: one message with a line for each problem. */
export class SettingsError extends Error {
  /** For logs. */
  override readonly name = 'SettingsError'
  /** One sentence for each setting that cannot be used. */
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

/** What is known of the sources of the values. */
export interface SourceNotes {
  /** Nothing can be said about missing values. */
  readonly isFileUnread: boolean
  /** Where the file holds the parts of lists, such as `idp.issuers[1].audience`, in words. */
  readonly places?: ReadonlyMap<string, string> | undefined
  /** A function of the application names the issuers. */
  readonly areIssuersAsked?: boolean
  /** A function of the application says which peers are trusted. */
  readonly arePeersAsked?: boolean
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
    ...opaqueProblems(values, notes),
    ...algorithmProblems(values, notes),
    ...dpopContradictions(values),
    ...profileProblems(values, notes),
    ...certificateProblems(values, notes),
    ...([...bad].some(path => path.startsWith('IDP_SCOPE_IMPLIES')) ? [] : scopeCircles(values)),
    ...wordsThatStandAlone(values)
  ]
}

function refused (values: RawSettings, [name, index, member]: readonly string[], { places }: SourceNotes): string {
  const { schema, file } = settingSpec(name as SettingName)
  const entries = values[name as SettingName]
  if (schema.type !== 'entries' || index === undefined) return `${held(values, name as SettingName)}; allowed: ${settingSpec(name as SettingName).allowed}`
  const entry = (entries as readonly RawSettings[])[Number(index)]
  if (member === undefined) return placed(places, `${file}[${index}]`, `${file}[${index}] is ${quoteSetting(entry)}; allowed: an object`)
  const spec = settingSpec(member as SettingName)
  const path = `${file}[${index}].${memberKey(member as SettingName)}`
  return placed(places, path, `${path} is ${spec.secret ? 'not usable (its value is not shown)' : quoteSetting(entry![member as SettingName], spec.schema.type === 'array')}; allowed: ${spec.allowed}`)
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

/** An opaque token names no issuer that a function could be asked about. */
function opaqueProblems (values: RawSettings, { areIssuersAsked }: SourceNotes): string[] {
  if (!areIssuersAsked) return []
  const rest = '; allowed if a function names the issuers: off or jwt, because an opaque token names no issuer'
  const beside = coversOpaque(values) ? [held(values, 'IDP_INTROSPECTION') + rest] : []
  const entries = Array.isArray(values.IDP_ISSUERS) ? values.IDP_ISSUERS.filter(isEntry) as RawSettings[] : []
  return [...beside, ...entries.filter(coversOpaque).map(({ IDP_INTROSPECTION }) => `introspection.for is ${quoteSetting(IDP_INTROSPECTION)}${rest}`)]
}

const TOO_LARGE = 'does not fit: a proof with its key and signature is larger than the 8 KiB that a proof may have; ML-DSA-44 fits'
/** Why algorithms cannot be used, in words for after the name. */
const LACKS: ReadonlyMap<unknown, string> = new Map([['ML-DSA-44', 'needs Node 24.7 or newer, and this Node cannot verify it'], ['ML-DSA-65', TOO_LARGE], ['ML-DSA-87', TOO_LARGE]])

function algorithmProblems (values: RawSettings, { places }: SourceNotes): string[] {
  const lacksOf = (algs: unknown): string[] => Array.isArray(algs) ? algs.filter(alg => LACKS.has(alg) && !isVerifiable(alg)).map(alg => `${alg} ${LACKS.get(alg)}`) : []
  const entries = Array.isArray(values.IDP_ISSUERS) ? values.IDP_ISSUERS : []
  return [
    ...(['IDP_ALGS', 'DPOP_ALGS'] as const).flatMap(name => lacksOf(values[name]).map(lack => `${nameOf(name)}: ${lack}`)),
    ...entries.flatMap((entry, index) => {
      const path = entryPath('IDP_ALGS', index)
      return lacksOf(isEntry(entry) && (entry as RawSettings).IDP_ALGS).map(lack => placed(places, path, `${path}: ${lack}`))
    })
  ]
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
    return placed(places, path, `${path} is ${quoteSetting((values.IDP_ISSUERS as readonly RawSettings[])[index]![name], true)}${rest}`)
  })
}

/** Anybody can send a header. */
function certificateProblems (values: RawSettings, { arePeersAsked }: SourceNotes): string[] {
  const { CLIENT_CERTIFICATE: source, TRUST_PROXY: peers } = values
  const isHeader = source === 'client-cert' || source === 'nginx' || source === 'xfcc'
  const trustsNoPeer = !arePeersAsked && (peers === undefined || (Array.isArray(peers) && peers[0] === 'false'))
  return isHeader && trustsNoPeer ? [`${held(values, 'CLIENT_CERTIFICATE')}, but ${nameOf('TRUST_PROXY')} trusts no peer: a certificate in a header counts only if a trusted proxy sends it`] : []
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
  return secret ? `${nameOf(name)} is not usable (its value is not shown)` : `${nameOf(name)} is ${quoteSetting(values[name], schema.type === 'array')}`
}
