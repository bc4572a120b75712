import t from 'tap'
import { openMeter } from './coverage.ts'
import { explore } from './guided.ts'
import { createRandom } from './random.ts'

const SEED = 21
const INPUTS = 15

t.test('No parser of untrusted bytes crashes, and ten times the bytes take at most ten times the work.', async t => {
  const meter = await openMeter('/lib/')
  t.teardown(meter.close)
  // V8 counts the blocks of what is compiled from now on.
  const { PARSERS } = await import('./parsers.ts')
  for (const [at, parser] of PARSERS.entries()) {
    const { findings, blocks, inputs } = await explore(
      meter,
      parser,
      createRandom(SEED, at),
      inputs => inputs >= INPUTS
    )
    t.strictSame(
      findings.map(({ fault, input }) => `${fault} ${JSON.stringify(input.slice(0, 200))}`),
      [],
      `${parser.name}: ${inputs} inputs, ${blocks} blocks`
    )
  }
})
