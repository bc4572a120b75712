import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import blank from 'ts-blank-space'
import ts from 'typescript'
import { runTestFile } from '../mutation/trial.ts'
import type { Run } from '../mutation/trial.ts'
import type { Fault, NamedTest } from './faults.ts'

const TIMEOUT_MS = 120_000
/** It starts the compiled service, in processes that share nothing with it. */
const OF_COMPILED = 'test/start.test.ts'

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

/** Runs one test as it is. */
export function runTest ({ file, title }: NamedTest, env: Record<string, string> = {}): Promise<Run> {
  return runTestFile(file, {
    only: title === file ? undefined : [title],
    timeoutMs: TIMEOUT_MS,
    clock: () => performance.now(),
    env
  })
}

/** Runs one test with the fault in. No source is changed: the loader swaps the text of the module. */
export async function runWithFault (test: NamedTest, fault: Fault): Promise<Run> {
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
