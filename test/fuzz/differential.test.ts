import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { DIFFERENCES, factsOf, findDifference, findLost } from './differences.ts'
import { openDifferential } from './differential.ts'
import { goodParts, make } from './parts.ts'
import { createRandom } from './random.ts'

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

t.test('A request that passes although a row says that it must not is reported, whatever the other says.', t => {
  const facts = factsOf(make(goodParts(createRandom(SEED), 1_767_225_600, 'a')), '', false)
  for (const theirs of [undefined, 'JWT signature verification failed']) {
    t.equal(findLost({ ...facts, ours: undefined, theirs }), undefined, 'the twin: a good request')
    t.equal(
      findLost({ ...facts, token: `${facts.token}=`, ours: undefined, theirs })?.name,
      'base64url has one spelling'
    )
    t.equal(
      findLost({ ...facts, token: `${facts.token}=`, ours: 'token_malformed', theirs }),
      undefined,
      'ours refuses it'
    )
  }
  t.strictSame(DIFFERENCES.filter(({ ours, refused }) => refused && !ours), [], 'only rows for what ours refuses')
  t.end()
})

t.test('A difference that no row explains is reported, whichever of the two is laxer.', t => {
  const made = make(goodParts(createRandom(SEED), 1_767_225_600, 'a'))
  const facts = factsOf(made, '', false)
  t.equal(
    findDifference({ ...facts, ours: undefined, theirs: 'JWT signature verification failed' }),
    undefined,
    'a wrong signature that passes'
  )
  t.equal(
    findDifference({ ...facts, ours: 'proof_replayed', theirs: undefined }),
    undefined,
    'a proof that is refused though it is new'
  )
  t.hasStrict(findDifference({ ...facts, isUsed: true, ours: 'proof_replayed', theirs: undefined }), {
    name: 'a proof passes once'
  }, 'the twin: it has been used')
  for (const { name, by } of DIFFERENCES) t.match(by, /contract \d|RFC \d+ section|docs\//, name)
  t.end()
})
