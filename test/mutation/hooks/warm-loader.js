import { readFileSync } from 'node:fs'

// Each run gets modules of its own: the address of a source file ends with the number of the run. Packages are loaded
// once.
const root = new URL('../../../', import.meta.url).href
const tap = new URL('tap.js', import.meta.url).href
let run
let folder
let mutant

export function initialize (given) {
  run = new Int32Array(given.run)
  folder = given.folder
}

export async function resolve (specifier, context, nextResolve) {
  const mark = `?run=${Atomics.load(run, 0)}`
  if (specifier === 'tap' && context.parentURL?.startsWith(root)) {
    return { url: tap + mark, format: 'module', shortCircuit: true }
  }
  const resolved = await nextResolve(specifier, context)
  const isSource = resolved.url.startsWith(root) && resolved.url.endsWith('.ts') &&
    !resolved.url.includes('/node_modules/')
  return isSource ? { ...resolved, url: resolved.url + mark } : resolved
}

export function load (url, context, nextLoad) {
  const [address, number] = url.split('?run=')
  if (number === undefined) return nextLoad(url, context)
  if (mutant?.number !== number) mutant = { number, ...JSON.parse(readFileSync(`${folder}/${number}.json`, 'utf8')) }
  if (mutant.url === address) return { format: 'module', shortCircuit: true, source: mutant.source }
  return nextLoad(address, context)
}
