import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import blank from 'ts-blank-space'
import { findChanges, placesIn, type Change } from './operators.ts'

/** One change to one file, as it is run and as it is reported. */
export interface Mutant extends Change {
  readonly file: string
  /** The function around it, as `outer.inner`. */
  readonly within: string
  /** Whether it is in no function: it runs when the file is loaded. */
  readonly isTop: boolean
  /** The line that it changes, from the first character of the change on its first line. */
  readonly line: string
  readonly lineNumber: number
  /** The replaced text. */
  readonly original: string
  /** Stays the same when other lines of the file change. */
  readonly id: string
}

/** A source file without its types. The places of all that is left are those in the file. */
export interface Program {
  readonly file: string
  readonly source: string
  readonly hash: string
}

export function hashOf (text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

export function readProgram (file: string): Program {
  const text = readFileSync(file, 'utf8')
  return { file, source: file.endsWith('.ts') ? blank(text) : text, hash: hashOf(text) }
}

/** All mutants of a file. */
export function findMutants ({ file, source }: Program): Mutant[] {
  const placeOf = placesIn(source)
  const seen = new Map<string, number>()
  return findChanges(source, file.startsWith('cli/')).map(change => {
    const lineStart = source.lastIndexOf('\n', change.start - 1) + 1
    const line = shorten(source.slice(lineStart).split('\n', 1)[0]!)
    const named = { file, ...placeOf(change.start), line, original: shorten(source.slice(change.start, change.end)) }
    const key = [file, named.within, line, named.original, shorten(change.text)].join('\n')
    const nth = (seen.get(key) ?? 0) + 1
    seen.set(key, nth)
    return {
      ...change,
      ...named,
      lineNumber: source.slice(0, change.start).split('\n').length,
      id: hashOf(`${key}\n${nth}`)
    }
  })
}

/** The text of the file with the change made. */
export function mutate ({ source }: Pick<Program, 'source'>, { start, end, text }: Change): string {
  return source.slice(0, start) + text + source.slice(end)
}

export function shorten (text: string): string {
  const words = text.replace(/\s+/g, ' ').trim()
  return words.length > 120 ? `${words.slice(0, 80)} … ${words.slice(-30)}` : words
}
