import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { fileEnded } from '../progress.js'

const root = join(import.meta.dirname, '..')

/** V8 counts what these run of the sources. They leave their process as they found it, and so do the others here. */
const COUNTED = /^(?:explain|lib|plugins|routes|server)\/|^packages\/(?:app-document|testing)\./
/** Of the counted: much of their time passes in waiting for connections and limits, beside those that compute. */
const WAITING = /^plugins\/(?:connections|gate-faults|introspection-peers|issuers|last-connections|proofs|request-log|revocation-open)\.|^lib\/(?:provider\/transport|replay\/redis-store)\./
/** They start programs one after the other, and wait for them. */
const PROGRAMS = /^dev\/run\.|^examples\/mcp-gated\.|^start\./
/** Tests of files and tools. */
const UNCOUNTED = /^(?:bench|chaos|cli|deploy|dev|docs|examples|fuzz|history|mutation|packages|planted)\/|^(?:architecture|node-versions|supply-chain)\./
/** It counts for itself, and V8 counts only what is compiled from then on: nothing of the sources may have been loaded before. */
const FIRST = 'fuzz/parsers.test.ts'

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.test.ts')).sort()
const counted = files.filter(name => COUNTED.test(name))
const computing = counted.filter(name => !WAITING.test(name))

/** One for each process; all run at once, and take about equally long. Nothing is counted in `programs` and `uncounted`, so they are faster. */
const PARTS = {
  lib: computing.filter(name => !name.startsWith('plugins/')),
  plugins: computing.filter(name => name.startsWith('plugins/')),
  waiting: counted.filter(name => WAITING.test(name)),
  programs: files.filter(name => PROGRAMS.test(name)),
  uncounted: [FIRST, ...files.filter(name => UNCOUNTED.test(name) && !COUNTED.test(name) && !PROGRAMS.test(name) && name !== FIRST)]
}

/**
 * Runs the files of a part in this process, one after the other: a process of its own, which loads tap, Fastify and the service anew,
 * costs more than what most files do. A file is loaded when its turn comes, so what it takes for the present is.
 */
export async function runTogether (part: keyof typeof PARTS): Promise<void> {
  // To wait for a module does not keep Node 20 alive, and tap ends when Node would.
  const alive = setInterval(() => {}, 2 ** 30)
  for (const [index, file] of PARTS[part].entries()) {
    await t.test(file, t => {
      if (index > 0) fileEnded(`test/${PARTS[part][index - 1]}`)
      return t.resolves(import(join(root, file)), 'the file is loaded; its tests follow')
    })
  }
  clearInterval(alive)
}
