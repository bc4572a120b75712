import { createEndpoint } from '../guard/introspection/endpoint.ts'
import { createIntrospector, isOfOneToken } from '../guard/introspection/introspector.ts'
import { createSignedAnswerReader } from '../guard/introspection/signed-answer.ts'
import { createKeySetFetch, createKeySetFinder } from '../guard/provider/fetch-key-set.ts'
import { createKeySource, type KeySource, type KeySourceEvent } from '../guard/provider/key-source.ts'
import { openKeyFile } from '../guard/provider/key-file.ts'
import { createDiscovery, type Discovery } from '../guard/provider/provider-document.ts'
import { createTransport, type Transport } from '../guard/provider/transport.ts'
import { quoteSetting } from '../base/printable.ts'
import { partName } from '../settings/problems.ts'
import { SettingsError } from '../base/settings-error.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../settings/settings.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { createInquiry } from '../guard/token/inquiry.ts'
import {
  createIssuerTable,
  type IssuerTable,
  type TokenIntrospection,
  type TokenIssuer
} from '../guard/token/issuer-table.ts'
import { issuerSpellings } from '../guard/provider/provider-url.ts'
import type { Observing } from '../guard/observing.ts'
import { TOKEN_BINDINGS, type TokenRules } from '../guard/token/jwt-checks.ts'
import { createAuthentication } from './client-credentials.ts'
import type { JwtTools } from './jwt-tools.ts'

/** What happened to the keys of one issuer. It is named as the settings name it. */
type IssuerKeyEvent = KeySourceEvent & { readonly issuer: string }

export type IssuerEvent =
  | IssuerKeyEvent
  /** Under `rfc9068` none of its tokens passes then. */
  | { readonly name: 'issuer_spelled_otherwise', readonly issuer: string, readonly spelled: string }
  | /**
   * The first answer after a success that cannot be used: the function has failed, or was too slow, or named no usable
   * settings.
   */ { readonly name: 'issuers_unavailable', readonly failure: string }

/** What the parts of issuers are made with. */
export interface IssuerPartOptions {
  readonly surroundings: Surroundings
  readonly settings: Pick<Settings, 'idp' | 'server' | 'proxies'>
  readonly jwtTools: JwtTools
  /** Takes the place of the network to providers, which follows from the proxies. */
  readonly transport?: Transport
  /** That of the issuer, if its parts share it. */
  readonly discovery?: Discovery
  /** While it is on, no request waits long for a provider. */
  readonly observing?: Observing
}

export interface IssuersOptions extends IssuerPartOptions {
  readonly onEvent: (event: IssuerEvent) => void
}

/**
 * Makes the issuers of the settings, each with keys of its own. Returns undefined if there is none, because the only
 * domain has a scheme.
 */
export async function createIssuers (options: IssuersOptions): Promise<IssuerTable | undefined> {
  const { issuers } = options.settings.idp
  if (issuers.length === 0) return undefined
  const outcomes = await Promise.allSettled(issuers.map(issuer => createTokenIssuer(issuer, options)))
  const problems = outcomes.flatMap((outcome, index) =>
    outcome.status === 'rejected' ? problemsOf(issuers[index]!, outcome.reason as Error) : []
  )
  if (problems.length > 0) throw new SettingsError(problems)
  return createIssuerTable(outcomes.map(outcome => (outcome as PromiseFulfilledResult<TokenIssuer>).value))
}

/** Only the files of an issuer can fail at the start. */
function problemsOf ({ path, keysFile }: IssuerSettings, error: Error): readonly string[] {
  if (error instanceof SettingsError) return error.problems
  return [
    `${partName(`${path}.keysFile`)} is ${quoteSetting(keysFile)}, which is not usable (${error.message}); allowed: ` +
    'path of a file with a JWK set of public keys'
  ]
}

/** @throws ProviderFailure, SettingsError if a file of it is missing or broken */
export async function createTokenIssuer (given: IssuerSettings, options: IssuersOptions): Promise<TokenIssuer> {
  const { issuer, scopeClaims, dpopMode, tokenProfile } = given
  const { onEvent } = options
  const discovery = createDiscovery(issuer, spelled => {
    if (tokenProfile === 'rfc9068') onEvent({ name: 'issuer_spelled_otherwise', issuer, spelled })
  })
  const shared = { ...options, discovery }
  const keys = await createKeys(given, shared)
  return {
    issuer,
    keys,
    rules: rulesOfIssuer(given, options.settings),
    scopeClaims,
    dpopMode,
    introspection: await createIntrospection(given, keys, shared)
  }
}

/** Returns what holds for the tokens of an issuer. */
export function rulesOfIssuer (
  { issuer, audiences, audienceClaim, algs, dpopMode, tokenProfile: profile }: IssuerSettings,
  { idp: { clockToleranceSeconds }, server: { resource, clientCertificate, securityProfile } }: Pick<
    Settings,
    'idp' | 'server'
  >
): TokenRules {
  const bindings = TOKEN_BINDINGS.filter(member => member === 'jkt' || clientCertificate !== 'off')
  return {
    issuer,
    audiences,
    audienceClaim,
    resource,
    profile,
    algs,
    clockToleranceSeconds,
    bindings,
    // Under DISABLED no key is required, so only a certificate ties the token to its client.
    neededBindings: securityProfile === 'fapi2'
      ? bindings.filter(member => member !== 'jkt' || dpopMode !== 'DISABLED')
      : undefined
  }
}

/** Whether an issuer is whole without keys. */
export function needsNoKeys (introspection: IntrospectionSettings | undefined): boolean {
  return introspection?.covers === 'opaque' && !introspection.signed
}

/**
 * Makes the source of the keys of one issuer: its provider, or its file.
 * @throws ProviderFailure if the file is missing or broken
 */
export async function createKeys (
  { issuer, jwksUri, keysFile, algs, introspection }:
    & Pick<IssuerSettings, 'issuer' | 'jwksUri' | 'keysFile' | 'algs'>
    & Partial<Pick<IssuerSettings, 'introspection'>>,
  {
    surroundings,
    settings,
    transport = createTransport(settings.proxies),
    jwtTools: { readPem },
    discovery,
    observing,
    onEvent
  }: IssuerPartOptions & { readonly onEvent: (event: IssuerKeyEvent) => void }
): Promise<KeySource> {
  const common = { ...surroundings, onEvent: (event: KeySourceEvent) => onEvent({ ...event, issuer }) }
  if (keysFile !== undefined) return openKeyFile({ ...common, algs, readPem, path: keysFile })
  const locate = createKeySetFinder(issuer, jwksUri, {
    discovery,
    mayHaveNone: needsNoKeys(introspection)
  })
  const keys = createKeySource({ ...common, fetch: createKeySetFetch({ transport, locate, algs, readPem }) })
  if (!observing) return keys
  return { ...keys, fetchCandidates: observing.patient(keys.fetchCandidates, 'keys_unavailable') }
}

/**
 * Makes the introspection of an issuer. Returns undefined if it has none.
 * @param keys those of the issuer, for signed answers
 * @throws SettingsError if the private key of this service is missing or is none
 */
export async function createIntrospection (
  issuerSettings: IssuerSettings,
  keys: KeySource,
  {
    surroundings,
    settings,
    transport = createTransport({ ...settings.proxies, keepAlive: true }),
    jwtTools,
    observing,
    discovery = createDiscovery(issuerSettings.issuer)
  }: IssuerPartOptions
): Promise<TokenIntrospection | undefined> {
  const { issuer, introspection, algs } = issuerSettings
  if (!introspection) return undefined
  const { covers, cacheSeconds, audienceOptional, signed, clientId } = introspection
  const { now, steadyMs: nowMs } = surroundings
  const endpoint = createEndpoint({ issuer, discovery, configured: introspection.endpoint, transport, surroundings })
  const asker = createIntrospector({
    transport,
    endpoint: endpoint.find,
    authenticate: await createAuthentication(discovery.spelling, introspection, surroundings),
    readSigned: signed
      ? createSignedAnswerReader({
        issuers: issuerSpellings(issuer),
        algs,
        clientId,
        keys,
        findSigner: jwtTools.createSignerFinder(),
        clockToleranceSeconds: settings.idp.clockToleranceSeconds,
        now
      })
      : undefined
  })
  const introspector = observing
    ? { ...asker, ask: observing.patient(asker.ask, 'introspection_unavailable', error => !isOfOneToken(error)) }
    : asker
  return {
    covers,
    endpoint,
    needsNoKeys: needsNoKeys(introspection),
    inquiry: createInquiry({ introspector, audienceOptional, cacheSeconds, nowMs, now })
  }
}
