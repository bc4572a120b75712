import { createIntrospection } from './create-introspection.ts'
import { rulesOfIssuer } from './issuer-rules.ts'
import { networkOf } from './network.ts'
import type { ProxySettings } from './network.ts'
import { createKeySource } from '../provider/key-source.ts'
import type { KeySource, KeySourceEvent } from '../provider/key-source.ts'
import { openKeyFile } from '../provider/key-file.ts'
import type { ProviderFailure } from '../provider/provider-failure.ts'
import type { PostingTransport, Transport } from '../provider/transport.ts'
import type { IssuerSettings } from '../settings/issuer-settings.ts'
import { createIssuerReader } from '../settings/validation.ts'
import { SettingsError } from '../settings/problems.ts'
import type { IssuerLookup } from '../settings/option-types.ts'
import type { Settings } from '../settings/settings.ts'
import type { Surroundings } from '../surroundings.ts'
import { createDynamicIssuers, DEFAULT_MAX_ISSUERS } from '../token/dynamic-issuers.ts'
import type { DynamicIssuersOptions } from '../token/dynamic-issuers.ts'
import { createIssuerTable } from '../token/issuer-table.ts'
import type { IssuerTable, TokenIssuer } from '../token/issuer-table.ts'

/** What happened to the keys of one issuer. It is named as the settings name it. */
export type IssuerEvent = (KeySourceEvent & { readonly issuer: string }) |
  /** The first answer after a success that cannot be used: the function has failed, or was too slow, or named no usable settings. */
  { readonly name: 'issuers_unavailable', readonly failure: string }

const DEADLINE_MS = 5000

export interface IssuersOptions {
  /** Takes the place of the issuers of the settings. */
  readonly lookUpIssuer?: IssuerLookup | undefined
  /** The most issuers of the function that are kept. */
  readonly maxIssuers?: number | undefined
  readonly surroundings: Surroundings
  /** How providers are reached. The default follows from the proxy settings. */
  readonly transport?: Transport | undefined
  /** The way by which they are asked about tokens. The default follows from the proxy settings, and keeps its connections. */
  readonly askingTransport?: PostingTransport | undefined
  readonly onEvent: (event: IssuerEvent) => void
}

/** Makes the issuers of the settings, each with keys of its own. Undefined if there is none, because the only domain has a scheme. */
export async function createIssuers (settings: Settings, options: IssuersOptions): Promise<IssuerTable | undefined> {
  const { lookUpIssuer, maxIssuers = DEFAULT_MAX_ISSUERS } = options
  if (lookUpIssuer) return createDynamicIssuers({ ask: createQuestion(lookUpIssuer, settings, options), maxIssuers, nowMs: options.surroundings.steadyMs })
  if (settings.idp.issuers.length === 0) return undefined
  const outcomes = await Promise.allSettled(settings.idp.issuers.map(issuer => createTokenIssuer(issuer, settings, options)))
  const problems = outcomes.flatMap((outcome, index) => outcome.status === 'rejected' ? [...problemsOf(settings, index, outcome.reason as Error)] : [])
  if (problems.length > 0) throw new SettingsError(problems)
  return createIssuerTable(outcomes.map(outcome => (outcome as PromiseFulfilledResult<TokenIssuer>).value))
}

/** Asks the function, and makes a new issuer only if the settings of the issuer have changed. */
function createQuestion (lookUp: IssuerLookup, settings: Settings, options: IssuersOptions): DynamicIssuersOptions['ask'] {
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
  const name = domain === undefined && issuer === undefined ? `idp.issuers[${index}].keysFile` : 'IDP_KEYS_FILE (idp.keysFile)'
  return [`${name} is ${JSON.stringify(issuers[index]!.keysFile)}, which is not usable (${detail}); allowed: path of a file with a JWK set of public keys`]
}

/** @throws ProviderFailure, SettingsError if a file of it is missing or broken */
async function createTokenIssuer (issuer: IssuerSettings, settings: Settings, options: IssuersOptions): Promise<TokenIssuer> {
  const keys = await createKeys(issuer, settings, options)
  const rules = rulesOfIssuer(issuer, settings)
  return {
    issuer: issuer.issuer,
    keys,
    rules,
    scopeClaims: issuer.scopeClaims,
    dpopMode: issuer.dpopMode,
    introspection: await createIntrospection(issuer, { keys, rules, surroundings: options.surroundings, transport: options.askingTransport }, settings)
  }
}

/**
 * Makes the source of the keys of one issuer: its provider, or its file.
 * @throws ProviderFailure if the file is missing or broken
 */
export async function createKeys (
  { issuer, jwksUri, keysFile, algs }: IssuerSettings, proxies: ProxySettings,
  { surroundings: { wallMs: now, random, after, readFile }, transport = networkOf(proxies), onEvent }: IssuersOptions
): Promise<KeySource> {
  const common = { algs, now, schedule: (run: () => void, ms: number) => after(ms, run), onEvent: (event: KeySourceEvent) => onEvent({ ...event, issuer }) }
  if (keysFile !== undefined) return openKeyFile({ ...common, path: keysFile, readFile })
  return createKeySource({ ...common, issuer, jwksUri, transport, random })
}
