import { quoteSetting } from '../printable.ts'
import { isJsonObject } from '../json.ts'
import { isVerifiable } from '../jose/public-key.ts'
import { isFetchableIssuer, isIssuerName, withoutTrailingSlash } from '../provider/provider-url.ts'
import { FORMATS, hasScheme } from './formats.ts'
import { nameOf } from './problems.ts'
import type { Judgement } from './judgement.ts'
import { FAPI_ALGS, memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { valueAt } from './tree.ts'

/** An entry of the list, or the section beside it, as it was written. */
type RawIssuer = Partial<Omit<RawSettings['idp'], 'introspection'>> & {
  readonly introspection?: Partial<RawSettings['idp']['introspection']>
}

/** The settings of one issuer. A member is at `path` and its name, so `idp` is that of the section. */
interface Written {
  readonly path: string
  readonly own: RawIssuer
  /** With what it leaves out, which is taken from beside the list. */
  readonly whole: RawSettings['idp']
}

const SECTION = 'idp'

/** The section, whether or not there is a list beside it, and the entries. One that is no object is left out. */
function writtenIssuers ({ idp }: RawSettings): readonly [section: Written, ...entries: Written[]] {
  const entries = Array.isArray(idp.issuers) ? idp.issuers as readonly unknown[] : []
  return [
    { path: SECTION, own: idp, whole: idp },
    ...entries.flatMap((own, index) => {
      if (!isJsonObject(own)) return []
      const introspection = { ...idp.introspection, ...(own as RawIssuer).introspection }
      return [{ path: `idp.issuers[${index}]`, own, whole: { ...idp, ...own, introspection } }]
    })
  ]
}

/** What is wrong with the issuers, each by itself and together. */
export function tellIssuers (judgement: Judgement): void {
  const { values, isUnread, areIssuersAsked, tellHeld } = judgement
  const issuers = writtenIssuers(values)
  const [section, ...entries] = issuers
  const { issuers: list, domain, issuer, audience } = section.own
  if (list === undefined && !areIssuersAsked) {
    if (domain === undefined && issuer === undefined && !isUnread) tellMissing(judgement, section, 'idp.domain')
    if (audience === undefined && !isUnread) tellMissing(judgement, section, 'idp.audience')
    tellIntrospectionLacks(judgement, section)
  } else {
    for (const name of ['idp.domain', 'idp.issuer'] as const) {
      if (valueAt(values, name) === undefined) continue
      tellHeld(name, ', but idp.issuers is set too: only one of them can say who issues tokens')
    }
  }
  for (const written of list === undefined ? [section] : entries) tellMereName(judgement, written)
  tellEntries(judgement, entries)
  if (areIssuersAsked) tellOpaqueOfFunction(judgement, issuers)
  tellUnverifiable(judgement)
}

/** What is missing has the place of its entry. */
function tellMissing ({ tell }: Judgement, { path }: Written, name: SettingName): void {
  const { allowed, unset } = settingSpec(name)
  const lack = ` is not set; ${name.startsWith('idp.introspection.') ? unset : `allowed: ${allowed}`}`
  if (path === SECTION) tell(name, lack)
  else tell(path, `.${memberKey(name)}${lack}`)
}

/** The settings that introspection needs and that are not set. */
function tellIntrospectionLacks (judgement: Judgement, written: Written): void {
  const { introspection } = written.whole
  if ((introspection.for ?? 'off') === 'off') return
  const secret = introspection.auth === 'private_key_jwt' ? 'keyFile' : 'clientSecret'
  for (const member of ['clientId', secret] as const) {
    if (introspection[member] === undefined) tellMissing(judgement, written, `idp.introspection.${member}`)
  }
}

/**
 * An issuer that is a mere name although something would have to be fetched under it: keys, or the introspection
 * endpoint. An `http:` issuer that is not on loopback is one (AD FS): anyone on the way could answer for it.
 */
function tellMereName ({ tellHeld }: Judgement, { path, own: { issuer }, whole }: Written): void {
  if (typeof issuer !== 'string' || !isIssuerName(issuer) || isFetchableIssuer(issuer)) return
  const { jwksUri, keysFile, introspection: { for: covers = 'off', endpoint } } = whole
  const hasKeys = typeof keysFile === 'string' ||
    (typeof jwksUri === 'string' && /^https:/i.test(jwksUri) && FORMATS['provider-url'](jwksUri))
  if (!hasKeys) tellHeld(`${path}.issuer`, `; allowed: ${settingSpec('idp.issuer').allowed}`)
  else if (covers !== 'off' && endpoint === undefined) {
    tellHeld(
      `${path}.issuer`,
      ', a mere name, under which the introspection endpoint cannot be found; allowed beside ' +
        nameOf('idp.introspection.endpoint')
    )
  }
}

/** What is wrong with the entries as a whole. */
function tellEntries (judgement: Judgement, entries: readonly Written[]): void {
  const { tell, tellHeld } = judgement
  const seen = new Map<string, string>()
  let opaque: string | undefined
  for (const written of entries) {
    const { path, own: { domain, issuer }, whole: { audience, introspection } } = written
    tellIntrospectionLacks(judgement, written)
    if (issuer === undefined && domain === undefined) tellMissing(judgement, written, 'idp.issuer')
    if (audience === undefined) tellMissing(judgement, written, 'idp.audience')
    if (hasScheme(String(domain))) {
      tellHeld(`${path}.domain`, ', which starts with a scheme; allowed: only the host')
    }
    if (domain !== undefined && issuer !== undefined) {
      tellHeld(`${path}.domain`, `, but ${path}.issuer is set too; allowed: one of them`)
    }
    if (coversOpaque(introspection.for)) {
      if (opaque) {
        tell(
          path,
          ` and ${opaque} both have introspection for opaque tokens (${quoteSetting(introspection.for)}): an ` +
            'opaque token does not name its issuer; allowed: opaque or all for one issuer'
        )
      }
      opaque ??= path
    }
    const name = comparable(written.own)
    const first = name && seen.get(name)
    if (first) {
      const member = issuer === undefined ? 'domain' : 'issuer'
      tellHeld(`${path}.${member}`, `, the same issuer as ${first}; allowed: each issuer once`)
    } else if (name) seen.set(name, path)
  }
}

/** Whether opaque tokens are introspected. */
function coversOpaque (covers: unknown): boolean {
  return covers === 'opaque' || covers === 'all'
}

/** The issuer in the form in which two are compared: as a URL and without its last slash. Undefined if it is none. */
function comparable ({ issuer, domain }: RawIssuer): string | undefined {
  if (issuer === undefined && domain === undefined) return undefined
  const text = String(issuer ?? `https://${String(domain)}/`)
  return URL.canParse(text) ? withoutTrailingSlash(new URL(text).href) : undefined
}

/** An opaque token names no issuer that the function could look up. */
function tellOpaqueOfFunction ({ tell }: Judgement, issuers: readonly Written[]): void {
  for (const { path, own: { introspection } } of issuers) {
    if (!coversOpaque(introspection?.for)) continue
    tell(
      path === SECTION ? 'idp.introspection.for' : 'introspection.for',
      ` is ${quoteSetting(introspection!.for)}; allowed if a function names the issuers: off or jwt, because an ` +
        'opaque token names no issuer'
    )
  }
}

const NEWEST = 'ML-DSA-44'

function tellUnverifiable ({ values, tell }: Judgement): void {
  for (const { path, value } of said(values, ['idp.algs', 'dpop.algs'])) {
    if (Array.isArray(value) && value.includes(NEWEST) && !isVerifiable(NEWEST)) {
      tell(path, `: ${NEWEST} needs Node 24.7 or newer, and this Node cannot verify it`)
    }
  }
}

/** What is said of these settings, with their paths. Only the section says something of others than its own. */
function said (values: RawSettings, names: readonly SettingName[]) {
  return writtenIssuers(values).flatMap(({ path, own }) =>
    names.flatMap(name => {
      const key = memberKey(name)
      if (name.startsWith('idp.')) return [{ name, path: `${path}.${key}`, value: valueAt(own, key) }]
      return path === SECTION ? [{ name, path: name, value: valueAt(values, name) }] : []
    })
  )
}

/** Settings that say what the security profile rules out. */
export function tellProfile ({ values, tellHeld }: Judgement): void {
  const { securityProfile, clientCertificate = 'off' } = values.server
  if (securityProfile !== 'fapi2') return
  const isKeyNeeded = clientCertificate === 'off'
  const hasOther = (algs: unknown): boolean => Array.isArray(algs) && algs.some(alg => !FAPI_ALGS.includes(alg))
  const algs = `list of ${FAPI_ALGS.join(', ')}`
  const unless = 'unless CLIENT_CERTIFICATE is set'
  const rules = new Map<SettingName, readonly [allowed: string, isBreach: (value: unknown) => boolean]>([
    ['idp.algs', [algs, hasOther]],
    ['dpop.algs', [algs, hasOther]],
    ['idp.dpopMode', [`ALLOWED or REQUIRED, ${unless}`, mode => isKeyNeeded && mode === 'DISABLED']],
    ['idp.dpopEnabled', [`true, ${unless}`, enabled => isKeyNeeded && enabled === false]]
  ])
  for (const { name, path, value } of said(values, [...rules.keys()])) {
    const [allowed, isBreach] = rules.get(name)!
    if (isBreach(value)) tellHeld(path, `, but ${nameOf('server.securityProfile')} is fapi2; allowed: ${allowed}`)
  }
}
