import { createRequire } from 'node:module'
import type { Document, Node, YAMLMap } from 'yaml'
import { nameThatWasMeant } from './meant.ts'
import type { RawSettings } from './sources.ts'
import { settingNames, settingSpec } from './specs.ts'

const require = createRequire(import.meta.url)
/** Loaded when there is a file to read. */
const yaml = (): typeof import('yaml') => require('yaml')

/** What a configuration file says, and what is wrong with it. */
export interface ConfigDocument {
  readonly values: RawSettings
  readonly problems: readonly string[]
  readonly isFileUnread: boolean
}

const NAMES_BY_KEY = new Map(settingNames.flatMap(name => settingSpec(name).file === null ? [] : [[settingSpec(name).file!, name] as const]))
const SECTIONS = new Set([...NAMES_BY_KEY.keys()].map(key => key.split('.')[0]!))

/**
 * Reads the text of a configuration file, in YAML or in JSON (as the YAML that it is, so that both have line numbers).
 * Numbers stay as they were written, for an audience may look like one. A key without a value counts as unset.
 * Problems name line and key, never a value: it may be a secret. Where the text cannot be read at all, `isFileUnread` is true.
 * @param place the file and a line of it (from 1), in words
 */
export function parseConfigDocument (text: string, place: (line: number) => string): ConfigDocument {
  const { LineCounter, isMap, isScalar, parseDocument } = yaml()
  const lineCounter = new LineCounter()
  // Keys that are there twice are told below, by name: the parser would not name them.
  const document = parseDocument(text, { lineCounter, schema: 'failsafe', customTags: ['null', 'bool'], uniqueKeys: false })
  const at = (offset: number): string => place(lineCounter.linePos(offset).line)
  const problems = syntaxProblems(document, at)
  if (problems.length > 0) return { values: {}, problems, isFileUnread: true }
  if (isEmpty(document.contents)) return { values: {}, problems, isFileUnread: false }
  if (!isMap(document.contents)) return { values: {}, problems: [`${at(0)}: expected sections such as idp and server`], isFileUnread: true }

  const values: RawSettings = {}
  const seen = new Set<string>()
  readMap(document.contents, '')
  return { values, problems, isFileUnread: false }

  function readMap (map: YAMLMap, prefix: string): void {
    for (const { key: node, value } of map.items) {
      const key = prefix + String(isScalar(node) ? node.value : node)
      const name = NAMES_BY_KEY.get(key)
      const tell = (problem: string) => problems.push(`${at((node as Node).range![0])}: ${problem}`)
      if (seen.has(key)) tell(`the key ${JSON.stringify(key)} is there twice`)
      seen.add(key)
      if (!name && !SECTIONS.has(key)) tell(`unknown key ${JSON.stringify(key)}${hint(prefix, key)}`)
      else if (isEmpty(value)) continue
      else if (name) values[name] = (value as Node).toJS(document)
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
  // Of the parser's message only its code is shown: the rest may quote a value. A tag that it does not know, such as
  // `!vault`, is a mere warning there; the value would not be what was meant.
  const problems = [...document.errors, ...document.warnings].map(({ pos, code }) => `${at(pos[0])}: syntax error (${code.toLowerCase().replaceAll('_', ' ')})`)
  yaml().visit(document, { Alias: (_key, node) => { problems.push(`${at(node.range![0])}: aliases are not supported`) } })
  return problems
}

function isEmpty (node: unknown): boolean {
  return node === null || (yaml().isScalar(node) && node.value === null)
}
