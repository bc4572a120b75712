/**
 * `npm run fuzz:parsers -- --seconds N --seed N`: each parser of a stranger's bytes, led by what of its code an input
 * reaches. `--parser NAME` takes only the one with that name. Ends with status 1 if one crashes, or takes more than its
 * share.
 */
import { readOptions } from '../../bench/options.js'
import { openMeter } from './coverage.ts'
import { explore } from './guided.ts'
import { createRandom } from './random.ts'

const values = readOptions({
  seconds: { type: 'string', default: '60' },
  seed: { type: 'string', default: '1' },
  parser: { type: 'string' }
})
const meter = await openMeter('/lib/')
// V8 counts the blocks of what is compiled from now on.
const { PARSERS } = await import('./parsers.ts')
const parsers = PARSERS.filter(({ name }) => values.parser === undefined || name === values.parser)
const msEach = Number(values.seconds) * 1000 / parsers.length
let findings = 0
let inputs = 0

for (const [at, parser] of parsers.entries()) {
  const end = performance.now() + msEach
  const found = await explore(meter, parser, createRandom(Number(values.seed), at), () => performance.now() > end)
  inputs += found.inputs
  findings += found.findings.length
  console.log(
    `# ${parser.name}: ${found.inputs} inputs, ${found.blocks} blocks, ${found.corpus.length} kept, at most ` +
      `${Math.round(found.worstShare * 100)} % of the operations that are allowed, ${found.findings.length} ` +
      'findings'
  )
  for (const { fault, input } of found.findings.slice(0, 3)) {
    console.log(`${fault}\n${JSON.stringify(input.slice(0, 1000))}`)
  }
}
await meter.close()
console.log(`# seed ${values.seed}: ${inputs} inputs, ${findings} findings`)
console.log(`# { total: 1, pass: ${findings === 0 ? 1 : 0}, fail: ${findings === 0 ? 0 : 1} }`)
process.exitCode = findings === 0 ? 0 : 1
