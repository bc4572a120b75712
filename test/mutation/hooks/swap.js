import '../../../cli/strip-types.js'
import { readFileSync } from 'node:fs'
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

// Loaded with --import into each process of a test. The first import came first, so that this hook is asked before the
// one there.
const { MUTANT_URL: mutant, MUTANT_SOURCE: source } = process.env
if (isMainThread) register(import.meta.url)

/** The hook that Node calls for each module: it gives the changed text for the file that is under trial. */
export function load (url, context, nextLoad) {
  if (url !== mutant) return nextLoad(url, context)
  return { format: 'module', shortCircuit: true, source: readFileSync(source, 'utf8') }
}
