import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readOptions } from '../../bench/options.js'
import { isDead, openJournal, type Journal, type Verdict } from './journal.ts'
import { openCourt, testsOf } from './judge.ts'
import { findMutants, readProgram, type Mutant, type Program } from './mutants.ts'
import { findCandidate, readReach, type Candidate, type Reach } from './reach.ts'
import { isListed, readListed, report, type Judged, type Listed } from './report.ts'
import { sample } from './sample.ts'

const USAGE = `npm run test:mutation -- [options]

  --only PATH     only files whose path begins so, or one line (lib/guard/message.ts:71); may be repeated
  --changed       only lines that differ from main (on main: from the commit before)
  --survivors     only those that have survived so far
  --listed        only those of survivors.json: tries each, and the code is 1 if a test kills one
  --sample N      only so many mutants, chosen by the seed
  --seed N        1
  --jobs N        processes at once: 2
  --budget N      seconds of tests for one mutant, after which it counts as a survivor: 120
  --list          lists the mutants and runs nothing

Ctrl-C shows the figures so far. What is judged already is kept in node_modules/.cache/mutation until the file, or for a survivor a test, changes.
The code is 1 if a folder is below its target.`

const values = readOptions({
  only: { type: 'string', multiple: true, default: [''] },
  changed: { type: 'boolean', default: false },
  survivors: { type: 'boolean', default: false },
  listed: { type: 'boolean', default: false },
  sample: { type: 'string' },
  seed: { type: 'string', default: '1' },
  jobs: { type: 'string', default: '2' },
  budget: { type: 'string', default: '120' },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false }
})

/**
 * Tests of tools, files and whole processes: what they run of the sources, others run as well. Only Redis runs the
 * scripts that are for it.
 */
const LEFT_OUT =
  /^test\/(?:deploy|dev|docs|examples|fuzz|history|mutation|own|batches|types)\/|^test\/system\/(?!revocation-redis\.)|^test\/(?:start|node-versions|supply-chain)\./

const SOURCES = ['lib', 'plugins', 'routes', 'server', 'cli']

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(file => join(folder, file)).sort()
const clock = (): number => performance.now()

async function main (): Promise<boolean> {
  const programs = new Map(
    SOURCES.flatMap(filesIn).filter(file => file.endsWith('.ts')).map(file => [file, readProgram(file)])
  )
  const isChanged = values.changed ? changedLines() : () => true
  const isMeant = ({ file, lineNumber }: Mutant): boolean =>
    values.only.some(only => file.startsWith(only) || `${file}:${lineNumber}` === only)
  const journal = openJournal()
  const alive = new Set(values.survivors ? journal.survivors() : [])
  const listed = readListed()
  const isChosen = (mutant: Mutant): boolean =>
    (!values.survivors || alive.has(mutant.id)) && (!values.listed || isListed(mutant, listed))
  const all = [...programs.values()].flatMap(findMutants)
  const stale = listed.filter(entry => !all.some(mutant => isListed(mutant, [entry])))
  for (const { file, line } of stale) console.error(`survivors.json lists what is no mutant: ${file}: ${line}`)
  const chosen = all.filter(mutant =>
    isMeant(mutant) && isChanged(mutant) && isChosen(mutant)
  )
  const mutants = sample(
    chosen,
    Number(values.seed),
    values.sample === undefined ? chosen.length : Number(values.sample)
  )
  console.error(`${mutants.length} of ${chosen.length} mutants`)
  if (values.list) {
    for (const { file, lineNumber, operator, original, text } of mutants) {
      console.log(`${file}:${lineNumber} ${operator}: ${original} -> ${text}`)
    }
    return true
  }
  if (mutants.length === 0) return true
  const judged = await judgeAll(mutants, {
    programs,
    reaches: await reachOfTests(programs),
    journal,
    listed: values.listed ? [] : listed
  })
  if (values.listed) return reportListed(judged)
  const { text, isEnough } = report(judged, listed)
  console.log(text)
  return isEnough && stale.length === 0
}

/** A listed mutant that a test kills has no excuse. */
function reportListed (judged: readonly Judged[]): boolean {
  const dead = judged.filter(({ verdict }) => isDead(verdict))
  console.log(
    `${judged.length} listed mutants tried, ${judged.reduce((sum, { verdict }) => sum + verdict.runs, 0)} files ` +
      `of tests run, ${dead.length} killed`
  )
  for (const { mutant: { file, lineNumber, operator, original, text }, verdict: { failure } } of dead) {
    console.log(`${file}:${lineNumber} ${operator}: ${original} -> ${text}, by ${failure}`)
  }
  return dead.length === 0
}

async function reachOfTests (programs: ReadonlyMap<string, Program>): Promise<Reach[]> {
  const files = filesIn('test').filter(file => file.endsWith('.test.ts') && !LEFT_OUT.test(file))
  const reaches: Reach[] = []
  await inParallel(files, async file => {
    // A change is judged with what was known before: measuring everything again takes longer than its mutants.
    const reach = await readReach(file, source => programs.get(source)?.hash, clock, !values.changed)
    reaches.push(reach)
    progress(`tests looked at: ${reaches.length} of ${files.length}`)
  })
  for (const { file, broken } of reaches) {
    if (broken) console.error(`${file} fails without any change, and is left out: ${broken}`)
  }
  return reaches
}

interface Material {
  readonly programs: ReadonlyMap<string, Program>
  readonly reaches: readonly Reach[]
  readonly journal: Journal
  readonly listed: readonly Listed[]
}

async function judgeAll (
  mutants: readonly Mutant[],
  { programs, reaches, journal, listed }: Material
): Promise<Judged[]> {
  const court = openCourt({ past: journal.all, budgetMs: Number(values.budget) * 1000, clock })
  const judged: Judged[] = []
  const began = clock()
  let done = 0
  let alive = 0
  await inParallel(mutants, async mutant => {
    const program = programs.get(mutant.file)!
    const candidates = reaches.map(reach => findCandidate(reach, mutant, program)).filter((found): found is Candidate =>
      found !== undefined
    )
    const known = isListed(mutant, listed)
      ? notTried(mutant)
      : journal.find(mutant.id, program.hash, testsOf(candidates))
    const verdict = known ?? await court.judge(mutant, program, candidates)
    if (!known) {
      journal.write(verdict)
      done++
    }
    judged.push({ mutant, verdict })
    if (!isDead(verdict) && !isListed(mutant, listed)) alive++
    const left = done === 0 ? 0 : (clock() - began) / done * (mutants.length - judged.length) / 60_000
    progress(`${judged.length} of ${mutants.length} judged, ${alive} alive, ${Math.ceil(left)} min left`)
  })
  court.close()
  return judged
}

/** A listed mutant is known to live. */
function notTried ({ id, file }: Mutant): Verdict {
  return { id, file, program: '', tests: '', end: 'survived', runs: 0 }
}

async function inParallel<Item> (items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const queue = [...items]
  await Promise.all(Array.from({ length: Number(values.jobs) }, async () => {
    for (let item = queue.shift(); item !== undefined && !stopped.signal.aborted; item = queue.shift()) await work(item)
  }))
}

/** Whether a mutant is on a line that differs from main; on main itself, from the commit before. */
function changedLines (): (mutant: Mutant) => boolean {
  const git = (...words: string[]): string => execFileSync('git', words, { encoding: 'utf8' }).trim()
  const base = git('merge-base', 'HEAD', 'main')
  const from = base === git('rev-parse', 'HEAD') ? 'HEAD~' : base
  const lines = new Map<string, Set<number>>()
  let file = ''
  for (const line of git('diff', '--unified=0', from, '--', ...SOURCES).split('\n')) {
    const [, path] = /^\+\+\+ b\/(.*)$/.exec(line) ?? []
    if (path) lines.set(file = path, new Set())
    const [, start, count = '1'] = /^@@ \S+ \+(\d+)(?:,(\d+))?/.exec(line) ?? []
    if (start) { for (let n = 0; n < Number(count); n++) lines.get(file)?.add(Number(start) + n) }
  }
  return mutant => lines.get(mutant.file)?.has(mutant.lineNumber) ?? false
}

const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopped.abort())

let lastTold = -Infinity
function progress (text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${text}\x1b[K`)
  else if (clock() - lastTold > 15_000) {
    lastTold = clock()
    console.error(text)
  }
}

if (values.help) {
  console.log(USAGE)
} else {
  process.exitCode = await main() ? 0 : 1
}
