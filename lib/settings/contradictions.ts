import { quoteSetting } from '../base/printable.ts'
import { certificateHeaders, type CertificateSource } from '../guard/certificate/client-certificate.ts'
import type { GateSettings } from '../gate/gate-settings.ts'
import { endOfDay } from '../guard/observing.ts'
import { isFetchableIssuer, withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { findScopeCircle, type ScopeImplications } from '../guard/requirement/implied-scopes.ts'
import { tellIssuers, tellProfile } from './issuer-contradictions.ts'
import { nameOf, shownAt } from './problems.ts'
import type { Judgement } from './judgement.ts'
import { issuerOf, type TransmitterSettings } from './revocation-settings.ts'
import type { IssuerSettings } from './settings.ts'
import type { SettingName } from './specs.ts'
import { valueAt } from './tree.ts'

/**
 * What values say together, or leave unsaid, that no schema can judge. Each function tells each problem with the path
 * of the part that it is about.
 */

/** Of all settings but the sections `gate` and `revocation`. */
export function tellContradictions (judgement: Judgement): void {
  tellIssuers(judgement)
  tellPairs(judgement)
  tellProfile(judgement)
  tellUntrusted(judgement)
  tellScopeCircle(judgement)
  tellMixedWords(judgement)
}

/** Values of two settings that contradict each other. */
const PAIRS: ReadonlyArray<readonly [SettingName, readonly unknown[], SettingName, readonly unknown[]]> = [
  ['idp.dpopEnabled', [false], 'idp.dpopRequired', [true]],
  ['idp.dpopEnabled', [false], 'idp.dpopMode', ['ALLOWED', 'REQUIRED']],
  ['idp.dpopEnabled', [true], 'idp.dpopMode', ['DISABLED']],
  ['idp.dpopRequired', [true], 'idp.dpopMode', ['ALLOWED', 'DISABLED']],
  ['idp.dpopRequired', [false], 'idp.dpopMode', ['REQUIRED']]
]

function tellPairs ({ values, tellHeld }: Judgement) {
  for (const [one, ofOne, other, ofOther] of PAIRS) {
    if (ofOne.includes(valueAt(values, one)) && ofOther.includes(valueAt(values, other))) {
      tellHeld(one, ` and ${shownAt(values, other)}: they contradict each other`)
    }
  }
}

/** Any client can send a header: only that of a trusted proxy counts. */
function tellUntrusted ({ values: { server }, arePeersAsked, isRefused, tellHeld }: Judgement) {
  if (arePeersAsked || isRefused('server.clientCertificate')) return
  const { clientCertificate: source, trustProxy: peers } = server
  const isHeader = certificateHeaders(source as CertificateSource).length > 0
  if (isHeader && Array.isArray(peers) && peers[0] === 'false') {
    tellHeld(
      'server.clientCertificate',
      `, but ${nameOf('server.trustProxy')} trusts no peer: a certificate in a header counts only if a trusted ` +
        'proxy sends it'
    )
  }
}

function tellScopeCircle ({ values: { idp: { scopeImplies = {} } }, isRefused, tell }: Judgement) {
  if (isRefused('idp.scopeImplies')) return
  const circle = findScopeCircle(scopeImplies as ScopeImplications)
  if (circle) tell('idp.scopeImplies', ` has a circle: ${circle.join(' implies ')}`)
}

/** Values that cannot be combined with others in a list. */
const EXCLUSIVE: ReadonlyArray<readonly [SettingName, readonly string[]]> = [
  ['server.trustProxy', ['true', 'false']],
  ['server.corsOrigins', ['*']]
]

function tellMixedWords ({ values, tellHeld }: Judgement) {
  for (const [name, words] of EXCLUSIVE) {
    const list = valueAt(values, name)
    if (Array.isArray(list) && list.length > 1 && list.some(entry => words.includes(entry))) {
      tellHeld(name, `; ${words.join(' and ')} cannot be combined with other values`)
    }
  }
}

const DAYS_AHEAD = 90
/** Of the last of these days, to its end. */
const LONGEST_SECONDS = (DAYS_AHEAD + 1) * 86_400

/**
 * Of `server.observe`.
 * @param now Unix seconds
 * @param isGuarded whether something is observed: a gate, or the app of the plugin
 */
export function tellObserving ({ values, tellHeld }: Judgement, now: number, isGuarded: boolean): void {
  // What is no day has no end: then neither is true.
  const secondsLeft = endOfDay(values.server.observe as string) - now
  if (secondsLeft > LONGEST_SECONDS) tellHeld('server.observe', `, which is more than ${DAYS_AHEAD} days ahead`)
  else if (secondsLeft > 0 && !isGuarded) {
    tellHeld('server.observe', ', which is for a gate (section gate, or GATE_UPSTREAM), and for the plugin in an app')
  }
}

/** Of the section `gate`. */
export function tellGateContradictions (
  { upstream, statementKey, statementAudience }: GateSettings,
  { isRefused, tellHeld }: Judgement
): void {
  const isAudienceKnown = upstream !== undefined ||
    (statementAudience !== undefined && !isRefused('gate.statementAudience'))
  if (statementKey !== undefined && !isRefused('gate.statementKey') && !isAudienceKnown) {
    tellHeld(
      'gate.statementKey',
      ', which needs gate.statementAudience (or gate.upstream), because each statement names its reader'
    )
  }
}

/**
 * Of the section `revocation`, which its schema lets pass.
 * @param issuers undefined if they are not usable
 */
export function tellRevocationContradictions (
  issuers: readonly IssuerSettings[] | undefined,
  { values, data: { revocation }, areIssuersAsked, tell }: Judgement
): void {
  if (!revocation) return
  const { transmitters = [], logout = [] } = revocation
  // A single client may be written without a list.
  const isList = Array.isArray((values.revocation as { logout?: unknown }).logout)
  for (const [index, client] of issuers ? logout.entries() : []) {
    const { issuer } = client
    const path = isList ? `revocation.logout[${index}]` : 'revocation.logout'
    if (issuer === undefined) {
      // A domain with a scheme leaves none, and does not stop the start.
      const isOne = issuers!.length < 2 && !areIssuersAsked
      if (!isOne) tell(path, ' names no issuer, and there is not exactly one; set its issuer')
    } else if (!isFetchableIssuer(issuer) && !issuerOf(client, issuers!)) {
      tell(
        path,
        `.issuer is ${quoteSetting(issuer)}, under which no keys can be fetched; allowed: https, or an issuer of idp`
      )
    }
  }
  const pathOf = (index: number) => `revocation.transmitters[${index}]`
  for (const [index, transmitter] of transmitters.entries()) {
    for (const lack of lacksOf(transmitter)) tell(pathOf(index), lack)
  }
  const names = transmitters.map(({ issuer }) => withoutTrailingSlash(issuer))
  for (const [index, name] of names.entries()) {
    const first = names.indexOf(name)
    if (first !== index) {
      tell(pathOf(index), ` is ${quoteSetting(name)}, as ${pathOf(first)} is; allowed: each transmitter once`)
    }
  }
}

function lacksOf (
  { audience, clientId, clientSecret, clientAuth, keyFile }: TransmitterSettings
): string[] {
  const isClient = clientId !== undefined
  const isByKey = clientAuth === 'private_key_jwt'
  const lacks: ReadonlyArray<readonly [boolean, string]> = [
    [
      audience === undefined && !isClient,
      ' has no audience; allowed: the aud of its events, which may be left out only with clientId'
    ],
    [isClient && isByKey && keyFile === undefined, ' has clientAuth private_key_jwt, which needs keyFile'],
    [
      isClient && !isByKey && clientSecret === undefined,
      ' has clientId, which needs clientSecret, or clientAuth private_key_jwt and keyFile'
    ]
  ]
  return lacks.filter(([isLacking]) => isLacking).map(([, lack]) => lack)
}
