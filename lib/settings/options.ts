import { hiddenMember } from '../base/hidden-member.ts'
import { isJsonObject } from '../base/json.ts'
import type { AppTrust } from '../guard/url/base-url.ts'
import { SettingsError } from '../base/settings-error.ts'
import type { HoldfastOptions, IssuerLookup } from './option-types.ts'
import { ofVariable, readMembers, readSetting, SECTIONS, TREE_SETTINGS, unknown, type Givens } from './given.ts'
import { settingNames, settingSpec, type SettingName } from './specs.ts'
import { noSettings } from './tree.ts'

/** The settings by their variables, those too that no variable can hold. */
const NAMES: ReadonlyMap<string, SettingName> = new Map(settingNames.map(name => [settingSpec(name).variable, name]))

/**
 * What an application gives a plugin of ours, without what Fastify reads itself. Every other option is ours, so a
 * misspelt one is seen.
 * @throws SettingsError if it is no object
 */
export function ownOptions (given: object): object {
  if (!isJsonObject(given)) {
    throw new SettingsError(['options: expected an object with sections such as idp, or with names of the environment'])
  }
  const { prefix: _prefix, logLevel: _logLevel, logSerializers: _logSerializers, ...options } = given
  return options
}

/** The functions of an application that take the place of settings. */
export interface AppFunctions {
  /** Names the issuers, in place of their list. */
  readonly lookUpIssuer?: IssuerLookup | undefined
  /** Maximum number of issuers of that function that are kept. */
  readonly maxIssuers?: number | undefined
  /** Decides about peers, in place of `trustProxy`. */
  readonly trustPeer?: AppTrust | undefined
}

// A table takes memory for all its places when it is made.
const MOST_ISSUERS = 100_000

/**
 * Takes the function `idp.issuers`, and `idp.maxIssuers` that belongs to it, out of the options. The rest are settings.
 * @throws SettingsError for a limit that is no integer from 1 to 100000
 */
export function takeIssuerLookup (
  options: HoldfastOptions
): Omit<AppFunctions, 'trustPeer'> & { readonly written: object } {
  const { idp } = options
  if (typeof idp?.issuers !== 'function') return { written: options }
  const { issuers, maxIssuers, ...rest } = idp
  if (maxIssuers !== undefined && !(Number.isInteger(maxIssuers) && maxIssuers >= 1 && maxIssuers <= MOST_ISSUERS)) {
    throw new SettingsError([`idp.maxIssuers is ${JSON.stringify(maxIssuers)}; allowed: integer, 1 to ${MOST_ISSUERS}`])
  }
  return { written: { ...options, idp: rest }, lookUpIssuer: issuers, maxIssuers }
}

/**
 * Reads the options of the plugin: an object in the shape of the configuration file, such as `{ idp: { domain, audience
 * } }`, or one with the names of the environment, such as `{ IDP_DOMAIN, IDP_AUDIENCE }`. A value that is undefined or
 * null counts as unset. Under a name of the environment an empty text does too, as in the environment. Values are
 * judged later, with the settings.
 * @throws SettingsError with the name of each unknown key, or if both forms are mixed
 */
export function settingsFromOptions (options: object): Givens {
  const values = noSettings()
  const problems: string[] = []
  const tell = (_path: string, problem: string) => {
    problems.push(`options: ${problem}`)
  }
  for (const [key, value] of Object.entries(options)) {
    const name = NAMES.get(key)
    if (!name && /[a-z]/.test(key)) readMembers({ [key]: value }, { values, tell })
    else if (!name) tell(key, unknown('key', key, [...NAMES.keys(), ...SECTIONS]))
    else if (value !== undefined && value !== null && value !== '') {
      readSetting(ofVariable(name, value), { values, tell }, key, name)
    }
  }
  const keys = Object.keys(options)
  const section = keys.find(key => SECTIONS.has(key) || TREE_SETTINGS.has(key))
  // What no section has may stand beside them.
  const variable = keys.find(key => NAMES.has(key) && settingSpec(NAMES.get(key)!).from !== 'environment')
  if (section !== undefined && variable !== undefined) {
    tell(
      section,
      `${section} is a section of the configuration file, and ${variable} is a name of the environment: use one form ` +
        'for all options'
    )
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return { values, places: new Map(), problems, isUnread: false, unknownVariables: [] }
}

/** What `Fastify({ trustProxy })` takes. */
type TrustOption = boolean | string | number | readonly string[] | AppTrust | undefined

/**
 * Completes options that say nothing of `trustProxy` by that of the app: a proof is then judged by the host and the
 * scheme that the app itself believes. A number of hops does not say which peer is a proxy. Fastify trusts no peer
 * then, and neither does this.
 */
export function withTrustOf (
  app: object,
  options: Givens
): Pick<AppFunctions, 'trustPeer'> & { readonly options: Givens } {
  const { values } = options
  const trust = values.server.trustProxy === undefined ? trustOf(app) : undefined
  if (typeof trust === 'function') return { options, trustPeer: trust }
  const isSaid = trust !== undefined && typeof trust !== 'number'
  return {
    options: isSaid ? { ...options, values: { ...values, server: { ...values.server, trustProxy: trust } } } : options,
    trustPeer: undefined
  }
}

/** The option of the app, or undefined if Fastify keeps it elsewhere: then no peer is trusted. */
function trustOf (app: object): TrustOption {
  const options = hiddenMember(app, 'fastify.options')?.value as { readonly trustProxy?: TrustOption } | undefined
  return options?.trustProxy
}
