import { parseEnv } from 'node:util'
import { LineCounter, isMap, isScalar, parseDocument } from 'yaml'
import type { YAMLMap } from 'yaml'
import { settingNames, settingSpec } from './specs.ts'
import type { SettingName } from './specs.ts'
import { SettingsError } from './settings-error.ts'

/** Settings by their environment names, as found and not validated yet. */
export type RawSettings = Partial<Record<SettingName, unknown>>

export interface SettingsSources {
  /** The environment, `process.env`. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Text of the file at a path relative to the working directory, or undefined where there is none. */
  readonly readFile: (path: string) => string | undefined
}

const CONFIG_FILES = ['config.yaml', 'config.yml', 'config.json']

/**
 * Merges the sources; later wins: configuration file, `.env`, environment. An empty variable counts as unset.
 * @throws SettingsError naming each unknown key of the file with its line, or the file's syntax error.
 */
export function collectSettings ({ environment, readFile }: SettingsSources): RawSettings {
  const variables = { ...withoutEmpty(parseEnv(readFile('.env') ?? '')), ...withoutEmpty(environment) }
  const values: RawSettings = readConfigFile(variables.CONFIG_FILE, readFile)
  for (const name of settingNames) {
    const text = variables[name] ?? (name.endsWith('_PROXY') ? variables[name.toLowerCase()] : undefined)
    if (text !== undefined) values[name] = fromText(name, text)
  }
  return values
}

/**
 * Reads settings from an object in the shape of the configuration file, such as `{ idp: { domain, audience } }`.
 * @throws SettingsError naming each unknown key.
 */
export function settingsFromObject (object: object): RawSettings {
  return fromDocument(JSON.stringify(object), 'options')
}

function withoutEmpty (variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(variables).filter((entry): entry is [string, string] => Boolean(entry[1])))
}

function readConfigFile (path: string | undefined, readFile: SettingsSources['readFile']): RawSettings {
  for (const candidate of path ? [path] : CONFIG_FILES) {
    const text = readFile(candidate)
    if (text !== undefined) return fromDocument(text, candidate)
  }
  if (path) throw new SettingsError([`CONFIG_FILE is ${JSON.stringify(path)}: there is no such file`])
  return {}
}

// JSON is read as the YAML that it is, so both have line numbers.
function fromDocument (text: string, file: string): RawSettings {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter })
  const lineOf = (offset: number) => lineCounter.linePos(offset).line
  if (document.errors.length > 0) {
    throw new SettingsError(document.errors.map(error => `${file}, line ${lineOf(error.pos[0])}: ${error.code.toLowerCase().replaceAll('_', ' ')}`))
  }
  if (document.contents === null) return {}
  if (!isMap(document.contents)) throw new SettingsError([`${file}: expected keys such as idp.domain and idp.audience`])

  const values: RawSettings = {}
  const problems: string[] = []
  walk(document.contents, '', (key, offset, value) => {
    const name = settingNames.find(name => settingSpec(name).file === key)
    if (!name) problems.push(`${file}, line ${lineOf(offset)}: unknown key ${JSON.stringify(key)}`)
    else if (value !== null) values[name] = typeof value === 'string' ? fromText(name, value) : fromValue(name, value)
  })
  if (problems.length > 0) throw new SettingsError(problems)
  return values
}

type Visit = (key: string, offset: number, value: unknown) => void

function walk (map: YAMLMap, prefix: string, visit: Visit): void {
  for (const { key, value } of map.items) {
    const name = prefix + String(isScalar(key) ? key.value : key)
    const isSection = settingNames.some(setting => settingSpec(setting).file?.startsWith(`${name}.`))
    if (isSection && isMap(value)) walk(value, `${name}.`, visit)
    else if (!isSection || !isScalar(value) || value.value !== null) visit(name, isScalar(key) ? key.range![0] : 0, toJs(value))
  }
}

function toJs (value: unknown): unknown {
  return value === null ? null : (value as { toJSON (): unknown }).toJSON()
}

const isList = (name: SettingName): boolean => settingSpec(name).schema.type === 'array'

// A list is separated by spaces, commas or both.
function fromText (name: SettingName, text: string): unknown {
  return isList(name) ? text.split(/[\s,]+/).filter(Boolean) : text
}

// A boolean or number where a list is expected is its only entry: `trustProxy: true`.
function fromValue (name: SettingName, value: unknown): unknown {
  return isList(name) && typeof value !== 'object' ? [String(value)] : value
}
