import { readFileSync } from 'node:fs'
import { isDead, type Verdict } from './journal.ts'
import { shorten, type Mutant } from './mutants.ts'

/** A mutant that cannot be distinguished from the original. */
export interface Listed {
  readonly file: string
  readonly within: string
  readonly line: string
  readonly original: string
  readonly replacement: string
  /** Why it cannot. */
  readonly reason: string
  /** What was tried to distinguish them, and with what result. */
  readonly tried: string
}

export interface Judged {
  readonly mutant: Mutant
  readonly verdict: Verdict
}

/** What must be killed, in percent of those that are not listed. */
const TARGET_PERCENT = 95

export function readListed (path = 'test/mutation/survivors.json'): Listed[] {
  return JSON.parse(readFileSync(path, 'utf8'))
}

export function isListed (mutant: Mutant, listed: readonly Listed[]): boolean {
  return listed.some(({ file, within, line, original, replacement }) =>
    file === mutant.file && within === mutant.within &&
    line === mutant.line && original === mutant.original && replacement === shorten(mutant.text)
  )
}

/** `lib/guard`, `plugins`. */
export function folderOf (file: string): string {
  const [first = '', second = ''] = file.split('/')
  return first === 'lib' && !second.endsWith('.ts') ? `${first}/${second}` : first
}

/** A table by folder and the survivors that are not listed; `isEnough` when each folder has its target. */
export function report (judged: readonly Judged[], listed: readonly Listed[]): { text: string, isEnough: boolean } {
  const folders = [...new Set(judged.map(({ mutant }) => folderOf(mutant.file)))].sort()
  const rows = folders.map(folder =>
    count(folder, judged.filter(({ mutant }) => folderOf(mutant.file) === folder), listed)
  )
  const total = count('all', judged, listed)
  const survivors = judged.filter(({ mutant, verdict }) => !isDead(verdict) && !isListed(mutant, listed))
    .sort((a, b) =>
      a.mutant.file < b.mutant.file ? -1 : a.mutant.file > b.mutant.file ? 1 : a.mutant.start - b.mutant.start
    )
  const text = [
    '| folder | mutants | killed | listed | survivors | killed of those not listed |',
    '| --- | --- | --- | --- | --- | --- |',
    ...[...rows, total].map(row =>
      `| ${row.folder} | ${row.mutants} | ${row.killed} | ${row.listed} | ${row.survivors} | ` +
      `${row.percent.toFixed(1)} % |`
    ),
    '',
    ...survivors.map(({ mutant, verdict }) =>
      `${mutant.file}:${mutant.lineNumber} (${mutant.within}) ${verdict.end}\n    ${mutant.line}\n ` +
      `   ${mutant.operator}: ${mutant.original} -> ${shorten(mutant.text)}`
    )
  ].join('\n')
  return { text, isEnough: rows.every(({ percent }) => percent >= TARGET_PERCENT) }
}

function count (folder: string, judged: readonly Judged[], listed: readonly Listed[]) {
  const killed = judged.filter(({ verdict }) => isDead(verdict)).length
  const known = judged.filter(({ mutant, verdict }) => !isDead(verdict) && isListed(mutant, listed)).length
  const rest = judged.length - known
  return {
    folder,
    mutants: judged.length,
    killed,
    listed: known,
    survivors: rest - killed,
    percent: rest === 0 ? 100 : killed / rest * 100
  }
}
