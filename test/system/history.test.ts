import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createReplayStore } from '../../lib/guard/replay/create-store.ts'
import type { ReplayStore } from '../../lib/guard/replay/replay-store.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { createRandom, type Random } from '../fuzz/random.ts'
import { skipRedis, startRedis, type RedisServer } from '../helpers/redis.ts'
import { findViolations, type Claim } from '../history/model.ts'
import { claimAll, createRecorder, nowSeconds, type Recorder } from '../history/recorder.ts'

/** lab/README.md says how to run longer ones. */
const SECONDS = Number(process.env.HISTORY_SECONDS ?? 6)
const SEED = Number(process.env.HISTORY_SEED ?? 21)
const INSTANCES = 4

t.setTimeout(SECONDS * 10_000 + 60_000)

interface Trouble {
  server: RedisServer
  stores: ReplayStore[]
  recorder: Recorder
  random: Random
  keepsRecords: boolean
}

const open = (port: number) =>
  createReplayStore({
    store: `redis://127.0.0.1:${port}`,
    maxRecords: 1,
    onEvent () {},
    surroundings: processSurroundings
  })

/** What can happen to instances and server, and how often it has. */
const TROUBLES: Record<string, (trouble: Trouble) => Promise<void>> = {
  async 'the server is killed, and started again' ({ server, recorder, keepsRecords }) {
    const start = nowSeconds()
    await server.kill()
    await delay(100)
    await server.start()
    if (!keepsRecords) recorder.lose(start, nowSeconds())
  },
  async 'the server hangs' ({ server }) {
    server.signal('SIGSTOP')
    await delay(350)
    server.signal('SIGCONT')
  },
  async 'all connections are cut' ({ server }) {
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  },
  async 'an instance crashes, and another one takes its place' ({ server, stores, random }) {
    const at = random.below(stores.length)
    stores[at]!.close()
    stores[at] = await open(server.port)
  }
}

async function makeTrouble (trouble: Trouble) {
  const untilSeconds = nowSeconds() + SECONDS
  const happened = new Map<string, number>()
  const names = Object.keys(TROUBLES)
  // Each kind once, then any.
  for (let number = 0; number < names.length || nowSeconds() < untilSeconds - 1; number++) {
    await delay(200 + trouble.random.below(500))
    const name = number < names.length ? names[number]! : trouble.random.among(names)
    await TROUBLES[name]!(trouble)
    happened.set(name, (happened.get(name) ?? 0) + 1)
  }
  await delay(1000)
  return happened
}

async function check (t: Test, args: string[], keepsRecords: boolean) {
  const server = await startRedis(t, args)
  const stores = await Promise.all(Array.from({ length: INSTANCES }, () => open(server.port)))
  t.teardown(() => stores.forEach(store => store.close()))
  const recorder = createRecorder()
  const common = { recorder, stores }
  let isOver = false
  const [happened] = await Promise.all([
    makeTrouble({ ...common, server, keepsRecords, random: createRandom(SEED, 1) }).finally(() => { isOver = true }),
    claimAll({ ...common, random: createRandom(SEED, 2), lifeSeconds: SECONDS + 600, isOver: () => isOver })
  ])
  const claims = recorder.operations.filter(operation => operation.kind === 'claim')
  const counted = (outcome: Claim['outcome']) => claims.filter(claim => claim.outcome === outcome).length
  t.comment(
    `seed ${SEED}: ${claims.length} claims, ${counted('first')} first, ${counted('seen')} seen, ` +
      `${counted('unknown')} refused; ${JSON.stringify(Object.fromEntries(happened))}`
  )
  t.strictSame(findViolations(recorder.operations), [])
  t.strictSame([...happened.keys()], Object.keys(TROUBLES), 'there was trouble of each kind')
  for (const outcome of ['first', 'seen', 'unknown'] as const) t.ok(counted(outcome) > 10, outcome)
  if (keepsRecords) return
  const withoutLosses = recorder.operations.filter(({ kind }) => kind === 'claim')
  t.ok(
    findViolations(withoutLosses).length > 0,
    'the twin: without the word that records were lost, the history is wrong'
  )
}

t.test(
  'Whatever happens to instances, connections and server, each id is first once, unless a server without a disk ' +
    'was killed in between.',
  { skip: skipRedis },
  t => check(t, [], false)
)

t.test(
  'A server that writes each record to its disk keeps the promise through its own death.',
  { skip: skipRedis },
  t => check(t, ['--appendonly', 'yes', '--appendfsync', 'always'], true)
)
