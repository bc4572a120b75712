import { parseEnv } from 'node:util'
import { parseConfigDocument } from './config-document.ts'
import type { ConfigDocument } from './config-document.ts'
import { nameThatWasMeant } from './meant.ts'
import { SettingsError } from './settings-error.ts'
import { settingNames } from './specs.ts'
import type { SettingName } from './specs.ts'

/** Settings by their environment names, as found and not validated yet. */
export type RawSettings = Partial<Record<SettingName, unknown>>

export interface SettingsSources {
  /** The environment, `process.env`. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Text of the file at a path relative to the working directory, or undefined where there is none. Throws where it cannot be read. */
  readonly readFile: (path: string) => string | undefined
}

/** What is wrong with the sources themselves, to be told together with what is wrong with values. */
export interface SourceFaults {
  readonly problems: readonly string[]
  /** A file could not be read: what is missing elsewhere may stand in it. */
  readonly isFileUnread: boolean
  /** Variables that begin as settings do, are none, and are like none: for a warning. */
  readonly unknownVariables: readonly string[]
}

export interface CollectedSettings extends SourceFaults {
  readonly values: RawSettings
}

const LOOKS_LIKE_SETTING = /^(?:idp|dpop)_/i

const CONFIG_FILES = ['config.yaml', 'config.yml', 'config.json'] as const

/**
 * Merges the sources; later wins: configuration file, `.env`, environment. An empty variable counts as unset. A variable that
 * is nearly a setting is a problem, as an unknown key of the file is: what it was meant to forbid would be allowed. It never throws.
 */
export function collectSettings ({ environment, readFile }: SettingsSources): CollectedSettings {
  const dotenv = readSource('.env', readFile)
  const variables = { ...withoutEmpty(parseEnv(dotenv.text ?? '')), ...withoutEmpty(environment) }
  const { values, problems, isFileUnread } = readConfigFile(variables.CONFIG_FILE, readFile)
  for (const name of settingNames) {
    // Programs differ in how they spell the variables of proxies.
    const text = variables[name] ?? (name.endsWith('_PROXY') ? variables[name.toLowerCase()] : undefined)
    if (text !== undefined) values[name] = text
  }
  const unknown = unknownVariablesOf(variables)
  const misspelt = unknown.flatMap(({ name, meant }) => meant === undefined ? [] : [`unknown variable ${JSON.stringify(name)}; did you mean ${meant}?`])
  return {
    values,
    problems: [...dotenv.problem === undefined ? [] : [dotenv.problem], ...problems, ...misspelt],
    isFileUnread: isFileUnread || dotenv.problem !== undefined,
    unknownVariables: unknown.flatMap(({ name, meant }) => meant === undefined ? [name] : [])
  }
}

function unknownVariablesOf (variables: Readonly<Record<string, string>>): Array<{ name: string, meant: string | undefined }> {
  const known: readonly string[] = settingNames
  return Object.keys(variables)
    .filter(name => LOOKS_LIKE_SETTING.test(name) && !known.includes(name))
    .sort()
    .map(name => ({ name, meant: nameThatWasMeant(name, known) }))
}

function readConfigFile (path: string | undefined, readFile: SettingsSources['readFile']): ConfigDocument {
  for (const candidate of path ? [path] : CONFIG_FILES) {
    const { text, problem } = readSource(candidate, readFile)
    if (problem !== undefined) return { values: {}, problems: [problem], isFileUnread: true }
    if (text !== undefined) return parseConfigDocument(text, line => `${candidate}, line ${line}`)
  }
  return path
    ? { values: {}, problems: [`CONFIG_FILE is ${JSON.stringify(path)}: there is no such file`], isFileUnread: true }
    : { values: {}, problems: [], isFileUnread: false }
}

function readSource (path: string, readFile: SettingsSources['readFile']): { text?: string | undefined, problem?: string } {
  try {
    return { text: readFile(path) }
  } catch (error) {
    return { problem: `${path} cannot be read (${(error as NodeJS.ErrnoException).code})` }
  }
}

/**
 * Reads settings from an object in the shape of the configuration file, such as `{ idp: { domain, audience } }`.
 * @throws SettingsError naming each unknown key
 */
export function settingsFromObject (object: object): RawSettings {
  const { values, problems } = parseConfigDocument(JSON.stringify(object), () => 'options')
  if (problems.length > 0) throw new SettingsError(problems)
  return values
}

function withoutEmpty (variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(variables).filter((entry): entry is [string, string] => Boolean(entry[1])))
}
