import { inspect } from 'node:util'
import { coversOpaque, entryProblems, introspectionLacks } from './issuer-settings.ts'
import type { RawIssuer } from './issuer-settings.ts'
import { entryPath, profileBreaches } from './security-profile.ts'
import { isEntry } from './setting-spec.ts'
import { memberKey, settingNames, settingSpec } from './specs.ts'
import type { SourceFaults } from './sources.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { valueAt } from './tree.ts'
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

/**
 * Returns a line for each value that the schema refuses, and for each value that is missing or contradictory by other rules.
 * @param values typed as far as their text allows
 */
export function describeProblems (values: RawSettings, errors: readonly SchemaError[], notes: SourceFaults): string[] {
  const bad = errors.map(({ instancePath }) => instancePath.slice(1).replaceAll('/', '.')).sort((a, b) => settingNames.indexOf(settingAt(a)!) - settingNames.indexOf(settingAt(b)!))
  return [
    ...new Set(bad.map(path => refused(values, path, notes))),
    ...(notes.isFileUnread ? [] : missing(values, notes)),
    ...issuerProblems(values, notes),
    ...introspectionProblems(values, notes),
    ...opaqueProblems(values, notes),
    ...algorithmProblems(values, notes),
    ...dpopContradictions(values),
    ...profileProblems(values, notes),
    ...certificateProblems(values, notes),
    ...(bad.some(path => settingAt(path) === 'idp.scopeImplies') ? [] : scopeCircles(values)),
    ...wordsThatStandAlone(values)
  ]
}

/** The setting to whose value, or to a part of it, a path leads. */
function settingAt (path: string): SettingName | undefined {
  return settingNames.find(name => `${path}.`.startsWith(`${name}.`))
}

function refused (values: RawSettings, bad: string, { places }: SourceFaults): string {
  const name = settingAt(bad)!
  const [index, ...words] = settingSpec(name).schema.type === 'entries' ? bad.split('.').slice(name.split('.').length) : []
  if (index === undefined) return `${held(values, name)}; allowed: ${settingSpec(name).allowed}`
  const entry = (valueAt(values, name) as readonly object[])[Number(index)]!
  const member = settingAt(`idp.${words.join('.')}`)
  if (member === undefined) return placed(places, `${name}[${index}]`, `${name}[${index}] is ${quoteSetting(entry)}; allowed: an object`)
  const { secret, schema, allowed } = settingSpec(member)
  const path = entryPath(member, Number(index))
  return placed(places, path, `${path} is ${secret ? 'not usable (its value is not shown)' : quoteSetting(valueAt(entry, memberKey(member)), schema.type === 'array')}; allowed: ${allowed}`)
}

function placed (places: SourceFaults['places'], path: string, problem: string): string {
  const place = places?.get(path)
  return place === undefined ? problem : `${place}: ${problem}`
}

function missing ({ idp }: RawSettings, { areIssuersAsked }: SourceFaults): string[] {
  if (areIssuersAsked || idp.issuers !== undefined) return []
  const names: SettingName[] = []
  if (idp.domain === undefined && idp.issuer === undefined) names.push('idp.domain')
  if (idp.audience === undefined) names.push('idp.audience')
  return names.map(name => `${nameOf(name)} is not set; allowed: ${settingSpec(name).allowed}`)
}

/** The entries of the list. Undefined for one that is no object. */
function entriesOf ({ idp: { issuers } }: RawSettings): ReadonlyArray<RawIssuer | undefined> {
  return Array.isArray(issuers) ? issuers.map(entry => isEntry(entry) ? entry : undefined) : []
}

function issuerProblems (values: RawSettings, { places, areIssuersAsked }: SourceFaults): string[] {
  const { idp } = values
  const single = idp.issuers !== undefined || areIssuersAsked ? (['domain', 'issuer'] as const).filter(member => idp[member] !== undefined) : []
  return [
    ...single.map(member => `${held(values, `idp.${member}`)}, but idp.issuers is set too: only one of them can say who issues tokens`),
    ...entryProblems(entriesOf(values), idp).map(({ path, problem }) => placed(places, path, problem))
  ]
}

/** What introspection needs, by the single settings. For a list, entryProblems tells it. */
function introspectionProblems ({ idp }: RawSettings, { areIssuersAsked }: SourceFaults): string[] {
  if (idp.issuers !== undefined || areIssuersAsked) return []
  return introspectionLacks(idp).map(name => `${nameOf(name)} is not set; ${settingSpec(name).unset}`)
}

/** An opaque token names no issuer that a function could be asked about. */
function opaqueProblems (values: RawSettings, { areIssuersAsked }: SourceFaults): string[] {
  if (!areIssuersAsked) return []
  const rest = '; allowed if a function names the issuers: off or jwt, because an opaque token names no issuer'
  const beside = coversOpaque(values.idp.introspection.for) ? [held(values, 'idp.introspection.for') + rest] : []
  const asked = entriesOf(values).map(entry => entry?.introspection?.for)
  return [...beside, ...asked.filter(coversOpaque).map(covers => `introspection.for is ${quoteSetting(covers)}${rest}`)]
}

const TOO_LARGE = 'does not fit: a proof with its key and signature is larger than the 8 KiB that a proof may have; ML-DSA-44 fits'
/** Why algorithms cannot be used, in words for after the name. */
const LACKS: ReadonlyMap<unknown, string> = new Map([['ML-DSA-44', 'needs Node 24.7 or newer, and this Node cannot verify it'], ['ML-DSA-65', TOO_LARGE], ['ML-DSA-87', TOO_LARGE]])

function algorithmProblems (values: RawSettings, { places }: SourceFaults): string[] {
  const lacksOf = (algs: unknown): string[] => Array.isArray(algs) ? algs.filter(alg => LACKS.has(alg) && !isVerifiable(alg)).map(alg => `${alg} ${LACKS.get(alg)}`) : []
  return [
    ...(['idp.algs', 'dpop.algs'] as const).flatMap(name => lacksOf(valueAt(values, name)).map(lack => `${nameOf(name)}: ${lack}`)),
    ...entriesOf(values).flatMap((entry, index) => {
      const path = entryPath('idp.algs', index)
      return lacksOf(entry?.algs).map(lack => placed(places, path, `${path}: ${lack}`))
    })
  ]
}

function dpopContradictions (values: RawSettings): string[] {
  const { dpopEnabled: enabled, dpopRequired: required, dpopMode: mode } = values.idp
  const pairs: Array<[SettingName, SettingName, boolean]> = [
    ['idp.dpopEnabled', 'idp.dpopRequired', enabled === false && required === true],
    ['idp.dpopEnabled', 'idp.dpopMode', enabled === false && (mode === 'ALLOWED' || mode === 'REQUIRED')],
    ['idp.dpopEnabled', 'idp.dpopMode', enabled === true && mode === 'DISABLED'],
    ['idp.dpopRequired', 'idp.dpopMode', required === true && (mode === 'ALLOWED' || mode === 'DISABLED')],
    ['idp.dpopRequired', 'idp.dpopMode', required === false && mode === 'REQUIRED']
  ]
  return pairs.filter(([, , contradict]) => contradict).map(([a, b]) => `${held(values, a)} and ${held(values, b)}: they contradict each other`)
}

function profileProblems (values: RawSettings, { places }: SourceFaults): string[] {
  return profileBreaches(values).map(({ name, index, allowed }) => {
    const rest = `, but ${nameOf('server.securityProfile')} is fapi2; allowed: ${allowed}`
    if (index === undefined) return held(values, name) + rest
    const path = entryPath(name, index)
    return placed(places, path, `${path} is ${quoteSetting(valueAt(entriesOf(values)[index]!, memberKey(name)), true)}${rest}`)
  })
}

/** Anybody can send a header. */
function certificateProblems (values: RawSettings, { arePeersAsked }: SourceFaults): string[] {
  const { clientCertificate: source, trustProxy: peers } = values.server
  const isHeader = source === 'client-cert' || source === 'nginx' || source === 'xfcc'
  const trustsNoPeer = !arePeersAsked && (peers === undefined || (Array.isArray(peers) && peers[0] === 'false'))
  return isHeader && trustsNoPeer ? [`${held(values, 'server.clientCertificate')}, but ${nameOf('server.trustProxy')} trusts no peer: a certificate in a header counts only if a trusted proxy sends it`] : []
}

/** The line for a service that looks for certificates on its sockets and does not end TLS. */
export const NO_TLS_SOCKET = `${nameOf('server.clientCertificate')} is "socket", but this server does not end TLS: only an application that does can use it; allowed here: off, client-cert, nginx or xfcc`

function scopeCircles ({ idp: { scopeImplies = {} } }: RawSettings): string[] {
  const circle = findScopeCircle(scopeImplies as ScopeImplications)
  return circle ? [`${nameOf('idp.scopeImplies')} has a circle: ${circle.join(' implies ')}`] : []
}

function wordsThatStandAlone (values: RawSettings): string[] {
  const lonely: Array<[SettingName, string[]]> = [['server.trustProxy', ['true', 'false']], ['server.corsOrigins', ['*']]]
  return lonely.flatMap(([name, words]) => {
    const list = valueAt(values, name)
    const isMixed = Array.isArray(list) && list.length > 1 && list.some(entry => words.includes(entry))
    return isMixed ? [`${held(values, name)}; ${words.join(' and ')} cannot be combined with other values`] : []
  })
}

/** How a message names a setting: by its variable, and by its key in the file. */
function nameOf (name: SettingName): string {
  const { variable, from } = settingSpec(name)
  if (from === 'file') return name
  return from === 'environment' ? variable : `${variable} (${name})`
}

function held (values: RawSettings, name: SettingName): string {
  const { secret, schema } = settingSpec(name)
  if (secret) return `${nameOf(name)} is not usable (its value is not shown)`
  const value = valueAt(values, name)
  return `${nameOf(name)} is ${quoteSetting(schema.type === 'entries' ? withoutSecrets(value) : value, schema.type === 'array')}`
}

/** Of each entry of a list, what may be shown. */
function withoutSecrets (list: unknown): unknown {
  return Array.isArray(list) ? list.map(entry => isEntry(entry) && isEntry(entry.introspection) ? { ...entry, introspection: { ...entry.introspection, clientSecret: undefined } } : entry) : list
}
