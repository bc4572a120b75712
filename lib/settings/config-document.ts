import { createRequire } from 'node:module'
import type { Document, Node, YAMLMap } from 'yaml'
import { readMembers } from './given.ts'
import type { Givens, Member, Reading, Written } from './given.ts'

const require = createRequire(import.meta.url)
/** The YAML parser is loaded only if there is a file to read. */
const yaml = (): typeof import('yaml') => require('yaml')

/** What a configuration file gives. */
export type ConfigDocument = Omit<Givens, 'unknownVariables'>

/** What a file gives that is not there, or that could not be read for these reasons. */
export function emptyDocument (problems: readonly string[] = []): ConfigDocument {
  return { givens: [], places: new Map(), problems, isUnread: problems.length > 0 }
}

/**
 * Reads the text of a configuration file. YAML and JSON are both read as YAML, so that problems of both have line
 * numbers. Numbers stay as they were written, because an audience may look like a number. A key without a value counts
 * as unset. Problems name line and key. They never hold a value, because it may be a secret. If the text cannot be read
 * at all, `isUnread` is true.
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

  const reading: Reading = { givens: [], places: new Map(), problems: [], seen: new Set() }
  readMembers(membersOf(document.contents), reading)
  return { ...reading, isUnread: false }

  function membersOf (map: YAMLMap): Member[] {
    return map.items.map(({ key, value }) => {
      const place = placeOf(key)
      return { key: String(isScalar(key) ? key.value : key), place, written: writtenOf(value, place) }
    })
  }

  /** @param place if there is no node */
  function writtenOf (node: unknown, place?: string): Written {
    return {
      place: node === null ? place! : placeOf(node),
      isUnset: isEmpty(node),
      get value () {
        return (node as Node).toJS(document)
      },
      number: numberOf(node),
      get members () {
        return isMap(node) ? membersOf(node) : undefined
      },
      get items () {
        return isSeq(node) ? node.items.map(item => writtenOf(item)) : undefined
      }
    }
  }

  function placeOf (node: unknown): string {
    return at((node as Node).range![0])
  }
}

function numberOf (node: unknown): number | undefined {
  if (!yaml().isScalar(node) || node.type !== 'PLAIN' || typeof node.value !== 'string') return undefined
  const number = Number(node.value)
  return Number.isFinite(number) && String(number) === node.value ? number : undefined
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
