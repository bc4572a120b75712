import { quoteSetting } from '../base/printable.ts'
import { isJsonObject } from '../base/json.ts'
import { isVerifiable } from '../guard/jose/public-key.ts'
import { isFetchableIssuer, isIssuerName, withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { FORMATS, hasScheme } from './formats.ts'
import { nameOf } from './problems.ts'
import type { Judgement } from './judgement.ts'
import { FAPI_ALGS, memberKey, settingSpec, type RawSettings, type SettingName } from './specs.ts'
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
  const { values, areIssuersAsked, tellHeld } = judgement
  const [section, ...entries] = writtenIssuers(values)
  const isSingle = values.idp.issuers === undefined && !areIssuersAsked
  for (const name of ['idp.domain', 'idp.issuer'] as const) {
    if (isSingle || valueAt(values, name) === undefined) continue
    tellHeld(name, ', but idp.issuers is set too: only one of them can say who issues tokens')
  }
  for (const written of isSingle ? [section] : entries) {
    tellMissing(judgement, written)
    tellMereName(judgement, written)
  }
  tellEntries(judgement, entries)
  if (areIssuersAsked) tellOpaqueOfFunction(judgement)
  tellUnverifiable(judgement)
}

/** What an issuer needs and that is not set. Of an entry it has the place of the entry. */
function tellMissing ({ isUnread, tell }: Judgement, { path, own, whole: { audience, introspection } }: Written) {
  if (isUnread) return
  const isSection = path === SECTION
  const isIntrospected = introspection.for !== 'off'
  const isByKey = introspection.auth === 'private_key_jwt'
  const needs: ReadonlyArray<readonly [SettingName, isNeeded: boolean, value: unknown]> = [
    [isSection ? 'idp.domain' : 'idp.issuer', true, own.domain ?? own.issuer],
    ['idp.audience', true, audience],
    ['idp.introspection.clientId', isIntrospected, introspection.clientId],
    ['idp.introspection.keyFile', isIntrospected && isByKey, introspection.keyFile],
    ['idp.introspection.clientSecret', isIntrospected && !isByKey, introspection.clientSecret]
  ]
  for (const [name, isNeeded, value] of needs) {
    if (!isNeeded || value !== undefined) continue
    const { allowed, unset } = settingSpec(name)
    const lack = ` is not set; ${name.startsWith('idp.introspection.') ? unset : `allowed: ${allowed}`}`
    if (isSection) tell(name, lack)
    else tell(path, `.${memberKey(name)}${lack}`)
  }
}

/**
 * An issuer whose name is not a URL although something would have to be fetched under it: keys, or the introspection
 * endpoint. An `http:` issuer that is not on loopback is one (AD FS): anyone on the way could answer for it.
 */
function tellMereName ({ tellHeld }: Judgement, { path, own: { issuer }, whole }: Written) {
  if (typeof issuer !== 'string' || !isIssuerName(issuer) || isFetchableIssuer(issuer)) return
  const { jwksUri, keysFile, introspection: { for: covers, endpoint } } = whole
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
function tellEntries ({ tell, tellHeld }: Judgement, entries: readonly Written[]) {
  const seen = new Map<string, string>()
  let opaque: string | undefined
  for (const { path, own: { domain, issuer }, whole: { introspection } } of entries) {
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
    const name = comparable(issuer, domain)
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

/**
 * The issuer in the form in which two are compared: as a URL and without its last slash, or undefined if it is none.
 */
function comparable (issuer: unknown, domain: unknown): string | undefined {
  if (issuer === undefined && domain === undefined) return undefined
  const text = String(issuer ?? `https://${String(domain)}/`)
  return URL.canParse(text) ? withoutTrailingSlash(new URL(text).href) : undefined
}

/** An opaque token names no issuer that the function could look up. */
function tellOpaqueOfFunction ({ values, tellHeld }: Judgement) {
  for (const { path, value } of said(values, 'idp.introspection.for')) {
    if (coversOpaque(value)) {
      tellHeld(path, '; allowed if a function names the issuers: off or jwt, because an opaque token names no issuer')
    }
  }
}

const NEWEST = 'ML-DSA-44'

function tellUnverifiable ({ values, tell }: Judgement) {
  for (const { path, value } of [...said(values, 'idp.algs'), ...said(values, 'dpop.algs')]) {
    if (Array.isArray(value) && value.includes(NEWEST) && !isVerifiable(NEWEST)) {
      tell(path, `: ${NEWEST} needs Node 24.7 or newer, and this Node cannot verify it`)
    }
  }
}

/** What is said of a setting, with its path: in its section and, of an issuer, in the entries. */
function said (values: RawSettings, name: SettingName) {
  if (!name.startsWith('idp.')) return [{ path: name, value: valueAt(values, name) }]
  const key = memberKey(name)
  return writtenIssuers(values).map(({ path, own }) => ({ path: `${path}.${key}`, value: valueAt(own, key) }))
}

/** Settings that say what the security profile rules out. */
export function tellProfile ({ values, tellHeld }: Judgement): void {
  const { securityProfile, clientCertificate } = values.server
  if (securityProfile !== 'fapi2') return
  const isKeyNeeded = clientCertificate === 'off'
  const hasOther = (algs: unknown) => Array.isArray(algs) && algs.some(alg => !FAPI_ALGS.includes(alg))
  const algs = `list of ${FAPI_ALGS.join(', ')}`
  const unless = 'unless CLIENT_CERTIFICATE is set'
  const rules: ReadonlyArray<readonly [SettingName, allowed: string, isBreach: (value: unknown) => boolean]> = [
    ['idp.algs', algs, hasOther],
    ['dpop.algs', algs, hasOther],
    ['idp.dpopMode', `ALLOWED or REQUIRED, ${unless}`, mode => isKeyNeeded && mode === 'DISABLED'],
    ['idp.dpopEnabled', `true, ${unless}`, enabled => isKeyNeeded && enabled === false]
  ]
  for (const [name, allowed, isBreach] of rules) {
    for (const { path, value } of said(values, name)) {
      if (isBreach(value)) tellHeld(path, `, but ${nameOf('server.securityProfile')} is fapi2; allowed: ${allowed}`)
    }
  }
}
