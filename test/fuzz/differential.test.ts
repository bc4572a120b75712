import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { DIFFERENCES } from './differences.ts'
import { openDifferential, type Case } from './differential.ts'

const SEED = 9449
const REQUESTS = 1500
/**
 * A case of the seed that each row explains, on every version of Node: from Node 25 on, the other side decodes
 * base64url by Node itself. Written anew with `npx tap --snapshot test/fuzz/differential.test.ts`.
 */
const EXAMPLES = new URL('examples.json', import.meta.url)
const MOST_SEARCHED = 40_000
/** Rows whose cases are too rare to be searched for. */
const RARE: Readonly<Record<string, { seed: number, number: number }>> = {
  'without kid each key of the algorithm is tried, whichever of its two names a key has': { seed: 21, number: 660_966 }
}

t.test('The guard and oauth4webapi accept and refuse the same requests, but for the differences that have a reason.', async t => {
  const { run, close } = await openDifferential(SEED)
  t.teardown(close)
  const unexplained: unknown[] = []
  const outcomes = { passed: 0, refused: 0, copies: 0 }
  for (let number = 0; number < REQUESTS; number++) {
    for (const { fault, isCopy, ours } of await run(number)) {
      if (fault) unexplained.push(`npm run fuzz -- --seed ${SEED} --number ${number}: ${fault}`)
      outcomes[isCopy ? 'copies' : ours === undefined ? 'passed' : 'refused']++
    }
  }
  t.strictSame(unexplained, [])
  t.ok(
    outcomes.passed > REQUESTS / 5 && outcomes.refused > REQUESTS / 5 && outcomes.copies > REQUESTS / 10,
    'and there are enough of each'
  )
})

t.test('Each row of the table explains a case, so none is dead.', async t => {
  const { run, close } = await openDifferential(SEED)
  t.teardown(close)
  const names = DIFFERENCES.map(({ name }) => name)
  const common = names.filter(name => !(name in RARE))
  if (process.env.TAP_SNAPSHOT === '1') {
    const found: Record<string, number> = {}
    for (let number = 0; number < MOST_SEARCHED && Object.keys(found).length < common.length; number++) {
      for (const { difference } of await run(number)) if (difference) found[difference] ??= number
    }
    return writeFileSync(
      EXAMPLES,
      JSON.stringify(Object.fromEntries(common.map(name => [name, found[name] ?? null])), null, 2) + '\n'
    )
  }
  const examples = JSON.parse(readFileSync(EXAMPLES, 'utf8')) as Record<string, number>
  t.strictSame([...Object.keys(examples), ...Object.keys(RARE)].sort(), [...names].sort())
  for (const [name, number] of Object.entries(examples)) {
    t.ok((await run(number)).some(({ difference }) => difference === name), `${name}: ${number}`)
  }
})

t.test('A difference that appears once in hundreds of thousands of cases is still explained.', async t => {
  for (const [name, { seed, number }] of Object.entries(RARE)) {
    const { run, close } = await openDifferential(seed)
    t.equal((await run(number))[0]!.difference, name)
    await close()
  }
})

t.test('Each row of the table says what has it so.', async t => {
  for (const { name, by } of DIFFERENCES) t.match(by, /contract \d|RFC \d+ section|docs\//, name)
})

t.test('What is explained of a request is what the guard decides.', async t => {
  const { run, explain, close } = await openDifferential(SEED)
  t.teardown(close)
  const wrong: unknown[] = []
  let compared = 0
  for (let number = 0; number < Number(process.env['FC_RUNS'] ?? 150); number++) {
    const [{ made, ours }] = await run(number) as [Case]
    // A nonce is of the running service alone, and so are the proofs that it has seen.
    if (made.wire.site === 'nonce' || ours === 'proof_replayed') continue
    compared++
    const reason = await explain(made.wire)
    if (reason !== ours) wrong.push({ number, ours, reason })
  }
  t.strictSame(wrong, [])
  t.ok(compared > 100)
})
