import { createRequire } from 'node:module'
import type { Document, Node, Scalar } from 'yaml'
import { settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'
import { noSettings, put, readMembers } from './tree.ts'
import type { Form } from './tree.ts'

const require = createRequire(import.meta.url)
/** The YAML parser is loaded only if there is a file to read. */
const yaml = (): typeof import('yaml') => require('yaml')

/** The settings in a configuration file, and the problems of the file. */
export interface ConfigDocument {
  readonly values: RawSettings
  /** For each setting that is set, where it was found: `config.yaml, line 3`, `.env` or `environment`. */
  readonly origins: Partial<Record<SettingName, string>>
  readonly problems: readonly string[]
  /**
   * Where the file holds the parts of lists and of sections with parts, such as `idp.issuers[1].audience`, in words.
   */
  readonly places: ReadonlyMap<string, string>
  /** A file could not be read. A value that seems to be missing may be in it. */
  readonly isFileUnread: boolean
}

/** What is known of a file that holds nothing, or that could not be read for these reasons. */
export function emptyDocument (problems: readonly string[] = []): ConfigDocument {
  return { values: noSettings(), origins: {}, problems, places: new Map(), isFileUnread: problems.length > 0 }
}

/**
 * Reads the text of a configuration file. YAML and JSON are both read as YAML, so that problems of both have line
 * numbers. Numbers stay as they were written, because an audience may look like a number. A key without a value counts
 * as unset. Problems name line and key. They never hold a value, because it may be a secret. If the text cannot be read
 * at all, `isFileUnread` is true.
 * @param place the file and a line of it (from 1), in words
 */
export function parseConfigDocument (text: string, place: (line: number) => string): ConfigDocument {
  const { LineCounter, isMap, isScalar, isSeq, parseDocument } = yaml()
  const lineCounter = new LineCounter()
  let document: Document.Parsed
  try {
    // Duplicate keys are reported below, with their names: the parser would not name them.
    document = parseDocument(text, { lineCounter, schema: 'failsafe', customTags: ['null', 'bool'], uniqueKeys: false })
  } catch {
    // The parser calls itself for each level, until there is no more room.
    return emptyDocument([`${place(1)}: the file has too many levels`])
  }
  const at = (offset: number): string => place(lineCounter.linePos(offset).line)
  const problems = syntaxProblems(document, at)
  if (problems.length > 0 || isEmpty(document.contents)) return emptyDocument(problems)
  if (!isMap(document.contents)) return emptyDocument([`${at(0)}: expected sections such as idp and server`])

  const { values, origins } = emptyDocument()
  const places = new Map<string, string>()
  const seen = new Set<string>()
  const start = (node: unknown): string => at((node as Node).range![0])
  const form: Form<Node | null> = {
    members: node =>
      isMap(node)
        ? node.items.map(({ key, value }) => ({
          key: String(isScalar(key) ? key.value : key),
          node: value as Node | null,
          place: start(key)
        }))
        : undefined,
    items (node, path) {
      if (!isSeq(node)) return undefined
      node.items.forEach((item, index) => places.set(`${path}[${index}]`, start(item)))
      return node.items as Node[]
    },
    isUnset: isEmpty,
    value: (node, path, name) =>
      name !== undefined && settingSpec(name).properties ? readTree(node!, path) : node!.toJS(document),
    isLeftOut (path, place, isUnset, isOfEntry) {
      const isTwice = seen.has(path)
      if (isTwice) form.tell(place, `the key ${JSON.stringify(path)} appears twice`)
      if (isOfEntry && isUnset && !isTwice) return false
      seen.add(path)
      if (isOfEntry) places.set(path, place)
      return isOfEntry && isTwice
    },
    areEntriesNested: false,
    tell: (place, problem) => problems.push(`${place}: ${problem}`)
  }
  readMembers(form.members(document.contents)!, form, (name, value, place) => {
    put(values, name, value)
    origins[name] = place
  })
  return { values, origins, problems, places, isFileUnread: false }

  /**
   * Reads a section whose own module judges what is in it. A number without quotes becomes a number if no digit is
   * lost. Other values stay as they were written. A key without a value counts as unset.
   */
  function readTree (node: Node, path: string): unknown {
    places.set(path, start(node))
    if (isSeq(node)) return node.items.map((item, index) => readTree(item as Node, `${path}[${index}]`))
    if (!isMap(node)) return scalarValue(node as Scalar)
    const read = new Map<string, unknown>()
    for (const { key, node: member, place } of form.members(node)!) {
      if (read.has(key)) form.tell(place, `the key ${JSON.stringify(`${path}.${key}`)} appears twice`)
      const value = member === null ? null : readTree(member, `${path}.${key}`)
      places.set(`${path}.${key}`, place)
      if (value !== null) read.set(key, value)
    }
    return Object.fromEntries(read)
  }
}

function scalarValue ({ value, type }: Scalar): unknown {
  if (type !== 'PLAIN' || typeof value !== 'string') return value
  const number = Number(value)
  return Number.isFinite(number) && String(number) === value ? number : value
}

function syntaxProblems (document: Document.Parsed, at: (offset: number) => string): string[] {
  // Only the code of the parser's message is shown, because the rest may quote a value. An unknown tag, such as
  // `!vault`, is only a warning of the parser, but the value would not be the one that was meant.
  const problems = [...document.errors, ...document.warnings].map(({ pos, code }) =>
    `${at(pos[0])}: syntax error (${code.toLowerCase().replaceAll('_', ' ')})`
  )
  yaml().visit(document, {
    Alias: (_key, node) => {
      problems.push(`${at(node.range![0])}: aliases are not supported`)
    }
  })
  return problems
}

function isEmpty (node: unknown): boolean {
  return node === null || (yaml().isScalar(node) && node.value === null)
}
