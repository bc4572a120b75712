import { inspect } from 'node:util'
import { coversOpaque, entryProblems, introspectionLacks } from './issuer-settings.ts'
import type { RawIssuer } from './issuer-settings.ts'
import { entryPath, profileBreaches } from './security-profile.ts'
import { isEntry } from './setting-spec.ts'
import type { Part, SettingSpec } from './setting-spec.ts'
import { isSetting, memberKey, settingNames, settingSpec } from './specs.ts'
import type { SourceFaults } from './sources.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { schemaOf, valueAt } from './tree.ts'
import { isVerifiable } from '../jose/public-key.ts'
import { quoteSetting } from '../printable.ts'
import { nameThatWasMeant } from '../suggestion.ts'
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
  readonly keyword: string
  readonly params: { readonly additionalProperty?: string, readonly missingProperty?: string }
}

/** A sentence about a part of the settings, and the path of that part. */
export interface PartProblem {
  readonly path: string
  readonly problem: string
}

/** A part of the settings: how messages name it, what it holds, and its schema. */
interface HeldPart {
  readonly path: string
  readonly value: unknown
  readonly part: Part
}

/**
 * Returns a line for each part that the schema refuses, in the order of the settings: the deepest part that has words for it.
 * @param values typed as far as their text allows
 */
export function describeRefusals (values: RawSettings, errors: readonly SchemaError[], places: SourceFaults['places']): PartProblem[] {
  const root = { path: '', value: values, part: schemaOf(settingNames) }
  const refusals = new Map<string, PartProblem>()
  const rank = ({ instancePath }: SchemaError): number => settingNames.findIndex(name => `${instancePath}/`.startsWith(`/${name.replaceAll('.', '/')}/`))
  for (const { instancePath, keyword, params } of errors.toSorted((a, b) => rank(a) - rank(b))) {
    const held = partAt(root, instancePath.split('/').slice(1))
    const { path, part: { allowed, whole = allowed, secret, properties } } = held
    const unknown = keyword === 'additionalProperties' ? params.additionalProperty! : undefined
    // Of a secret, each form that does not fit says so.
    if (unknown !== undefined && secret) continue
    const key = unknown === undefined ? path : `${path}.${unknown}`
    if (refusals.has(key)) continue
    const rest = unknown !== undefined ? unknownMember(path, unknown, Object.keys(properties!)) : keyword === 'required' ? `${path} lacks ${params.missingProperty}; allowed: ${whole}` : `${shown(held)}; allowed: ${whole}`
    refusals.set(key, { path: key, problem: placed(places, key, rest) })
  }
  return [...refusals.values()]
}

/** The deepest part on the way of these words that has words for what it allows. */
function partAt (root: HeldPart, words: readonly string[]): HeldPart {
  let here = root
  let worded = root
  for (const word of words) {
    const { path, value, part } = here
    const next = part.items ?? part.properties?.[word]
    if (!next) break
    // The list of one may be written as that one.
    if (part.items && !Array.isArray(value)) here = { path, value, part: next }
    else here = { path: part.items ? `${path}[${word}]` : path === '' ? word : `${path}.${word}`, value: (value as Readonly<Record<string, unknown>>)[word], part: next }
    if (next.allowed !== undefined) worded = here
  }
  return worded
}

/** The rules of the gate name a member by itself. */
function unknownMember (path: string, name: string, known: readonly string[]): string {
  const meant = nameThatWasMeant(name, known)
  if (meant !== undefined) return `${path}.${name} is unknown; did you mean ${path.startsWith('gate.') ? '' : `${path}.`}${meant}?`
  return `${path}.${name} is unknown${path.startsWith('gate') ? `; allowed: ${known.join(', ')}` : ''}`
}

/** The words for a part and what it holds. What is in it may be a secret, too. */
function shown ({ path, value, part }: HeldPart): string {
  const name = isSetting(path) ? nameOf(path) : path
  const isTextList = (part as SettingSpec).variable !== undefined && part.items?.type === 'string'
  return `${name} is ${part.secret ? 'not usable (its value is not shown)' : quoteSetting(withoutSecrets(part, value), isTextList)}`
}

function withoutSecrets ({ secret, items, properties }: Part, value: unknown): unknown {
  if (secret) return undefined
  if (items && Array.isArray(value)) return value.map(item => withoutSecrets(items, item))
  if (!properties || !isEntry(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, Object.hasOwn(properties, key) ? withoutSecrets(properties[key]!, member) : member]))
}

function held (values: RawSettings, name: SettingName): string {
  return shown({ path: name, value: valueAt(values, name), part: settingSpec(name) })
}

export function placed (places: SourceFaults['places'], path: string, problem: string): string {
  const place = places?.get(path)
  return place === undefined ? problem : `${place}: ${problem}`
}

/** A line for each value that is missing, or contradictory by rules that a schema cannot say. */
export function describeContradictions (values: RawSettings, refusals: readonly PartProblem[], notes: SourceFaults): string[] {
  return [
    ...(notes.isFileUnread ? [] : missing(values, notes)),
    ...issuerProblems(values, notes),
    ...introspectionProblems(values, notes),
    ...opaqueProblems(values, notes),
    ...algorithmProblems(values, notes),
    ...dpopContradictions(values),
    ...profileProblems(values, notes),
    ...certificateProblems(values, notes),
    ...(refusals.some(({ path }) => path === 'idp.scopeImplies') ? [] : scopeCircles(values)),
    ...wordsThatStandAlone(values)
  ]
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
