import { createEndpoint } from '../introspection/endpoint.ts'
import { createIntrospector } from '../introspection/introspector.ts'
import { createSignedAnswerReader } from '../introspection/signed-answer.ts'
import { createKeySetFinder } from '../provider/fetch-key-set.ts'
import { createKeySource } from '../provider/key-source.ts'
import type { KeySource, KeySourceEvent } from '../provider/key-source.ts'
import { openKeyFile } from '../provider/key-file.ts'
import { createDiscovery } from '../provider/provider-document.ts'
import type { Discovery } from '../provider/provider-document.ts'
import type { ProviderFailure } from '../provider/provider-failure.ts'
import { createTransport } from '../provider/transport.ts'
import type { Transport } from '../provider/transport.ts'
import { createIssuerReader } from '../settings/validation.ts'
import { SettingsError } from '../settings/problems.ts'
import type { IssuerLookup } from '../settings/option-types.ts'
import type { AppFunctions } from '../settings/options.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../settings/settings.ts'
import type { Surroundings } from '../surroundings.ts'
import { createInquiry } from '../token/inquiry.ts'
import { createDynamicIssuers, createIssuerTable, DEFAULT_MAX_ISSUERS } from '../token/issuer-table.ts'
import type { DynamicIssuersOptions, IssuerTable, TokenIntrospection, TokenIssuer } from '../token/issuer-table.ts'
import { issuerSpellings } from '../provider/provider-url.ts'
import { TOKEN_BINDINGS } from '../token/jwt-checks.ts'
import type { TokenRules } from '../token/jwt-checks.ts'
import { createAuthentication } from './client-credentials.ts'
import { NODE_CRYPTO } from './jwt-tools.ts'
import type { JwtTools } from './jwt-tools.ts'

/** What happened to the keys of one issuer. It is named as the settings name it. */
export type IssuerKeyEvent = KeySourceEvent & { readonly issuer: string }

export type IssuerEvent =
  | IssuerKeyEvent
  | /**
   * The first answer after a success that cannot be used: the function has failed, or was too slow, or named no usable
   * settings.
   */ { readonly name: 'issuers_unavailable', readonly failure: string }

const DEADLINE_MS = 5000

export interface IssuersOptions extends Pick<AppFunctions, 'lookUpIssuer' | 'maxIssuers'> {
  readonly surroundings: Surroundings
  /** node:crypto unless given. */
  readonly jwtTools?: JwtTools | undefined
  /** Takes the place of the network to providers, which follows from the proxy settings. */
  readonly transport?: Transport | undefined
  readonly onEvent: (event: IssuerEvent) => void
}

/** The way to providers, through the proxies of the settings. @param keepAlive whether calls share connections */
export function networkOf ({ proxies }: Pick<Settings, 'proxies'>, keepAlive = false): Transport {
  return createTransport({ ...proxies, keepAlive })
}

/**
 * Makes the issuers of the settings, each with keys of its own. Undefined if there is none, because the only domain has
 * a scheme.
 */
export async function createIssuers (settings: Settings, options: IssuersOptions): Promise<IssuerTable | undefined> {
  const { lookUpIssuer, maxIssuers = DEFAULT_MAX_ISSUERS } = options
  if (lookUpIssuer) {
    return createDynamicIssuers({
      ask: createQuestion(lookUpIssuer, settings, options),
      maxIssuers,
      nowMs: options.surroundings.steadyMs
    })
  }
  if (settings.idp.issuers.length === 0) return undefined
  const outcomes = await Promise.allSettled(
    settings.idp.issuers.map(issuer => createTokenIssuer(issuer, settings, options))
  )
  const problems = outcomes.flatMap((outcome, index) =>
    outcome.status === 'rejected' ? [...problemsOf(settings, index, outcome.reason as Error)] : []
  )
  if (problems.length > 0) throw new SettingsError(problems)
  return createIssuerTable(outcomes.map(outcome => (outcome as PromiseFulfilledResult<TokenIssuer>).value))
}

/** Calls the function, and makes a new issuer only if the settings of the issuer have changed. */
function createQuestion (
  lookUp: IssuerLookup,
  settings: Settings,
  options: IssuersOptions
): DynamicIssuersOptions['ask'] {
  const readIssuer = createIssuerReader(settings)
  const recordOf = new WeakMap<TokenIssuer, string>()
  let hasFailed = false

  return async (iss, known) => {
    try {
      const found = await find(iss, known)
      hasFailed = false
      return found
    } catch (error) {
      if (!hasFailed) options.onEvent({ name: 'issuers_unavailable', failure: failureOf(error) })
      hasFailed = true
      throw error
    }
  }

  async function find (iss: string, known: TokenIssuer | undefined): Promise<TokenIssuer | undefined> {
    const record = await withinDeadline(async () => lookUp(iss), options.surroundings)
    if (record === undefined) return undefined
    const issuer = readIssuer(record)
    const text = JSON.stringify(issuer)
    if (known && recordOf.get(known) === text) return known
    const made = await createTokenIssuer(issuer, settings, options)
    recordOf.set(made, text)
    return made
  }
}

/** A function of the application may reject with anything, or with nothing. */
function failureOf (error: unknown): string {
  const { message } = Object(error) as { readonly message?: unknown }
  return typeof message === 'string' ? message : 'it failed without an error'
}

function withinDeadline<T> (run: () => Promise<T>, { after }: Surroundings): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = after(DEADLINE_MS, () => reject(new Error('no answer within 5 s')))
    run().finally(cancel).then(resolve, reject)
  })
}

/** Only the files of an issuer can fail at the start. */
function problemsOf ({ idp: { issuers, domain, issuer } }: Settings, index: number, error: Error): readonly string[] {
  if (error instanceof SettingsError) return error.problems
  const { word, detail = word } = error as ProviderFailure
  const name = domain === undefined && issuer === undefined
    ? `idp.issuers[${index}].keysFile`
    : 'IDP_KEYS_FILE (idp.keysFile)'
  return [
    `${name} is ${JSON.stringify(issuers[index]!.keysFile)}, which is not usable (${detail}); allowed: path of a ` +
    'file with a JWK set of public keys'
  ]
}

/** @throws ProviderFailure, SettingsError if a file of it is missing or broken */
async function createTokenIssuer (
  given: IssuerSettings,
  settings: Settings,
  options: IssuersOptions
): Promise<TokenIssuer> {
  const { issuer, scopeClaims, dpopMode } = given
  const discovery = createDiscovery(issuer)
  const keys = await createKeys(given, settings, { ...options, discovery })
  return {
    issuer,
    keys,
    rules: rulesOfIssuer(given, settings),
    scopeClaims,
    dpopMode,
    introspection: await createIntrospection(given, keys, settings, { ...options, discovery })
  }
}

/** Returns what holds for the tokens of an issuer. */
export function rulesOfIssuer (
  { issuer, audience, audienceClaim, algs, dpopMode }: IssuerSettings,
  { idp, server }: Pick<Settings, 'idp' | 'server'>
): TokenRules {
  const bindings = TOKEN_BINDINGS.filter(member => member === 'jkt' || server.clientCertificate !== 'off')
  return {
    issuer,
    audience,
    audienceClaim,
    resource: server.resource,
    algs,
    clockToleranceSeconds: idp.clockToleranceSeconds,
    bindings,
    // Under DISABLED no key is required, so only a certificate ties the token to its client.
    neededBindings: server.securityProfile === 'fapi2'
      ? bindings.filter(member => member !== 'jkt' || dpopMode !== 'DISABLED')
      : undefined
  }
}

/** What the parts of one issuer are made with. */
type PartOptions = Pick<IssuersOptions, 'surroundings' | 'transport' | 'jwtTools'> & {
  /** That of the issuer, which its parts share. */
  readonly discovery?: Discovery
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
  settings: Pick<Settings, 'proxies'>,
  { surroundings, transport = networkOf(settings), jwtTools: { keyReader } = NODE_CRYPTO, discovery, onEvent }:
    & PartOptions
    & { readonly onEvent: (event: IssuerKeyEvent) => void }
): Promise<KeySource> {
  const common = { ...surroundings, algs, keyReader, onEvent: (event: KeySourceEvent) => onEvent({ ...event, issuer }) }
  if (keysFile !== undefined) return openKeyFile({ ...common, path: keysFile })
  return createKeySource({
    ...common,
    locate: createKeySetFinder(issuer, jwksUri, {
      ...discovery && { discovery },
      reader: keyReader,
      mayHaveNone: needsNoKeys(introspection)
    }),
    transport
  })
}

/**
 * Makes the introspection of an issuer. Undefined if it has none.
 * @param keys those of the issuer, for signed answers
 * @throws SettingsError if the private key of this service is missing or is none
 */
export async function createIntrospection (
  issuerSettings: IssuerSettings,
  keys: KeySource,
  settings: Settings,
  {
    surroundings,
    transport = networkOf(settings, true),
    jwtTools = NODE_CRYPTO,
    discovery = createDiscovery(issuerSettings.issuer)
  }: PartOptions
): Promise<TokenIntrospection | undefined> {
  const { issuer, introspection, algs } = issuerSettings
  if (!introspection) return undefined
  const { covers, cacheSeconds, audienceOptional, signed, clientId } = introspection
  const { clockToleranceSeconds } = settings.idp
  const { now, steadyMs: nowMs } = surroundings
  const endpoint = createEndpoint({ issuer, discovery, configured: introspection.endpoint, transport, surroundings })
  const introspector = createIntrospector({
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
        clockToleranceSeconds,
        now
      })
      : undefined
  })
  return {
    covers,
    endpoint,
    needsNoKeys: needsNoKeys(introspection),
    inquiry: createInquiry({ introspector, audienceOptional, cacheSeconds, nowMs, now })
  }
}
