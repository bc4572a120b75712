import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { emptyDocument, parseConfigDocument, type ConfigDocument } from './config-document.ts'
import { applyDotenv, parseDotenv } from './dotenv.ts'
import { nameThatWasMeant } from '../base/suggestion.ts'
import { isJsonObject } from '../base/json.ts'
import type { SettingSpec } from './setting-spec.ts'
import { settingSpec, variables as SETTINGS } from './specs.ts'
import { ofVariable, unknown, type Givens } from './given.ts'
import { put, valueAt } from './tree.ts'

export interface SettingsSources {
  /** The environment, `process.env`. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /**
   * Returns the text of the file at a path relative to the working directory, or undefined if there is no file. Throws
   * if the file cannot be read.
   */
  readonly readFile: (path: string) => string | undefined
}

const LOOKS_LIKE_SETTING = /^(?:idp|dpop)_/i

const CONFIG_FILES = ['config.yaml', 'config.yml', 'config.json'] as const

/**
 * Merges the sources. Later sources win: configuration file, `.env`, environment. An empty variable counts as unset. A
 * variable that resembles a setting is a problem, like an unknown key of the file: otherwise something would be allowed
 * that it was meant to forbid. Never throws.
 */
export function collectSettings ({ environment, readFile }: SettingsSources): Givens {
  const dotenv = readSource('.env', readFile)
  const written = parseDotenv(dotenv.text ?? '')
  const given = { ...environment }
  // fastify-cli reads `.env` again after the first code of ours.
  applyDotenv(given, dotenv.text ?? '')
  const variables = withoutEmpty(given)
  const unread = [...dotenv.problem === undefined ? [] : [dotenv.problem], ...written.problems]
  const { values, places, problems, isUnread } = readConfigFile(variables.CONFIG_FILE, readFile)
  for (const [known, name] of SETTINGS) {
    // Programs spell the proxy variables in upper or lower case.
    const variable = variables[known] === undefined && known.endsWith('_PROXY') ? known.toLowerCase() : known
    const { [variable]: value } = variables
    if (value === undefined) continue
    const { short }: SettingSpec = settingSpec(name)
    // What else the section of the file says still holds.
    const path = short !== undefined && isJsonObject(valueAt(values, name)) ? `${name}.${short}` : name
    put(values, path, ofVariable(name, value))
    places.set(path, value === written.variables[variable] ? '.env' : 'environment')
  }
  const known = [...SETTINGS.keys()]
  const strange = Object.keys(variables).filter(name => LOOKS_LIKE_SETTING.test(name) && !known.includes(name)).sort()
  const isMisspelt = (name: string) => nameThatWasMeant(name, known) !== undefined
  return {
    values,
    places,
    problems: [
      ...unread,
      ...problems,
      ...strange.filter(isMisspelt).map(name => unknown('variable', name, known))
    ],
    isUnread: isUnread || unread.length > 0,
    unknownVariables: strange.filter(name => !isMisspelt(name))
  }
}

function readConfigFile (path: string | undefined, readFile: SettingsSources['readFile']): ConfigDocument {
  for (const candidate of path ? [path] : CONFIG_FILES) {
    const { text, problem } = readSource(candidate, readFile)
    if (problem !== undefined) return emptyDocument([problem])
    if (text !== undefined) return parseConfigDocument(text, line => `${candidate}, line ${line}`)
  }
  return emptyDocument(path ? [`CONFIG_FILE is ${JSON.stringify(path)}: there is no such file`] : [])
}

function readSource (
  path: string,
  readFile: SettingsSources['readFile']
): { text?: string, problem?: string } {
  try {
    return { text: readFile(path) }
  } catch (error) {
    return { problem: `${path} cannot be read (${(error as NodeJS.ErrnoException).code})` }
  }
}

function withoutEmpty (variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(variables).filter((entry): entry is [string, string] => Boolean(entry[1])))
}

/** The text of a file, or undefined if there is no file. Throws for any other fault, and for text that is not UTF-8. */
export function readTextIfThere (path: string): string | undefined {
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  // UTF-16 without a mark is UTF-8 too, with a NUL in each character.
  if (!isUtf8(bytes) || bytes.includes(0)) throw Object.assign(new Error(`${path} is not UTF-8`), { code: 'NOT_UTF8' })
  return new TextDecoder().decode(bytes)
}

/** Has a process go by `.env` as settings do, in what it reads of its environment without them. */
export function readDotenvInto (environment: NodeJS.ProcessEnv, readFile: SettingsSources['readFile']): void {
  // What is wrong with the file is told with the settings.
  applyDotenv(environment, readSource('.env', readFile).text ?? '')
}
