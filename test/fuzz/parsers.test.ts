import t from 'tap'
import { openMeter } from './coverage.ts'
import { explore } from './guided.ts'
import type { Parser } from './parsers.ts'
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

t.test('A parser that crashes, or is slow, is found.', async t => {
  const meter = await openMeter('/test/fuzz/')
  t.teardown(meter.close)
  const found = async (run: Parser['run'], refusals: Parser['refusals'] = [], atLeast = 10): Promise<string[]> => {
    const { findings } = await explore(
      meter,
      { name: 'a parser', seeds: ['a,b'], run, refusals },
      createRandom(SEED),
      inputs => inputs >= atLeast
    )
    return findings.map(({ fault }) => fault)
  }
  t.match(
    (await found(
      text => {
        if (text.length === 2 && text.includes(',')) throw new RangeError('too deep')
      },
      [],
      150
    ))[0],
    /^RangeError: too deep/
  )
  t.strictSame(
    await found(() => {
      throw new RangeError('too deep')
    }, [RangeError]),
    [],
    'the twin: an error that is a refusal'
  )
  const pairs = (text: string): number => {
    let count = 0
    for (let one = 0; one < text.length; one++) for (let other = 0; other < text.length; other += 100) count++
    return count
  }
  t.match((await found(pairs))[0], /operations for \d+ pieces/)
  t.strictSame(
    await found(text => {
      for (const char of text) pairs(char)
    }),
    [],
    'the twin: one that reads each character once'
  )
})
