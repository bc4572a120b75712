import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sayEnded } from '../progress.ts'
import { nameLoss } from '../time-limit.js'
import { useReadyKeys } from './rsa-keys.ts'

useReadyKeys()

const root = join(import.meta.dirname, '..')

/** V8 counts what these run of the sources. They leave their process as they found it, and so do the others here. */
const COUNTED = /^cli\/explain\/|^(?:lib|plugins|routes|server)\/|^packages\/(?:app-document|guard|testing)\./
/**
 * Of the counted: much of their time passes in waiting for connections and limits, so two processes have these. They
 * have a few more, to take as long as the others.
 */
const WAITING = [
  /^plugins\/(?:connections|gate|gate-[\w-]+|request-end)\./,
  /^plugins\/(?:introspection|issuers|keys|last-connections|proofs|request-log|revocation-open)\.|^lib\/(?:guard\/provider\/transport|revocation\/store\/redis-store)\./
] as const
/** What a change to a route needs: the routes, their table, and what is said about them. */
const QUICK = /^(?:own|routes)\/|^plugins\/(?:errors|openapi|resource-metadata|verify)\./
/**
 * Of tools and whole examples, with real clients and linters: by `npm run test:programs`. They see the service as
 * others do, and what they run of it is tested in the other parts.
 */
const TOOLS =
  /^(?:examples|fuzz)\/|^cli\/(?:call|explain)\.|^deploy\/(?:dockerfile|gated|manifests|observability|release)\.|^dev\/(?:clients|provider|step-up)\.|^docs\/(?:clients|snippets)\.|^packages\/create-holdfast\.|^supply-chain\./
/** Other tests of files and commands: they run beside what is counted. */
const FILES = /^(?:cli|deploy|dev|docs|packages)\/|^(?:node-versions|start)\./
/**
 * It counts for itself, and V8 counts only what is compiled from then on: nothing of the sources may be loaded before.
 */
const FIRST = 'fuzz/parsers.test.ts'

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.test.ts')).sort()
const counted = files.filter(name => COUNTED.test(name))
const computing = counted.filter(name => !WAITING.some(waiting => waiting.test(name)))

/**
 * One for each process; all run at once, and take about equally long. Nothing is counted in `files` and `tools`: some
 * there count for themselves.
 */
const PARTS = {
  lib: computing.filter(name => !name.startsWith('plugins/')),
  plugins: computing.filter(name => name.startsWith('plugins/')),
  waiting: counted.filter(name => WAITING[0].test(name)),
  'waiting-for-peers': counted.filter(name => WAITING[1].test(name)),
  files: files.filter(name => FILES.test(name) && !COUNTED.test(name) && !TOOLS.test(name)),
  tools: [FIRST, ...files.filter(name => TOOLS.test(name) && name !== FIRST)],
  /** The tests of tokens and keys once more, with apps that verify as the npm package does. */
  tokens: files.filter(name => /^plugins\/(?:algorithms|keys|tokens)\./.test(name)),
  quick: files.filter(name => QUICK.test(name))
}

/**
 * Runs the files of a part in this process, one after the other: a process of its own, which loads tap, Fastify and the
 * service anew, costs more than what most files do. A file is loaded when its turn comes, so what it takes for the
 * present is.
 */
export async function runTogether (part: keyof typeof PARTS) {
  // To wait for a module does not keep Node 20 alive, and tap ends when Node would.
  const alive = setInterval(() => {}, 2 ** 30)
  for (const [index, file] of PARTS[part].entries()) {
    // Its tests are queued behind this one, and before the next.
    await t.test(file, t => {
      nameLoss(`test/${file}`, PARTS[part].slice(index + 1))
      return t.resolves(import(join(root, file)), 'the file is loaded; its tests follow')
    })
    await t.test(`${file} has ended`, async () => sayEnded(`test/${file}`))
  }
  clearInterval(alive)
}
