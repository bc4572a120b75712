import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readOptions } from '../../bench/options.js'
import { findMutants, hashOf, mutate, readProgram, shorten, type Mutant, type Program } from './mutants.ts'
import { findCandidate, readReach, type Candidate, type Reach } from './reach.ts'
import { runTestFile } from './trial.ts'
import { createTypeCheck } from './type-check.ts'

const USAGE = `npm run test:mutation -- [options]

  --only PATH     only files whose path begins so, or one line (lib/guard/message.ts:71); may be repeated
  --changed       only lines that differ from main (on main: from the commit before)
  --sample N      only so many mutants, chosen by the seed
  --seed N        1
  --jobs N        processes at once: 2
  --budget N      seconds of tests for one mutant at first; what is alive then is judged by all others: 120
  --list          lists the mutants and runs nothing

Those of survivors.json are left out. The code is 1 if fewer than 95 % are killed.`

const values = readOptions({
  only: { type: 'string', multiple: true, default: [''] },
  changed: { type: 'boolean', default: false },
  sample: { type: 'string' },
  seed: { type: 'string', default: '1' },
  jobs: { type: 'string', default: '2' },
  budget: { type: 'string', default: '120' },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false }
})

/** Each takes long, or has nothing to do with the sources. Only Redis runs the scripts that are for it. */
const LEFT_OUT = /^test\/(?:batches|lint|matrix|mutation|own|programs|types)\/|^test\/system\/(?!revocation-redis\.)/
/** Tests of tools, files and whole processes: others run most of what they run of the sources, and are tried first. */
const LAST = /^test\/(?:deploy|dev|docs|examples|fuzz|history)\/|^test\/(?:start|node-versions|supply-chain)\./

const SOURCES = ['lib', 'plugins', 'routes', 'server', 'cli']
const TARGET_PERCENT = 95
/** Lists in the documents, and other files that follow from the sources. */
const CHECK_OF_FILES: Candidate = { file: 'dev/generate/main.ts', args: ['--check'], ms: 0 }

/** A mutant that is alive, and what may still kill it. */
interface Suspect {
  readonly mutant: Mutant
  readonly env: Readonly<Record<string, string>>
  readonly candidates: Candidate[]
}

/** A mutant that cannot be distinguished from the original, with the reason and with what was tried. */
type Listed = Readonly<Record<'file' | 'within' | 'line' | 'original' | 'replacement', string>>
const listed = JSON.parse(readFileSync('test/mutation/survivors.json', 'utf8')) as Listed[]

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(file => join(folder, file)).sort()

async function main () {
  const programs = new Map(
    SOURCES.flatMap(filesIn).filter(file => file.endsWith('.ts')).map(file => [file, readProgram(file)])
  )
  const isChanged = values.changed ? changedLines() : () => true
  const isListed = (mutant: Mutant) =>
    listed.some(({ file, within, line, original, replacement }) =>
      file === mutant.file && within === mutant.within && line === mutant.line && original === mutant.original &&
      replacement === shorten(mutant.text)
    )
  const chosen = [...programs.values()].flatMap(findMutants).filter(mutant =>
    values.only.some(only => mutant.file.startsWith(only) || `${mutant.file}:${mutant.lineNumber}` === only) &&
    isChanged(mutant) && !isListed(mutant)
  )
  // By the seed and their names: the same ones each time, also when others have come or gone.
  const rank = new Map(chosen.map(mutant => [mutant, hashOf(`${values.seed} ${mutant.id}`)]))
  const mutants = chosen.sort((a, b) => rank.get(a)! < rank.get(b)! ? -1 : 1)
    .slice(0, Number(values.sample ?? chosen.length))
  console.error(`${mutants.length} of ${chosen.length} mutants`)
  if (values.list) {
    for (const mutant of mutants) console.log(describe(mutant))
    return true
  }
  const tests = filesIn('test').filter(file => file.endsWith('.test.ts') && !LEFT_OUT.test(file))
  const reaches = await reachOfTests(tests.filter(file => !LAST.test(file)), programs)
  const folder = mkdtempSync(join(tmpdir(), 'mutant-'))
  const suspects: Suspect[] = []
  await inParallel(mutants, async (mutant, done) => {
    const program = programs.get(mutant.file)!
    const source = join(folder, mutant.id)
    writeFileSync(source, mutate(program, mutant))
    const suspect = {
      mutant,
      env: { MUTANT_URL: pathToFileURL(resolve(mutant.file)).href, MUTANT_SOURCE: source },
      candidates: candidatesOf(mutant, program, reaches)
    }
    if (!await isKilled(suspect, Number(values.budget) * 1000)) suspects.push(suspect)
    console.error(`${done} of ${mutants.length} judged, ${suspects.length} alive`)
  })
  const isRefused = createTypeCheck()
  const others = tests.filter(file => LAST.test(file)).map(file => ({ file, ms: 0 }))
  const survivors: Mutant[] = []
  await inParallel(suspects, async (suspect, done) => {
    const { mutant } = suspect
    suspect.candidates.push(CHECK_OF_FILES, ...others)
    if (!isRefused(mutant.file, mutate({ source: readFileSync(mutant.file, 'utf8') }, mutant)) && !await isKilled(suspect, Infinity)) {
      survivors.push(mutant)
      console.log(describe(mutant))
    }
    console.error(`${done} of ${suspects.length} judged again, ${survivors.length} alive`)
  })
  rmSync(folder, { recursive: true })
  const percent = mutants.length === 0 ? 100 : 100 * (1 - survivors.length / mutants.length)
  console.log(`${mutants.length} mutants, ${survivors.length} survivors: ${percent.toFixed(1)} % killed`)
  return percent >= TARGET_PERCENT
}

const describe = ({ file, lineNumber, within, operator, original, text }: Mutant) =>
  `${file}:${lineNumber} (${within}) ${operator}: ${original} -> ${shorten(text)}`

/** What may kill a mutant: tests beside it and short ones first. */
function candidatesOf (mutant: Mutant, program: Program, reaches: readonly Reach[]): Candidate[] {
  const words = mutant.file.replace('.ts', '').split('/')
  const cost = ({ file, ms }: Candidate) =>
    (ms + 500) / words.reduce((near, word) => near * (file.includes(word) ? 10 : 1), 1)
  return reaches.flatMap(reach => findCandidate(reach, mutant, program) ?? []).sort((a, b) => cost(a) - cost(b))
}

/** Runs its candidates until one fails that passes without the mutant. Those that ran are gone then. */
async function isKilled ({ env, candidates }: Suspect, budgetMs: number) {
  const until = performance.now() + budgetMs
  for (let next; performance.now() < until && (next = candidates.shift());) {
    const { file, ms, ...which } = next
    // On a busy machine a start takes long, and a run that is cut shows nothing.
    const trial = { ...which, timeoutMs: 60_000 + 5 * ms }
    if (!await runTestFile(file, { ...trial, env }) && await runTestFile(file, trial)) return true
  }
  return false
}

/** What each file of tests runs, measured if it is not known. */
async function reachOfTests (files: readonly string[], programs: ReadonlyMap<string, Program>) {
  const reaches: Reach[] = []
  await inParallel(files, async file => {
    // A change is judged with what was known before: measuring everything again takes longer than its mutants.
    reaches.push(await readReach(file, source => programs.get(source)?.hash, !values.changed))
  })
  for (const { file, isBroken } of reaches) {
    if (isBroken) console.error(`${file} fails without any change, and is left out`)
  }
  return reaches
}

async function inParallel<Item> (
  items: readonly Item[],
  work: (item: Item, done: number) => Promise<void>
) {
  let at = 0
  await Promise.all(Array.from({ length: Number(values.jobs) }, async () => {
    while (at < items.length) await work(items[at++]!, at)
  }))
}

/** Whether a mutant is on a line that differs from main; on main itself, from the commit before. */
function changedLines (): (mutant: Mutant) => boolean {
  const git = (...words: string[]) => execFileSync('git', words, { encoding: 'utf8' }).trim()
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

if (values.help) console.log(USAGE)
else process.exitCode = await main() ? 0 : 1
