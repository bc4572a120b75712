import { createRequire } from 'node:module'
import type { Document, Node } from 'yaml'
import { isJsonObject } from '../base/json.ts'
import { readMembers, type Givens } from './given.ts'
import { noSettings } from './tree.ts'

const require = createRequire(import.meta.url)
/** The YAML parser is loaded only if there is a file to read. */
const yaml = (): typeof import('yaml') => require('yaml')

/** What a configuration file gives. Other sources may put their settings over these. */
export interface ConfigDocument extends Omit<Givens, 'unknownVariables'> {
  readonly places: Map<string, string>
}

/** What a file gives that is not there, or that could not be read for these reasons. */
export function emptyDocument (problems: readonly string[] = []): ConfigDocument {
  return { values: noSettings(), places: new Map(), problems, isUnread: problems.length > 0 }
}

/**
 * Reads the text of a configuration file. YAML and JSON are both read as YAML, so that problems of both have line
 * numbers. A number without quotes stays text if digits would be lost, because an audience may look like a number.
 * Problems name line and key. They never hold a value, because it may be a secret.
 * @param place the file and a line of it (from 1), in words
 */
export function parseConfigDocument (text: string, place: (line: number) => string): ConfigDocument {
  const { LineCounter, isMap, isScalar, isSeq, parseDocument } = yaml()
  const lineCounter = new LineCounter()
  let document: Document.Parsed
  try {
    // Duplicate keys are reported below, with their names: the parser would not name them.
    document = parseDocument(text, {
      lineCounter,
      schema: 'failsafe',
      customTags: ['null', 'bool'],
      // A value of such a tag is no setting.
      resolveKnownTags: false,
      uniqueKeys: false
    })
  } catch {
    // The parser calls itself for each level, until there is no more room.
    return emptyDocument([`${place(1)}: the file has too many levels`])
  }
  const at = (offset: number) => place(lineCounter.linePos(offset).line)
  const problems = syntaxProblems(document, at)
  if (problems.length > 0) return emptyDocument(problems)
  const places = new Map<string, string>()
  const tree = dataOf(document.contents, '')
  if (tree === null) return emptyDocument()
  if (!isMap(document.contents)) return emptyDocument([`${at(0)}: expected sections such as idp and server`])

  const values = noSettings()
  readMembers(tree as object, { values, tell })
  return { values, places, problems, isUnread: false }

  function tell (path: string, problem: string) {
    problems.push(`${places.get(path)}: ${problem}`)
  }

  function dataOf (node: unknown, path: string): unknown {
    if (isSeq(node)) {
      return node.items.map((item, index) => {
        const entry = `${path}[${index}]`
        places.set(entry, placeOf(item))
        return dataOf(item, entry)
      })
    }
    if (!isMap(node)) return isScalar(node) ? numberOf(node) ?? node.value : null
    const members = new Map<string, unknown>()
    for (const { key, value } of node.items) {
      const word = String(isScalar(key) ? key.value : key)
      const member = path === '' ? word : `${path}.${word}`
      const isTwice = places.has(member)
      places.set(member, placeOf(key))
      if (isTwice) tell(member, `the key ${JSON.stringify(member)} appears twice`)
      members.set(word, joined(members.get(word), dataOf(value, member)))
    }
    return Object.fromEntries(members)
  }

  function placeOf (node: unknown) {
    return at((node as Node).range![0])
  }
}

/** The values of a key that appears twice: of both sections all members are judged, and else the later value. */
function joined (first: unknown, second: unknown): unknown {
  if (!isJsonObject(first) || !isJsonObject(second)) return second ?? first ?? null
  const members = new Map(Object.entries(first))
  for (const [name, value] of Object.entries(second)) members.set(name, joined(members.get(name), value))
  return Object.fromEntries(members)
}

/** The number that a text without quotes is, if no digit is lost. */
function numberOf ({ type, value }: { type?: string, value: unknown }): number | undefined {
  if (type !== 'PLAIN' || typeof value !== 'string') return undefined
  const number = Number(value)
  return Number.isFinite(number) && String(number) === value ? number : undefined
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
