import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readOptions } from '../../bench/options.js'
import { findMutants, hashOf, mutate, readProgram, shorten, type Mutant, type Program } from './mutants.ts'
import { findCandidate, readReach, type Candidate, type Reach } from './reach.ts'
import { runTestFile } from './trial.ts'

const USAGE = `npm run test:mutation -- [options]

  --only PATH     only files whose path begins so, or one line (lib/guard/message.ts:71); may be repeated
  --changed       only lines that differ from main (on main: from the commit before)
  --sample N      only so many mutants, chosen by the seed
  --seed N        1
  --jobs N        processes at once: 2
  --budget N      seconds of tests for one mutant, after which it counts as a survivor: 120
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

/**
 * Tests of tools, files and whole processes: what they run of the sources, others run as well. Only Redis runs the
 * scripts that are for it.
 */
const LEFT_OUT =
  /^test\/(?:deploy|dev|docs|examples|fuzz|history|lint|matrix|mutation|own|programs|batches|types)\/|^test\/system\/(?!revocation-redis\.)|^test\/(?:start|node-versions|supply-chain)\./

const SOURCES = ['lib', 'plugins', 'routes', 'server', 'cli']
const TARGET_PERCENT = 95

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
  const reaches = await reachOfTests(programs)
  const survivors: Mutant[] = []
  const folder = mkdtempSync(join(tmpdir(), 'mutant-'))
  await inParallel(mutants, async (mutant, done) => {
    const program = programs.get(mutant.file)!
    const candidates = reaches.flatMap(reach => findCandidate(reach, mutant, program) ?? [])
    if (!await isKilled(mutant, program, candidates, folder)) {
      survivors.push(mutant)
      console.log(describe(mutant))
    }
    console.error(`${done} of ${mutants.length} judged, ${survivors.length} alive`)
  })
  rmSync(folder, { recursive: true })
  const percent = mutants.length === 0 ? 100 : 100 * (1 - survivors.length / mutants.length)
  console.log(`${mutants.length} mutants, ${survivors.length} survivors: ${percent.toFixed(1)} % killed`)
  return percent >= TARGET_PERCENT
}

const describe = ({ file, lineNumber, within, operator, original, text }: Mutant) =>
  `${file}:${lineNumber} (${within}) ${operator}: ${original} -> ${shorten(text)}`

/** Runs what may kill a mutant, tests beside it and short ones first, until one fails that passes without it. */
async function isKilled (
  mutant: Mutant,
  program: Program,
  candidates: readonly Candidate[],
  folder: string
) {
  const source = join(folder, mutant.id)
  writeFileSync(source, mutate(program, mutant))
  const env = { MUTANT_URL: pathToFileURL(resolve(mutant.file)).href, MUTANT_SOURCE: source }
  const words = mutant.file.replace('.ts', '').split('/')
  const cost = ({ file, ms }: Candidate) =>
    (ms + 500) / words.reduce((near, word) => near * (file.includes(word) ? 10 : 1), 1)
  const until = performance.now() + Number(values.budget) * 1000
  for (const { file, only, ms } of candidates.toSorted((a, b) => cost(a) - cost(b))) {
    // On a busy machine a start takes long, and a run that is cut shows nothing.
    const trial = { only, timeoutMs: 60_000 + 5 * ms }
    if (!await runTestFile(file, { ...trial, env }) && await runTestFile(file, trial)) return true
    if (performance.now() > until) return false
  }
  return false
}

/** What each file of tests runs, measured if it is not known. */
async function reachOfTests (programs: ReadonlyMap<string, Program>) {
  const files = filesIn('test').filter(file => file.endsWith('.test.ts') && !LEFT_OUT.test(file))
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
