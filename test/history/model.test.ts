import t from 'tap'
import { processSurroundings } from '../../server/surroundings.ts'
import { createMemoryStore } from '../../lib/guard/replay/memory-store.ts'
import type { ReplayStore } from '../../lib/guard/replay/replay-store.ts'
import { createRandom } from '../fuzz/random.ts'
import { findViolations, type Operation } from './model.ts'
import { claimAll, createRecorder, nowSeconds } from './recorder.ts'

/** One claim as `outcome start-end`, of a record that lives until second 100 unless it says. */
function claims (...texts: string[]): Operation[] {
  return texts.map(text => {
    const [outcome, start, end, until = '100'] = text.split(/[ -]/)
    if (outcome === 'loss') return { kind: 'loss', start: Number(start), end: Number(end) }
    return {
      kind: 'claim',
      id: 'a',
      outcome: outcome as 'first',
      start: Number(start),
      end: Number(end),
      expiresAt: Number(until)
    }
  })
}

t.test('A history is right if its claims have an order in which the first is first, and the others are not.', t => {
  const rows: ReadonlyArray<{ title: string, history: string[], isRight: boolean }> = [
    { title: 'one claim', history: ['first 1-2'], isRight: true },
    { title: 'first, then seen', history: ['first 1-2', 'seen 3-4'], isRight: true },
    { title: 'first twice', history: ['first 1-2', 'first 3-4'], isRight: false },
    { title: 'first twice at once', history: ['first 1-4', 'first 1-4'], isRight: false },
    { title: 'seen while the first is under way', history: ['first 1-9', 'seen 2-3'], isRight: true },
    { title: 'seen before the first has begun', history: ['first 4-5', 'seen 2-3'], isRight: false },
    { title: 'seen without a first', history: ['seen 2-3'], isRight: false },
    { title: 'seen after a claim without an answer', history: ['unknown 1-2', 'seen 3-4'], isRight: true },
    { title: 'seen before a claim without an answer', history: ['seen 1-2', 'unknown 3-4'], isRight: false },
    {
      title: 'first after a claim without an answer that was not recorded',
      history: ['unknown 1-2', 'first 3-4', 'seen 5-6'],
      isRight: true
    },
    {
      title: 'a claim without an answer that is recorded after it was given up',
      history: ['unknown 1-2', 'first 3-4', 'loss 5-6', 'seen 7-8'],
      isRight: true
    },
    {
      title: 'a claim without an answer does not make two first',
      history: ['unknown 1-2', 'first 3-4', 'first 5-6'],
      isRight: false
    },
    { title: 'first again after a loss', history: ['first 1-2', 'loss 3-4', 'first 5-6'], isRight: true },
    { title: 'first again before a loss', history: ['first 1-2', 'first 3-4', 'loss 5-6'], isRight: false },
    {
      title: 'first three times with one loss',
      history: ['first 1-2', 'loss 3-4', 'first 5-6', 'first 7-8'],
      isRight: false
    },
    { title: 'a loss that need not have happened', history: ['first 1-2', 'loss 3-4', 'seen 5-6'], isRight: true },
    { title: 'first again after its life', history: ['first 1-2-10', 'first 11-12-20'], isRight: true },
    { title: 'first again within its life', history: ['first 1-2-10', 'first 8-9-20'], isRight: false },
    { title: 'seen for some seconds after its life', history: ['first 1-2-10', 'seen 15-16'], isRight: true },
    { title: 'seen for ever', history: ['first 1-2-10', 'seen 30-31'], isRight: false }
  ]
  for (const { title, history, isRight } of rows) {
    t.strictSame(findViolations(claims(...history)), isRight ? [] : ['a'], title)
    t.strictSame(
      findViolations(claims(...history).reverse()),
      isRight ? [] : ['a'],
      `${title}, in whatever order it was written down`
    )
  }
  const other = claims('first 1-2', 'first 3-4').map((operation, at) =>
    operation.kind === 'claim' && at === 1 ? { ...operation, id: 'b' } : operation
  )
  t.strictSame(findViolations(other), [], 'ids have nothing to do with each other')
  t.end()
})

/** A store of a kind that is wrong in one way. */
function wrongStore (
  record: (id: string, known: Map<string, number>, answer: (first: boolean) => void) => void
): ReplayStore {
  const known = new Map<string, number>()
  return {
    record: (id, _jkt, _expiresAt, done) => record(id, known, first => done(null, first)),
    state: () => ({ kind: 'memory', ready: true, records: 0, seen: 0, refused: 0 }),
    close () {}
  }
}

async function historyOf (stores: ReplayStore[], seconds: number, seed: number): Promise<Operation[]> {
  const recorder = createRecorder()
  await claimAll({
    recorder,
    random: createRandom(seed),
    stores,
    untilSeconds: nowSeconds() + seconds,
    lifeSeconds: 60
  })
  return recorder.operations
}

t.test('The memory store keeps the promise, and wrong stores are detected.', async t => {
  const store = createMemoryStore({ max: 100_000, ...processSurroundings })
  const lookThenWrite = wrongStore((id, known, answer) => {
    const isKnown = known.has(id)
    setImmediate(() => {
      known.set(id, 1)
      answer(!isKnown)
    })
  })
  const forgetful = wrongStore((id, known, answer) => {
    answer(!known.has(id))
    known.set(id, 1)
    if (known.size > 20) known.delete(known.keys().next().value!)
  })
  const [right, ...wrong] = await Promise.all([
    historyOf([store], 2, 1),
    historyOf([lookThenWrite], 2, 2),
    historyOf([forgetful], 2, 3),
    // Two instances without a common store.
    historyOf(Array.from({ length: 2 }, () => createMemoryStore({ max: 100_000, ...processSurroundings })), 2, 4)
  ])
  t.ok(right!.length > 100, `${right!.length} claims`)
  t.strictSame(findViolations(right!), [])
  for (const [at, history] of wrong.entries()) t.ok(findViolations(history).length > 10, `wrong store ${at}`)
})
