import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createRandom } from '../fuzz/random.ts'
import { buildService } from '../helpers/instance.ts'
import { startIssuer, type Issuer } from '../helpers/issuer.ts'
import { startCluster, startFleet } from '../history/fleet.ts'
import { findViolations } from '../history/model.ts'
import { API, createBook, visitAll, type Book } from '../history/visitors.ts'

/** lab/README.md says how to send a million. */
const REPLAYS = Number(process.env['HISTORY_REPLAYS'] ?? 2000)
const SEED = Number(process.env['HISTORY_SEED'] ?? 21)
/** Long enough for each kind of trouble. */
const TROUBLES_AT_LEAST = 1

t.setTimeout(REPLAYS * 5 + 300_000)

let directory = ''
let issuer: Issuer

t.before(async () => {
  directory = buildService(t)
  issuer = await startIssuer(t)
})

const countOf = ({ operations }: Book, wanted: string) =>
  operations.filter(operation => operation.kind === 'claim' && operation.outcome === wanted).length

t.test('Whatever happens to instances without a store, a proof passes once at all of them together.', async t => {
  const env = { PUBLIC_URL: API, DPOP_NONCE: 'required' }
  const fleet = await startFleet(t, { directory, issuer, env, size: 3 })
  const cluster = await startCluster(t, { directory, issuer, env, size: 2 })
  const book = createBook()
  const random = createRandom(SEED, 1)
  const troubles: Record<string, () => Promise<void>> = {
    'one more': fleet.scaleOut,
    'one crashes': () => fleet.crash(random.below(9)),
    'one less': fleet.scaleIn,
    'all are replaced, one after the other': fleet.roll,
    'a worker of the cluster crashes': cluster.crashWorker
  }
  const happened: string[] = []
  let rounds = 0
  async function makeTrouble () {
    do {
      for (const [name, happen] of Object.entries(troubles)) {
        await delay(300)
        await happen()
        happened.push(name)
      }
      rounds++
    } while (book.replays < REPLAYS)
  }
  await Promise.all([
    makeTrouble(),
    visitAll({
      book,
      fleet,
      others: [cluster.url],
      issuer,
      random: createRandom(SEED, 2),
      clients: 20,
      thieves: 8,
      isOver: () => rounds >= TROUBLES_AT_LEAST && book.replays >= REPLAYS
    })
  ])
  const { served, challenges, gaveUp, replays, foreign } = book
  t.comment(
    `seed ${SEED}: ${served} requests served, ${challenges} challenges, ${replays} replays (${foreign} with a ` +
      `nonce of another process), ${countOf(book, 'seen')} seen, ${countOf(book, 'unknown')} without an answer; ` +
      `${happened.length} troubles`
  )
  t.ok(replays >= REPLAYS)
  t.strictSame(findViolations(book.operations), [])
  t.equal(gaveUp, 0, 'a client pays at most one challenge for a move')
  for (const outcome of ['first', 'seen']) t.ok(countOf(book, outcome) > 100, outcome)
  t.ok(foreign > 100)
})

/** The twin: what the history is judged by sees a proof that passes at two instances. */
async function expectViolations (t: Test, env: Record<string, string>) {
  const fleet = await startFleet(t, { directory, issuer, env: { PUBLIC_URL: API, ...env }, size: 2 })
  const book = createBook()
  await visitAll({
    book,
    fleet,
    others: [],
    issuer,
    random: createRandom(SEED, 3),
    clients: 5,
    thieves: 2,
    isOver: () => book.replays > 200
  })
  t.ok(findViolations(book.operations).length > 10)
}

t.test('With nonces off, the same history is wrong: a proof passes at each instance.', t =>
  expectViolations(t, { DPOP_NONCE: 'off' }))
