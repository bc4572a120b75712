import { nameThatWasMeant } from '../suggestion.ts'
import { SettingsError } from './problems.ts'
import type { EntriesSchema } from './setting-spec.ts'
import type { HoldfastOptions, IssuerLookup } from './option-types.ts'
import { hasMembers, membersUnder, SECTIONS, SETTING_BY_KEY } from './keys.ts'
import { settingNames, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'

const NAMES: ReadonlySet<string> = new Set(settingNames)

/**
 * What an application gives a plugin of ours, without what Fastify reads itself. Every other option is ours, so a misspelt one is seen.
 * @throws SettingsError if it is no object
 */
export function ownOptions (given: object): object {
  if (typeof given !== 'object' || Array.isArray(given)) throw new SettingsError(['options: expected an object with sections such as idp, or with names of the environment'])
  const { prefix: _prefix, logLevel: _logLevel, logSerializers: _logSerializers, ...options } = given as Readonly<Record<string, unknown>>
  return options
}

/** Options without what belongs to a function in the place of the list of issuers, and that function with its limit, if there is one. */
export interface TakenLookup {
  readonly written: object
  readonly lookUpIssuer: IssuerLookup | undefined
  readonly maxIssuers: number | undefined
}

export const NO_LOOKUP: TakenLookup = { written: {}, lookUpIssuer: undefined, maxIssuers: undefined }

// A table takes memory for all its places when it is made.
const MOST_ISSUERS = 100_000

/**
 * Takes the function `idp.issuers`, and `idp.maxIssuers` that belongs to it, out of the options. The rest are settings.
 * @throws SettingsError for a limit that is no integer from 1 to 100000
 */
export function takeIssuerLookup (options: HoldfastOptions): TakenLookup {
  const { idp } = options
  if (typeof idp?.issuers !== 'function') return { ...NO_LOOKUP, written: options }
  const { issuers, maxIssuers, ...rest } = idp
  if (maxIssuers !== undefined && !(Number.isInteger(maxIssuers) && maxIssuers >= 1 && maxIssuers <= MOST_ISSUERS)) {
    throw new SettingsError([`idp.maxIssuers is ${JSON.stringify(maxIssuers)}; allowed: integer, 1 to ${MOST_ISSUERS}`])
  }
  return { written: { ...options, idp: rest }, lookUpIssuer: issuers, maxIssuers }
}

/**
 * Reads the options of the plugin: an object in the shape of the configuration file, such as `{ idp: { domain, audience } }`, or one
 * with the names of the environment, such as `{ IDP_DOMAIN, IDP_AUDIENCE }`. A value that is undefined or null counts as unset. Under
 * a name of the environment an empty text does too, as in the environment. Values are judged later, with the settings.
 * @throws SettingsError with the name of each unknown key, or if both forms are mixed
 */
export function settingsFromOptions (options: object): RawSettings {
  const values: RawSettings = {}
  const problems: string[] = []
  for (const [key, value] of Object.entries(options)) {
    if (NAMES.has(key)) put(key as SettingName, value === '' ? undefined : value, key)
    // A section that its own module judges.
    else if (SETTING_BY_KEY.has(key)) put(SETTING_BY_KEY.get(key)!, value, key)
    else if (SECTIONS.has(key)) readSection(key, value)
    else problems.push(unknown(key, /[a-z]/.test(key) ? [...SECTIONS, ...SETTING_BY_KEY.keys()] : settingNames))
  }
  const section = Object.keys(options).find(key => SECTIONS.has(key) || SETTING_BY_KEY.has(key))
  const name = Object.keys(options).find(key => NAMES.has(key))
  if (section !== undefined && name !== undefined) {
    problems.push(`options: ${section} is a section of the configuration file, and ${name} is a name of the environment: use one form for all options`)
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return values

  function readSection (section: string, content: unknown): void {
    if (content === undefined || content === null) return
    if (typeof content !== 'object' || Array.isArray(content)) {
      problems.push(noSection(section))
      return
    }
    for (const [member, value] of Object.entries(content)) {
      const key = `${section}.${member}`
      const name = SETTING_BY_KEY.get(key)
      if (name) put(name, value, key)
      else if (SECTIONS.has(key)) readSection(key, value)
      else problems.push(unknown(key, [...SETTING_BY_KEY.keys()]))
    }
  }

  /** The object of a list, under the environment names of its members' settings, as from the file. */
  function readEntry (schema: EntriesSchema, entry: unknown, path: string): unknown {
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return entry
    const names = membersUnder(path, schema)
    const read: RawSettings = {}
    readMembers(entry, path)
    return read

    function readMembers (members: object, path: string): void {
      for (const [member, value] of Object.entries(members)) {
        const key = `${path}.${member}`
        const name = names.get(key)
        if (!name && !hasMembers(key, names)) problems.push(unknown(key, [...names.keys()]))
        else if (value === undefined || value === null) continue
        else if (name && isData(value)) read[name] = value
        else if (name) problems.push(noData(key, name))
        else if (typeof value !== 'object' || Array.isArray(value)) problems.push(noSection(key))
        else readMembers(value, key)
      }
    }
  }

  function put (name: SettingName, value: unknown, key: string): void {
    if (value === undefined || value === null) return
    const { schema } = settingSpec(name)
    if (schema.type === 'entries' && Array.isArray(value)) values[name] = value.map((entry, index) => readEntry(schema, entry, `${key}[${index}]`))
    else if (isData(value)) values[name] = value
    else problems.push(noData(key, name))
  }
}

function unknown (key: string, names: readonly string[]): string {
  const meant = nameThatWasMeant(key, names)
  return `options: unknown key ${JSON.stringify(key)}${meant === undefined ? '' : `; did you mean ${meant}?`}`
}

function noSection (key: string): string {
  return `options: ${key} is a section: expected keys under it`
}

function noData (key: string, name: SettingName): string {
  return `options: ${key} is not a text, a number, a boolean or a list; allowed: ${settingSpec(name).allowed}`
}

/** True for what a configuration file can hold, or leave out. A function or a promise, for example, can be neither copied nor shown. */
function isData (value: unknown): boolean {
  if (typeof value !== 'object') return ['string', 'number', 'boolean', 'undefined'].includes(typeof value)
  if (value === null) return true
  // Another realm, such as that of a test runner, has an Object of its own, but gives it the same tag.
  return ['[object Object]', '[object Array]'].includes(Object.prototype.toString.call(value)) && Object.values(value).every(isData)
}
