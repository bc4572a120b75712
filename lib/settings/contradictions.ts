import { quoteSetting } from '../printable.ts'
import { isJsonObject } from '../json.ts'
import { certificateHeaders } from '../certificate/client-certificate.ts'
import type { CertificateSource } from '../certificate/client-certificate.ts'
import { isVerifiable } from '../jose/public-key.ts'
import { findScopeCircle } from '../requirement/implied-scopes.ts'
import type { ScopeImplications } from '../requirement/implied-scopes.ts'
import { isFetchableIssuer, isIssuerName } from '../provider/provider-url.ts'
import { FORMATS, hasScheme } from './formats.ts'
import { held, nameOf, placed, shown } from './problems.ts'
import type { PartProblem, Places } from './problems.ts'
import { FAPI_ALGS, memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { valueAt } from './tree.ts'

/** What is known beside the values. */
interface Beside {
  readonly places: Places
  /** A source could not be read. */
  readonly isUnread: boolean
  /** A function of the application names the issuers. */
  readonly areIssuersAsked: boolean
  /** A function of the application says which peers are trusted. */
  readonly arePeersAsked: boolean
}

/** An entry of the list, or the section beside it, as it was written. */
type RawIssuer = Partial<Omit<RawSettings['idp'], 'introspection'>> & {
  readonly introspection?: Partial<RawSettings['idp']['introspection']>
}

/**
 * Returns a line for each value that is missing, or contradictory by rules that a schema cannot say.
 * @param values typed as far as their text allows
 * @param refusals what the schema has refused
 */
export function describeContradictions (
  values: RawSettings,
  refusals: readonly PartProblem[],
  notes: Beside
): string[] {
  const issuers = writtenIssuers(values, notes.places)
  const isSingle = values.idp.issuers === undefined && !notes.areIssuersAsked
  return [
    ...(isSingle && !notes.isUnread ? missing(values) : []),
    ...(isSingle
      ? introspectionLacks(values.idp).map(name => `${nameOf(name)} is not set; ${settingSpec(name).unset}`)
      : namedTwice(values)),
    ...nameProblems(values, issuers),
    ...entryProblems(values, issuers, notes),
    ...opaqueProblems(values, notes),
    ...algorithmProblems(issuers),
    ...dpopContradictions(values),
    ...profileProblems(values, issuers),
    ...certificateProblems(values, notes),
    ...(refusals.some(({ path }) => path === 'idp.scopeImplies') ? [] : scopeCircles(values)),
    ...wordsThatStandAlone(values)
  ]
}

function missing ({ idp }: RawSettings): string[] {
  const names: SettingName[] = []
  if (idp.domain === undefined && idp.issuer === undefined) names.push('idp.domain')
  if (idp.audience === undefined) names.push('idp.audience')
  return names.map(name => `${nameOf(name)} is not set; allowed: ${settingSpec(name).allowed}`)
}

/** The settings that introspection needs and that are not set. */
function introspectionLacks (entry: RawIssuer, beside: RawIssuer = {}): SettingName[] {
  const introspection = { ...beside.introspection, ...entry.introspection }
  if ((introspection.for ?? 'off') === 'off') return []
  const members = ['clientId', introspection.auth === 'private_key_jwt' ? 'keyFile' : 'clientSecret'] as const
  return members.filter(member => introspection[member] === undefined).map(member =>
    `idp.introspection.${member}` as const
  )
}

function namedTwice (values: RawSettings): string[] {
  const names = (['idp.domain', 'idp.issuer'] as const).filter(name => valueAt(values, name) !== undefined)
  return names.map(name =>
    `${held(values, name)}, but idp.issuers is set too: only one of them can say who issues tokens`
  )
}

/** The entries of the list. Undefined for one that is no object. */
function entriesOf ({ idp: { issuers } }: RawSettings): ReadonlyArray<RawIssuer | undefined> {
  return Array.isArray(issuers) ? issuers.map(entry => isJsonObject(entry) ? entry : undefined) : []
}

/** The settings of one issuer, as they were written: an entry of the list, or the section beside it. */
interface Written {
  readonly own: RawIssuer
  /** Undefined for the section. */
  readonly path: string | undefined
  valueOf (name: SettingName): unknown
  /** A problem of one setting, in words for after its name. */
  about (name: SettingName, problem: string): string
  /** A problem of what one setting holds. */
  held (name: SettingName, problem: string): string
}

/** The section first, whether or not there is a list beside it. */
function writtenIssuers (values: RawSettings, places: Places): Written[] {
  const entries = entriesOf(values).flatMap((own, index) => own ? [{ own, path: `idp.issuers[${index}]` }] : [])
  return [{ own: values.idp, path: undefined }, ...entries].map(({ own, path }) => {
    const pathOf = (name: SettingName): string => path === undefined ? name : `${path}.${memberKey(name)}`
    const valueOf = (name: SettingName): unknown =>
      path === undefined
        ? valueAt(values, name)
        : name.startsWith('idp.')
          ? valueAt(own, memberKey(name))
          : undefined
    return {
      own,
      path,
      valueOf,
      about: (name, problem) =>
        placed(places, pathOf(name), (path === undefined ? nameOf(name) : pathOf(name)) + problem),
      held: (name, problem) =>
        placed(
          places,
          pathOf(name),
          shown({ path: pathOf(name), value: valueOf(name), part: settingSpec(name) }) + problem
        )
    }
  })
}

/** What is wrong with the entries as a whole. */
function entryProblems (values: RawSettings, issuers: readonly Written[], { places }: Beside): string[] {
  const beside: RawIssuer = values.idp
  const seen = new Map<string, string>()
  let opaque: string | undefined
  return issuers.flatMap(({ own: entry, path, held }) => {
    if (path === undefined) return []
    const { domain, issuer, audience = beside.audience, introspection } = entry
    const problems: string[] = []
    const tell = (problem: string): void => {
      problems.push(placed(places, path, path + problem))
    }
    const tellHeld = (name: SettingName, problem: string): void => {
      problems.push(held(name, problem))
    }
    for (const name of introspectionLacks(entry, beside)) {
      tell(`.${memberKey(name)} is not set; ${settingSpec(name).unset}`)
    }
    if (issuer === undefined && domain === undefined) {
      tell(`.issuer is not set; allowed: ${settingSpec('idp.issuer').allowed}`)
    }
    if (audience === undefined) tell(`.audience is not set; allowed: ${settingSpec('idp.audience').allowed}`)
    if (hasScheme(String(domain))) tellHeld('idp.domain', ', which starts with a scheme; allowed: only the host')
    if (domain !== undefined && issuer !== undefined) {
      tellHeld('idp.domain', `, but ${path}.issuer is set too; allowed: one of them`)
    }
    const covers = introspection?.for ?? values.idp.introspection.for
    if (coversOpaque(covers)) {
      if (opaque) {
        tell(
          ` and ${opaque} both have introspection for opaque tokens (${quoteSetting(covers)}): an opaque token ` +
            'does not name its issuer; allowed: opaque or all for one issuer'
        )
      }
      opaque ??= path
    }
    const name = comparable(entry)
    const first = name && seen.get(name)
    if (first) {
      tellHeld(
        issuer === undefined ? 'idp.domain' : 'idp.issuer',
        `, the same issuer as ${first}; allowed: each issuer once`
      )
    } else if (name) seen.set(name, path)
    return problems
  })
}

/**
 * The issuers that are mere names although something would have to be fetched under them: keys, or the introspection
 * endpoint. An `http:` issuer that is not on loopback is one (AD FS): anyone on the way could answer for it.
 */
function nameProblems ({ idp }: RawSettings, issuers: readonly Written[]): string[] {
  const { issuers: list, issuer: _issuer, ...beside } = idp
  return issuers.flatMap(({ own, path, held }) => {
    if (path === undefined && list !== undefined) return []
    const { issuer, jwksUri, keysFile } = { ...beside, ...own }
    if (typeof issuer !== 'string' || !isIssuerName(issuer) || isFetchableIssuer(issuer)) return []
    const hasKeys = typeof keysFile === 'string' ||
      (typeof jwksUri === 'string' && /^https:/i.test(jwksUri) && FORMATS['provider-url'](jwksUri))
    if (!hasKeys) return [held('idp.issuer', `; allowed: ${settingSpec('idp.issuer').allowed}`)]
    const { for: covers = 'off', endpoint } = { ...beside.introspection, ...own.introspection }
    if (covers === 'off' || endpoint !== undefined) return []
    const name = nameOf('idp.introspection.endpoint')
    const lack = `, a mere name, under which the introspection endpoint cannot be found; allowed beside ${name}`
    return [held('idp.issuer', lack)]
  })
}

/** Whether opaque tokens are introspected. */
function coversOpaque (covers: unknown): boolean {
  return covers === 'opaque' || covers === 'all'
}

/** The issuer in the form in which two are compared: as a URL and without its last slash. Undefined if it is none. */
function comparable ({ issuer, domain }: RawIssuer): string | undefined {
  if (issuer === undefined && domain === undefined) return undefined
  const text = String(issuer ?? `https://${String(domain)}/`)
  return URL.canParse(text) ? new URL(text).href.replace(/\/$/, '') : undefined
}

/** An opaque token names no issuer that the function could look up. */
function opaqueProblems (values: RawSettings, { areIssuersAsked }: Beside): string[] {
  if (!areIssuersAsked) return []
  const rest = '; allowed if a function names the issuers: off or jwt, because an opaque token names no issuer'
  const beside = coversOpaque(values.idp.introspection.for) ? [held(values, 'idp.introspection.for') + rest] : []
  const asked = entriesOf(values).map(entry => entry?.introspection?.for)
  return [...beside, ...asked.filter(coversOpaque).map(covers => `introspection.for is ${quoteSetting(covers)}${rest}`)]
}

const TOO_LARGE =
  'does not fit: a proof with its key and signature is larger than the 8 KiB that a proof may have; ML-DSA-44 fits'
/** Why algorithms cannot be used, in words for after the name. */
const LACKS: ReadonlyMap<unknown, string> = new Map([
  ['ML-DSA-44', 'needs Node 24.7 or newer, and this Node cannot verify it'],
  ['ML-DSA-65', TOO_LARGE],
  ['ML-DSA-87', TOO_LARGE]
])

function algorithmProblems (issuers: readonly Written[]): string[] {
  return issuers.flatMap(({ valueOf, about }) =>
    (['idp.algs', 'dpop.algs'] as const).flatMap(name => {
      const algs = valueOf(name)
      return Array.isArray(algs)
        ? algs.filter(alg => LACKS.has(alg) && !isVerifiable(alg)).map(alg => about(name, `: ${alg} ${LACKS.get(alg)}`))
        : []
    })
  )
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
  return pairs.filter(([, , contradict]) => contradict).map(([a, b]) =>
    `${held(values, a)} and ${held(values, b)}: they contradict each other`
  )
}

/** Settings that say what the security profile rules out. */
function profileProblems ({ server }: RawSettings, issuers: readonly Written[]): string[] {
  const { securityProfile, clientCertificate = 'off' } = server
  if (securityProfile !== 'fapi2') return []
  const isKeyNeeded = clientCertificate === 'off'
  const hasOther = (algs: unknown): boolean => Array.isArray(algs) && algs.some(alg => !FAPI_ALGS.includes(alg))
  const algs = `list of ${FAPI_ALGS.join(', ')}`
  const unless = 'unless CLIENT_CERTIFICATE is set'
  const rules: ReadonlyArray<readonly [SettingName, allowed: string, isBreach: (value: unknown) => boolean]> = [
    ['idp.algs', algs, hasOther],
    ['dpop.algs', algs, hasOther],
    ['idp.dpopMode', `ALLOWED or REQUIRED, ${unless}`, mode => isKeyNeeded && mode === 'DISABLED'],
    ['idp.dpopEnabled', `true, ${unless}`, enabled => isKeyNeeded && enabled === false]
  ]
  return issuers.flatMap(({ valueOf, held }) =>
    rules.filter(([name, , isBreach]) => isBreach(valueOf(name))).map(([name, allowed]) =>
      held(name, `, but ${nameOf('server.securityProfile')} is fapi2; allowed: ${allowed}`)
    )
  )
}

/** Anybody can send a header. */
function certificateProblems (values: RawSettings, { arePeersAsked }: Beside): string[] {
  const { clientCertificate: source, trustProxy: peers } = values.server
  const isHeader = certificateHeaders(source as CertificateSource).length > 0
  const trustsNoPeer = !arePeersAsked && (peers === undefined || (Array.isArray(peers) && peers[0] === 'false'))
  return isHeader && trustsNoPeer
    ? [
      `${held(values, 'server.clientCertificate')}, but ${nameOf('server.trustProxy')} trusts no peer: a ` +
      'certificate in a header counts only if a trusted proxy sends it'
      ]
    : []
}

function scopeCircles ({ idp: { scopeImplies = {} } }: RawSettings): string[] {
  const circle = findScopeCircle(scopeImplies as ScopeImplications)
  return circle ? [`${nameOf('idp.scopeImplies')} has a circle: ${circle.join(' implies ')}`] : []
}

function wordsThatStandAlone (values: RawSettings): string[] {
  const lonely: Array<[SettingName, string[]]> = [['server.trustProxy', ['true', 'false']], ['server.corsOrigins', [
    '*'
  ]]]
  return lonely.flatMap(([name, words]) => {
    const list = valueAt(values, name)
    const isMixed = Array.isArray(list) && list.length > 1 && list.some(entry => words.includes(entry))
    return isMixed ? [`${held(values, name)}; ${words.join(' and ')} cannot be combined with other values`] : []
  })
}
