import type { AppTrust } from '../url/base-url.ts'
import { SettingsError } from './problems.ts'
import type { HoldfastOptions, IssuerLookup } from './option-types.ts'
import { give, readMembers, SECTIONS, tell, TREE_SETTINGS, unknown } from './given.ts'
import type { Givens, Member, Reading, Written } from './given.ts'
import { settingNames, settingSpec } from './specs.ts'
import type { SettingName } from './specs.ts'

/** The settings by their variables, those too that no variable can hold. */
const NAMES: ReadonlyMap<string, SettingName> = new Map(settingNames.map(name => [settingSpec(name).variable, name]))
/** Options have no lines. */
const PLACE = 'options'

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
export function settingsFromOptions (options: object): Givens {
  const reading: Reading = { givens: [], places: new Map(), problems: [] }
  const members = membersOf(options)
  for (const member of members) {
    const { key, place, written } = member
    const name = NAMES.get(key)
    if (!name && /[a-z]/.test(key)) readMembers([member], reading)
    else if (!name) tell(reading, place, unknown('key', key, [...NAMES.keys(), ...SECTIONS]))
    else if (!written.isUnset && written.value !== '') give(written, reading, key, name, place)
  }
  const section = members.find(({ key }) => SECTIONS.has(key) || TREE_SETTINGS.has(key))?.key
  const name = members.find(({ key }) => NAMES.has(key))?.key
  if (section !== undefined && name !== undefined) {
    tell(
      reading,
      PLACE,
      `${section} is a section of the configuration file, and ${name} is a name of the environment: use one form for ` +
        'all options'
    )
  }
  if (reading.problems.length > 0) throw new SettingsError(reading.problems)
  return { ...reading, isUnread: false, unknownVariables: [] }
}

function membersOf (section: object): Member[] {
  return Object.entries(section).map(([key, value]) => ({ key, place: PLACE, written: writtenOf(value) }))
}

function writtenOf (value: unknown): Written {
  return {
    place: PLACE,
    isUnset: value === undefined || value === null,
    value,
    get members () {
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? membersOf(value) : undefined
    },
    get items () {
      return Array.isArray(value) ? value.map(writtenOf) : undefined
    }
  }
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
  const key = 'server.trustProxy'
  const trust = options.givens.some(given => given.key === key) ? undefined : trustOf(app)
  if (typeof trust === 'function') return { options, trustPeer: trust }
  const isSaid = trust !== undefined && typeof trust !== 'number'
  return {
    options: isSaid ? { ...options, givens: [...options.givens, { key, value: trust, place: PLACE }] } : options,
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
