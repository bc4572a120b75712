import type { AppTrust } from '../url/base-url.ts'
import { SettingsError } from './problems.ts'
import type { HoldfastOptions, IssuerLookup } from './option-types.ts'
import type { SourceFaults } from './sources.ts'
import { settingNames, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { noSettings, put, readMembers, readValue, SECTIONS, TREE_SETTINGS, unknown } from './tree.ts'
import type { Form } from './tree.ts'

/** The settings by their variables, those too that no variable can hold. */
const NAMES: ReadonlyMap<string, SettingName> = new Map(settingNames.map(name => [settingSpec(name).variable, name]))
/** Options have no lines. */
const PLACE = 'options'

/** Of options, which come from no source. */
export const NO_FAULTS: SourceFaults = { problems: [], places: new Map(), isFileUnread: false, unknownVariables: [] }

/**
 * What an application gives a plugin of ours, without what Fastify reads itself. Every other option is ours, so a
 * misspelt one is seen.
 * @throws SettingsError if it is no object
 */
export function ownOptions (given: object): object {
  if (typeof given !== 'object' || Array.isArray(given)) {
    throw new SettingsError(['options: expected an object with sections such as idp, or with names of the environment'])
  }
  const { prefix: _prefix, logLevel: _logLevel, logSerializers: _logSerializers, ...options } = given as Readonly<
    Record<string, unknown>
  >
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
export function settingsFromOptions (options: object): RawSettings {
  const values = noSettings()
  const problems: string[] = []
  const form: Form<unknown> = {
    members: node =>
      typeof node === 'object' && !Array.isArray(node) && node !== null
        ? Object.entries(node).map(([key, node]) => ({ key, node, place: PLACE }))
        : undefined,
    items: node => Array.isArray(node) ? node : undefined,
    isUnset: node => node === undefined || node === null,
    value (node, path, name) {
      if (isData(node)) return node
      form.tell(
        PLACE,
        name === undefined
          ? `${path} is no section: expected keys under it`
          : `${path} is not a text, a number, a boolean or a list; allowed: ${settingSpec(name).allowed}`
      )
      return undefined
    },
    isLeftOut: () => false,
    areEntriesNested: true,
    tell: (place, problem) => problems.push(`${place}: ${problem}`)
  }
  const set = (name: SettingName, value: unknown): void => put(values, name, value)
  for (const [key, node] of Object.entries(options)) {
    const name = NAMES.get(key)
    if (!name && /[a-z]/.test(key)) readMembers([{ key, node, place: PLACE }], form, set)
    else if (!name) form.tell(PLACE, unknown('key', key, [...NAMES.keys()]))
    else if (!form.isUnset(node) && node !== '') set(name, readValue(node, form, key, name))
  }
  const section = Object.keys(options).find(key => SECTIONS.has(key) || TREE_SETTINGS.has(key))
  const name = Object.keys(options).find(key => NAMES.has(key))
  if (section !== undefined && name !== undefined) {
    problems.push(
      `options: ${section} is a section of the configuration file, and ${name} is a name of the environment: use ` +
        'one form for all options'
    )
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return values
}

/**
 * True for what a configuration file can hold, or leave out. A function or a promise, for example, can be neither
 * copied nor shown.
 */
function isData (value: unknown): boolean {
  if (typeof value !== 'object') return ['string', 'number', 'boolean', 'undefined'].includes(typeof value)
  if (value === null) return true
  // Another realm, such as that of a test runner, has an Object of its own, but gives it the same tag.
  return ['[object Object]', '[object Array]'].includes(Object.prototype.toString.call(value)) &&
    Object.values(value).every(isData)
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
  options: RawSettings
): Pick<AppFunctions, 'trustPeer'> & { readonly options: RawSettings } {
  const trust = options.server.trustProxy === undefined ? trustOf(app) : undefined
  if (typeof trust === 'function') return { options, trustPeer: trust }
  const isSaid = trust !== undefined && typeof trust !== 'number'
  return {
    options: isSaid ? { ...options, server: { ...options.server, trustProxy: trust } } : options,
    trustPeer: undefined
  }
}

/**
 * The option of the app. Fastify has no public way to ask for it, so this looks at the property that keeps it.
 * Undefined if there is no such property: then no peer is trusted.
 */
function trustOf (app: object): TrustOption {
  for (let owner: object | null = app; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    const key = Object.getOwnPropertySymbols(owner).find(({ description }) => description === 'fastify.options')
    if (key) return (owner as Record<symbol, { readonly trustProxy?: TrustOption }>)[key]!.trustProxy
  }
  return undefined
}
