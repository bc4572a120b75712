import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import blank from 'ts-blank-space'
import ts from 'typescript'
import { FAULTS, testsOf } from './faults.ts'
import type { Fault, NamedTest } from './faults.ts'
import { runTestFile } from './trial.ts'
import type { Run } from './trial.ts'

const TIMEOUT_MS = 120_000
/** It starts the compiled service, in processes that share nothing with it. */
const OF_COMPILED = 'test/start.test.ts'

/**
 * Runs each chosen fault with the tests that must see it, and prints the table.
 * @param only the beginnings of points or of source files
 * @returns whether each test fails with its faults, and passes without
 */
export async function judgePlanted (only: readonly string[]): Promise<boolean> {
  const sound = new Map<string, boolean>()
  const judge = async (fault: Fault, test: NamedTest): Promise<string> => {
    const key = `${test.file}: ${test.title}`
    if (!sound.has(key)) sound.set(key, (await runTest(test)).end === 'passed')
    if (!sound.get(key)) return 'FAILS WITHOUT IT'
    const { end, failure } = await runWithFault(test, fault)
    if (end === 'passed') return 'NOT SEEN'
    return end === 'failed'
      ? `seen: ${(failure ?? 'the file does not load').slice(0, 60).replaceAll('|', '/')}`
      : 'seen: it does not end'
  }

  const chosen = FAULTS.filter(({ point, file }) =>
    only.some(start => point.startsWith(start) || file.startsWith(start))
  )
  console.log('| point | fault | test | |\n| --- | --- | --- | --- |')
  const verdicts: string[] = []
  for (const fault of chosen) {
    for (const test of testsOf(fault)) {
      const verdict = await judge(fault, test)
      verdicts.push(verdict)
      console.log(`| ${fault.point} | ${fault.fault} | ${test.title} | ${verdict} |`)
    }
  }
  const unseen = verdicts.filter(verdict => !verdict.startsWith('seen: ')).length
  console.log(`\n${chosen.length} faults, ${verdicts.length} tests run with one, ${unseen} of them do not see it`)
  return unseen === 0
}

/**
 * The source file of a fault with the fault in. Lines may be broken elsewhere in the file than in the text. Throws an
 * Error unless the file holds its text exactly once.
 */
export function withFault ({ file, text, replacement }: Pick<Fault, 'file' | 'text' | 'replacement'>): string {
  const words = text.split(/\s+/).map(word => word.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const parts = readFileSync(file, 'utf8').split(new RegExp(words.join('\\s+')))
  if (text === '' || parts.length !== 2) throw new Error(`${file} has the text ${parts.length - 1} times: ${text}`)
  if (replacement === text) throw new Error(`${file}: nothing is changed: ${text}`)
  return parts.join(replacement)
}

function runTest ({ file, title }: NamedTest, env: Record<string, string> = {}): Promise<Run> {
  return runTestFile(file, {
    only: title === file ? undefined : [title],
    timeoutMs: TIMEOUT_MS,
    clock: () => performance.now(),
    env
  })
}

/** No source is changed: the loader swaps the text of the module. */
async function runWithFault (test: NamedTest, fault: Fault): Promise<Run> {
  const source = withFault(fault)
  if (test.file === OF_COMPILED) return runCompiled(test, fault, source)
  const folder = mkdtempSync(join(tmpdir(), 'planted-'))
  try {
    const swapped = join(folder, 'source.js')
    writeFileSync(swapped, blank(source))
    return await runTest(test, { MUTANT_URL: pathToFileURL(resolve(fault.file)).href, MUTANT_SOURCE: swapped })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Swaps the compiled file, as long as the test runs. */
async function runCompiled (test: NamedTest, { file }: Fault, source: string): Promise<Run> {
  const compiled = join('dist', file.replace(/ts$/, 'js'))
  // The test builds if the sources are newer.
  if (!existsSync(compiled)) await runTest(test)
  const before = readFileSync(compiled)
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile('tsconfig.build.json', ts.sys.readFile).config,
    ts.sys,
    '.'
  )
  writeFileSync(compiled, ts.transpileModule(source, { compilerOptions: options, fileName: file }).outputText)
  try {
    return await runTest(test)
  } finally {
    writeFileSync(compiled, before)
  }
}
