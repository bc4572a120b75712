import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const root = join(import.meta.dirname, '..', '..')

export const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Whether a test file has a test of that title, which may be broken over lines. */
export const holdsTest = (file: string, title: string): boolean =>
  textOf(file).replaceAll(/' \+\s+'/g, '').replaceAll(/\.test\(\s+/g, '.test(').includes(`.test('${title}'`)

/** What promises to be run: README.md and the two halves of docs/. Paths from the top of the clone. */
export const manuals: readonly string[] = [
  'README.md',
  'dev/playground/README.md',
  'examples/migration/README.md',
  ...['docs/guide', 'docs/guide/moving', 'docs/reference'].flatMap(folder =>
    readdirSync(join(root, folder)).filter(name => name.endsWith('.md')).map(name => `${folder}/${name}`)
  )
]

/** Every page for readers. */
export const pages: readonly string[] = [
  ...manuals,
  'docs/README.md',
  ...['CONTRIBUTING', 'CODE_OF_CONDUCT', 'RELEASING', 'SECURITY'].map(name => `.github/${name}.md`),
  'CHANGELOG.md',
  ...readdirSync(join(root, 'lab/reports')).map(name => `lab/reports/${name}`),
  ...[
    'lib',
    'lib/guard',
    'server',
    'plugins',
    'routes',
    'schemas',
    'cli',
    'dev',
    'packages',
    'packages/holdfast',
    'packages/holdfast-cli',
    'packages/create-holdfast',
    'test',
    'test/own',
    'bench',
    'deploy'
  ].map(folder => `${folder}/README.md`).filter(file => existsSync(join(root, file)))
]

/** A fenced block. */
export interface Block {
  file: string
  /** `docs/guide/dpop.md:12`, to find it. */
  place: string
  /** The word after the fence; empty for none. */
  language: string
  text: string
}

const FENCE = /^( *)```(\w*)\n([\s\S]*?)^\1```$/gm

export function readBlocks (file: string): Block[] {
  const text = textOf(file)
  return [...text.matchAll(FENCE)].map(match => ({
    file,
    place: `${file}:${text.slice(0, match.index).split('\n').length}`,
    language: match[2]!,
    text: match[3]!
  }))
}

/** The page without its fenced blocks. */
export function readProse (file: string): string {
  return textOf(file).replace(FENCE, '')
}

/** The texts between back-ticks. */
export function readCodeSpans (file: string): string[] {
  return [...readProse(file).matchAll(/`([^`\n]+)`/g)].map(match => match[1]!)
}

/** The part of a page under one heading of the second level. */
export function readSection (file: string, heading: string): string {
  const [, section] = textOf(file).split(`\n## ${heading}\n`)
  if (section === undefined) throw new Error(`${file} has no section ${heading}`)
  return section.split('\n## ', 1)[0]!
}

/** The fragments under which GitHub offers the headings of a page. */
function readAnchors (file: string) {
  const headings = [...readProse(file).matchAll(/^#{1,6} +(.+)$/gm)].map(match => match[1]!)
  return new Set(
    headings.map(heading => heading.toLowerCase().trim().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-'))
  )
}

/** Why each relative link of a page that leads nowhere does so. */
export function findDeadLinks (file: string): string[] {
  const targets = [...readProse(file).matchAll(/\]\(([^)\s]+)\)/g)].map(match => match[1]!).filter(target =>
    !/^[a-z]+:/.test(target)
  )
  return targets.flatMap(target => {
    const [path = '', fragment] = target.split('#', 2)
    const found = path === '' ? file : join(dirname(file), path)
    if (!existsSync(join(root, found))) return [`${target}: there is no such file`]
    if (fragment === undefined || !found.endsWith('.md') || readAnchors(found).has(fragment)) return []
    return [`${target}: there is no such heading`]
  })
}

/** The rows of the first table in a text, below its header, as cells. */
export function readTable (text: string): string[][] {
  const lines = text.split('\n')
  const rule = lines.findIndex(line => /^\|( *-+ *\|)+$/.test(line))
  const rows: string[][] = []
  for (let at = rule + 1; lines[at]?.startsWith('|'); at++) {
    rows.push(lines[at]!.split('|').slice(1, -1).map(cell => cell.trim()))
  }
  return rows
}

/** A line of a shell: variables before the command, and the words of the command. A word may hold quoted parts. */
export interface Command {
  variables: Record<string, string>
  words: readonly string[]
}

export function parseCommand (line: string): Command {
  const words = line.match(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g)?.map(word => word.replace(/["']/g, '')) ?? []
  const first = words.findIndex(word => !/^[A-Z][A-Z0-9_]*=/i.test(word))
  const assignments = first === -1 ? words : words.slice(0, first)
  return {
    variables: Object.fromEntries(
      assignments.map(word => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)])
    ),
    words: first === -1 ? [] : words.slice(first)
  }
}

/** The first line of a snippet names its file: `// routes/orders.ts: what it is`. */
export function nameOfSnippet ({ place, text }: Block): string {
  const name = /^\/\/ (\S+\.ts): /.exec(text)?.[1]
  if (name === undefined) throw new Error(`${place}: the first line names no file`)
  return name
}
