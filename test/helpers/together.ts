import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')

/** V8 counts what these run of the sources. They leave their process as they found it, and so do the others here. */
const COUNTED = /^(?:cli|explain|lib|plugins|routes|server)\/|^packages\/testing\./
/** Tests of files and tools. Nothing is counted in their process, so it is faster. */
const UNCOUNTED = /^(?:bench|chaos|deploy|dev|docs|history|packages)\/|^fuzz\/differential|^(?:node-versions|supply-chain)\./
/** It counts for itself, and V8 counts only what is compiled from then on: nothing of the sources may have been loaded before. */
const FIRST = 'fuzz/parsers.test.ts'
/** It starts programs one after the other and waits for them. */
const ALONE = 'dev/run.test.ts'

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.test.ts') && name !== ALONE).sort()
const counted = files.filter(name => COUNTED.test(name))
/** Every other one, but among plugins/ the other way round: so both halves take equally long. */
const half = (which: number): string[] => counted.filter((name, index) => (index + Number(name.startsWith('plugins/'))) % 2 === which)

const PARTS = {
  first: half(0),
  second: half(1),
  uncounted: [FIRST, ...files.filter(name => UNCOUNTED.test(name) && !COUNTED.test(name))]
}

/**
 * Runs the files of a part in this process, one after the other: a process of its own, which loads tap, Fastify and the service anew,
 * costs more than what most files do. A file is loaded when its turn comes, so what it takes for the present is.
 */
export async function runTogether (part: keyof typeof PARTS): Promise<void> {
  // To wait for a module does not keep Node 20 alive, and tap ends when Node would.
  const alive = setInterval(() => {}, 2 ** 30)
  for (const file of PARTS[part]) {
    await t.test(file, t => t.resolves(import(join(root, file)), 'the file is loaded; its tests follow'))
  }
  clearInterval(alive)
}
