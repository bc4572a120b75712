import { createKeySource } from '../provider/key-source.ts'
import type { KeySource, KeySourceEvent } from '../provider/key-source.ts'
import { openKeyFile } from '../provider/key-file.ts'
import type { ProviderFailure } from '../provider/provider-failure.ts'
import { createTransport } from '../provider/transport.ts'
import type { Transport } from '../provider/transport.ts'
import type { IssuerSettings } from '../settings/issuer-settings.ts'
import { SettingsError } from '../settings/problems.ts'
import type { Settings } from '../settings/settings.ts'
import type { Surroundings } from '../surroundings.ts'
import { createIssuerTable } from '../token/issuer-table.ts'
import type { IssuerTable, TokenIssuer } from '../token/issuer-table.ts'
import { createTokenRules } from '../token/jwt-checks.ts'

/** What happened to the keys of one issuer. It is named as the settings name it. */
export type IssuerEvent = KeySourceEvent & { readonly issuer: string }

/** The settings of calls to providers. */
export type ProxySettings = Pick<Settings, 'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY'>

export interface IssuersOptions {
  readonly surroundings: Surroundings
  /** How providers are reached. The default follows from the proxy settings. */
  readonly transport?: Transport
  readonly onEvent: (event: IssuerEvent) => void
}

/** Makes the issuers of the settings, each with keys of its own. Undefined if there is none, because the only domain has a scheme. */
export async function createIssuers (settings: Settings, options: IssuersOptions): Promise<IssuerTable | undefined> {
  if (settings.issuers.length === 0) return undefined
  const outcomes = await Promise.allSettled(settings.issuers.map(issuer => createTokenIssuer(issuer, settings, options)))
  const problems = outcomes.flatMap((outcome, index) => outcome.status === 'rejected' ? [keysFileProblem(settings, index, outcome.reason as ProviderFailure)] : [])
  const issuers = outcomes.flatMap(outcome => outcome.status === 'fulfilled' ? [outcome.value] : [])
  if (problems.length > 0) throw new SettingsError(problems)
  return createIssuerTable(issuers)
}

/** Only the key file of an issuer can fail at the start. */
function keysFileProblem ({ issuers, IDP_ISSUERS }: Settings, index: number, { word, detail = word }: ProviderFailure): string {
  const name = IDP_ISSUERS ? `idp.issuers[${index}].keysFile` : 'IDP_KEYS_FILE (idp.keysFile)'
  return `${name} is ${JSON.stringify(issuers[index]!.keysFile)}, which is not usable (${detail}); allowed: path of a file with a JWK set of public keys`
}

/** @throws ProviderFailure if its key file is missing or broken */
async function createTokenIssuer (issuer: IssuerSettings, settings: Settings, options: IssuersOptions): Promise<TokenIssuer> {
  return {
    issuer: issuer.issuer,
    keys: await createKeys(issuer, settings, options),
    rules: createTokenRules({ issuer: issuer.issuer, audience: issuer.audience, resource: settings.RESOURCE, algs: issuer.algs, clockToleranceSeconds: settings.IDP_CLOCK_TOLERANCE_SECONDS }),
    scopeClaims: issuer.scopeClaims,
    dpopMode: issuer.dpopMode
  }
}

/**
 * Makes the source of the keys of one issuer: its provider, or its file.
 * @throws ProviderFailure if the file is missing or broken
 */
export async function createKeys (
  { issuer, jwksUri, keysFile, algs }: IssuerSettings, { HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy }: ProxySettings,
  { surroundings: { wallMs: now, random, after, readFile }, transport = createTransport({ httpProxy, httpsProxy, noProxy }), onEvent }: IssuersOptions
): Promise<KeySource> {
  const common = { algs, now, schedule: (run: () => void, ms: number) => after(ms, run), onEvent: (event: KeySourceEvent) => onEvent({ ...event, issuer }) }
  if (keysFile !== undefined) return openKeyFile({ ...common, path: keysFile, readFile })
  return createKeySource({ ...common, issuer, jwksUri, transport, random })
}
