import { createRequire } from 'node:module'
import type { Document, Node, YAMLMap } from 'yaml'
import { nameThatWasMeant } from '../suggestion.ts'
import { readTree } from './config-tree.ts'
import type { EntriesSchema } from './setting-spec.ts'
import { hasMembers, membersUnder, SECTIONS, SETTING_BY_KEY } from './keys.ts'
import { settingSpec } from './specs.ts'
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
  /** Where the parts of lists of objects are, such as `idp.issuers[1].audience`, in words. */
  readonly places: ReadonlyMap<string, string>
  readonly isFileUnread: boolean
}

/**
 * Reads the text of a configuration file. YAML and JSON are both read as YAML, so that problems of both have line numbers. Numbers
 * stay as they were written, because an audience may look like a number. A key without a value counts as unset. Problems name line
 * and key. They never hold a value, because it may be a secret. If the text cannot be read at all, `isFileUnread` is true. The
 * objects of a list have the environment names of their members' settings as keys.
 * @param place the file and a line of it (from 1), in words
 */
export function parseConfigDocument (text: string, place: (line: number) => string): ConfigDocument {
  const { LineCounter, isMap, isScalar, isSeq, parseDocument } = yaml()
  const lineCounter = new LineCounter()
  const values: RawSettings = {}
  const origins: SettingOrigins = {}
  const places = new Map<string, string>()
  let document: Document.Parsed
  try {
    // Duplicate keys are reported below, with their names: the parser would not name them.
    document = parseDocument(text, { lineCounter, schema: 'failsafe', customTags: ['null', 'bool'], uniqueKeys: false })
  } catch {
    // The parser calls itself for each level, until there is no more room.
    return { values, origins, problems: [`${place(1)}: the file has too many levels`], places, isFileUnread: true }
  }
  const at = (offset: number): string => place(lineCounter.linePos(offset).line)
  const problems = syntaxProblems(document, at)
  if (problems.length > 0) return { values, origins, problems, places, isFileUnread: true }
  if (isEmpty(document.contents)) return { values, origins, problems, places, isFileUnread: false }
  if (!isMap(document.contents)) return { values, origins, problems: [`${at(0)}: expected sections such as idp and server`], places, isFileUnread: true }

  const seen = new Set<string>()
  readMap(document.contents, '')
  return { values, origins, problems, places, isFileUnread: false }

  function readMap (map: YAMLMap, prefix: string): void {
    for (const { key: node, value } of map.items) {
      const key = prefix + String(isScalar(node) ? node.value : node)
      const name = SETTING_BY_KEY.get(key)
      const tell = (problem: string) => problems.push(`${at((node as Node).range![0])}: ${problem}`)
      if (seen.has(key)) tell(`the key ${JSON.stringify(key)} appears twice`)
      seen.add(key)
      if (!name && !SECTIONS.has(key)) tell(`unknown key ${JSON.stringify(key)}${hint(prefix, key)}`)
      else if (isEmpty(value)) continue
      else if (name) [values[name], origins[name]] = [readValue(name, value as Node, key), at((node as Node).range![0])]
      else if (isMap(value)) readMap(value, `${key}.`)
      else tell(`${key} is a section: expected keys under it`)
    }
  }

  function readValue (name: SettingName, value: Node, key: string): unknown {
    const { schema } = settingSpec(name)
    if (schema.type === 'tree') return readTree(value, key, { yaml: yaml(), at, places, problems })
    if (schema.type !== 'entries' || !isSeq(value)) return value.toJS(document)
    return value.items.map((item, index) => {
      const path = `${key}[${index}]`
      places.set(path, at((item as Node).range![0]))
      return isMap(item) ? readEntry(schema, item, path) : (item as Node).toJS(document)
    })
  }

  function readEntry (schema: EntriesSchema, map: YAMLMap, path: string): RawSettings {
    const names = membersUnder(path, schema)
    const entry: RawSettings = {}
    readMembers(map, path)
    return entry

    function readMembers (map: YAMLMap, path: string): void {
      for (const { key: node, value } of map.items) {
        const key = `${path}.${String(isScalar(node) ? node.value : node)}`
        const where = at((node as Node).range![0])
        const name = names.get(key)
        if (places.has(key)) problems.push(`${where}: the key ${JSON.stringify(key)} appears twice`)
        else if (isEmpty(value) && (name || hasMembers(key, names))) continue
        else if (name) entry[name] = (value as Node).toJS(document)
        else if (isMap(value) && hasMembers(key, names)) readMembers(value, key)
        else problems.push(`${where}: unknown key ${JSON.stringify(key)}${meantBy(key, [...names.keys()])}`)
        places.set(key, where)
      }
    }
  }
}

function hint (prefix: string, key: string): string {
  return meantBy(key, [...prefix === '' ? SECTIONS : [], ...SETTING_BY_KEY.keys()])
}

function meantBy (key: string, names: readonly string[]): string {
  const meant = nameThatWasMeant(key, names)
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
