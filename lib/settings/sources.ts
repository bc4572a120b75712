import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parseEnv } from 'node:util'
import type { Document, Node, YAMLMap } from 'yaml'
import { nameThatWasMeant } from './problems.ts'
import { settingNames, settingSpec, variableNames } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'

const require = createRequire(import.meta.url)
/** The YAML parser is loaded only if there is a file to read. */
const yaml = (): typeof import('yaml') => require('yaml')

/** For each setting that is set, where it was found: `config.yaml, line 3`, `.env` or `environment`. */
export type SettingOrigins = Partial<Record<SettingName, string>>

/** The settings in a configuration file, and the problems of the file. */
export interface ConfigDocument {
  readonly values: RawSettings
  /** Where each value stands, in words. */
  readonly origins: SettingOrigins
  readonly problems: readonly string[]
  readonly isFileUnread: boolean
}

const NAMES_BY_KEY = new Map(settingNames.flatMap(name => settingSpec(name).file === null ? [] : [[settingSpec(name).file!, name] as const]))
const SECTIONS = new Set([...NAMES_BY_KEY.keys()].map(key => key.split('.')[0]!))

/**
 * Reads the text of a configuration file. YAML and JSON are both read as YAML, so that problems of both have line numbers. Numbers
 * stay as they were written, because an audience may look like a number. A key without a value counts as unset. Problems name line
 * and key. They never hold a value, because it may be a secret. If the text cannot be read at all, `isFileUnread` is true.
 * @param place the file and a line of it (from 1), in words
 */
export function parseConfigDocument (text: string, place: (line: number) => string): ConfigDocument {
  const { LineCounter, isMap, isScalar, parseDocument } = yaml()
  const lineCounter = new LineCounter()
  // Duplicate keys are reported below, with their names: the parser would not name them.
  const document = parseDocument(text, { lineCounter, schema: 'failsafe', customTags: ['null', 'bool'], uniqueKeys: false })
  const at = (offset: number): string => place(lineCounter.linePos(offset).line)
  const problems = syntaxProblems(document, at)
  const values: RawSettings = {}
  const origins: SettingOrigins = {}
  if (problems.length > 0) return { values, origins, problems, isFileUnread: true }
  if (isEmpty(document.contents)) return { values, origins, problems, isFileUnread: false }
  if (!isMap(document.contents)) return { values, origins, problems: [`${at(0)}: expected sections such as idp and server`], isFileUnread: true }

  const seen = new Set<string>()
  readMap(document.contents, '')
  return { values, origins, problems, isFileUnread: false }

  function readMap (map: YAMLMap, prefix: string): void {
    for (const { key: node, value } of map.items) {
      const key = prefix + String(isScalar(node) ? node.value : node)
      const name = NAMES_BY_KEY.get(key)
      const tell = (problem: string) => problems.push(`${at((node as Node).range![0])}: ${problem}`)
      if (seen.has(key)) tell(`the key ${JSON.stringify(key)} appears twice`)
      seen.add(key)
      if (!name && !SECTIONS.has(key)) tell(`unknown key ${JSON.stringify(key)}${hint(prefix, key)}`)
      else if (isEmpty(value)) continue
      else if (name) [values[name], origins[name]] = [(value as Node).toJS(document), at((node as Node).range![0])]
      else if (isMap(value)) readMap(value, `${key}.`)
      else tell(`${key} is a section: expected keys under it`)
    }
  }
}

function hint (prefix: string, key: string): string {
  const meant = nameThatWasMeant(key, [...prefix === '' ? SECTIONS : [], ...NAMES_BY_KEY.keys()])
  return meant === undefined ? '' : `; did you mean ${meant}?`
}

function syntaxProblems (document: Document.Parsed, at: (offset: number) => string): string[] {
  // Only the code of the parser's message is shown, because the rest may quote a value. An unknown tag, such as `!vault`, is only a warning
  // of the parser, but the value would not be the one that was meant.
  const problems = [...document.errors, ...document.warnings].map(({ pos, code }) => `${at(pos[0])}: syntax error (${code.toLowerCase().replaceAll('_', ' ')})`)
  yaml().visit(document, { Alias: (_key, node) => { problems.push(`${at(node.range![0])}: aliases are not supported`) } })
  return problems
}

function isEmpty (node: unknown): boolean {
  return node === null || (yaml().isScalar(node) && node.value === null)
}

export interface SettingsSources {
  /** The environment, `process.env`. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /**
   * Returns the text of the file at a path relative to the working directory, or undefined if there is no file. Throws if the file
   * cannot be read.
   */
  readonly readFile: (path: string) => string | undefined
}

/** Problems of the sources themselves. They are reported together with problems of values. */
export interface SourceFaults {
  readonly problems: readonly string[]
  /** A file could not be read. A value that seems to be missing may be in it. */
  readonly isFileUnread: boolean
  /** Variables that begin as settings do, but neither are settings nor resemble one. They cause a warning. */
  readonly unknownVariables: readonly string[]
}

export interface CollectedSettings extends SourceFaults {
  readonly values: RawSettings
  readonly origins: SettingOrigins
}

const LOOKS_LIKE_SETTING = /^(?:idp|dpop)_/i

const CONFIG_FILES = ['config.yaml', 'config.yml', 'config.json'] as const

/**
 * Merges the sources. Later sources win: configuration file, `.env`, environment. An empty variable counts as unset. A variable
 * that resembles a setting is a problem, like an unknown key of the file: otherwise something would be allowed that it was meant to
 * forbid. Never throws.
 */
export function collectSettings ({ environment, readFile }: SettingsSources): CollectedSettings {
  const dotenv = readSource('.env', readFile)
  const exported = withoutEmpty(environment)
  const variables = { ...withoutEmpty(parseEnv(dotenv.text ?? '')), ...exported }
  const { values, origins, problems, isFileUnread } = readConfigFile(variables.CONFIG_FILE, readFile)
  for (const name of variableNames) {
    // Programs spell the proxy variables in upper or lower case.
    const variable = variables[name] === undefined && name.endsWith('_PROXY') ? name.toLowerCase() : name
    if (variables[variable] === undefined) continue
    values[name] = variables[variable]
    origins[name] = variable in exported ? 'environment' : '.env'
  }
  const unknown = unknownVariablesOf(variables)
  const misspelt = unknown.flatMap(({ name, meant }) => meant === undefined ? [] : [`unknown variable ${JSON.stringify(name)}; did you mean ${meant}?`])
  return {
    values,
    origins,
    problems: [...dotenv.problem === undefined ? [] : [dotenv.problem], ...problems, ...misspelt],
    isFileUnread: isFileUnread || dotenv.problem !== undefined,
    unknownVariables: unknown.flatMap(({ name, meant }) => meant === undefined ? [name] : [])
  }
}

function unknownVariablesOf (variables: Readonly<Record<string, string>>): Array<{ name: string, meant: string | undefined }> {
  const known: readonly string[] = variableNames
  return Object.keys(variables)
    .filter(name => LOOKS_LIKE_SETTING.test(name) && !known.includes(name))
    .sort()
    .map(name => ({ name, meant: nameThatWasMeant(name, known) }))
}

function readConfigFile (path: string | undefined, readFile: SettingsSources['readFile']): ConfigDocument {
  for (const candidate of path ? [path] : CONFIG_FILES) {
    const { text, problem } = readSource(candidate, readFile)
    if (problem !== undefined) return { values: {}, origins: {}, problems: [problem], isFileUnread: true }
    if (text !== undefined) return parseConfigDocument(text, line => `${candidate}, line ${line}`)
  }
  return path
    ? { values: {}, origins: {}, problems: [`CONFIG_FILE is ${JSON.stringify(path)}: there is no such file`], isFileUnread: true }
    : { values: {}, origins: {}, problems: [], isFileUnread: false }
}

function readSource (path: string, readFile: SettingsSources['readFile']): { text?: string | undefined, problem?: string } {
  try {
    return { text: readFile(path) }
  } catch (error) {
    return { problem: `${path} cannot be read (${(error as NodeJS.ErrnoException).code})` }
  }
}

function withoutEmpty (variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(variables).filter((entry): entry is [string, string] => Boolean(entry[1])))
}

/** The text of a file, or undefined if there is no file. Any other fault is thrown. */
export function readTextIfThere (path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
