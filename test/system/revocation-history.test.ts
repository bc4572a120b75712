import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { createRandom } from '../fuzz/random.ts'
import type { Random } from '../fuzz/random.ts'
import { buildService, startInstance } from '../helpers/instance.ts'
import type { Instance } from '../helpers/instance.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { skipRedis, startRedis } from '../helpers/redis.ts'
import { RECEIVER, startTransmitter } from '../helpers/revocation-site.ts'
import type { Transmitter } from '../helpers/revocation-site.ts'
import type { RedisServer } from '../helpers/redis.ts'
import { nowSeconds } from '../history/recorder.ts'
import { findWrongCalls } from '../history/revocation-model.ts'
import type { SessionOperation } from '../history/revocation-model.ts'

/** `npm run test:history` takes longer than the other tests do. */
const SECONDS = Math.max(Number(process.env.HISTORY_SECONDS ?? 0), 24)
const SEED = Number(process.env.HISTORY_SEED ?? 31)
const ANSWER_MS = 3000

t.setTimeout(SECONDS * 5000 + 60_000)

/** Tokens of the sessions of the last seconds are tried, and some of all. */
const YOUNG = 60

/**
 * Seconds by which the clocks of the instances are wrong, and those of the transmitters. They stay within the
 * tolerance.
 */
const INSTANCE_CLOCKS = [2, 0, -2]
const TRANSMITTER_CLOCKS = [4, -4]
/** Of a leap. Tokens are valid for longer, and shorter than cutoffs are kept. */
const LEAP_SECONDS = 3600
const LIFE_SECONDS = 4 * LEAP_SECONDS

interface Site {
  /** Each with a transmitter of its own. */
  readonly issuers: readonly Issuer[]
  readonly transmitters: readonly Transmitter[]
  /** It speaks about sessions and users of the others, whom it may not speak for. */
  readonly hostile: Transmitter
  readonly server: RedisServer
  readonly instances: Instance[]
  readonly operations: SessionOperation[]
  readonly random: Random
  readonly sessions: string[]
  readonly tokens: Map<string, string>
  start (at: number): Promise<Instance>
}

async function answerOf (url: string, init: RequestInit): Promise<number> {
  return fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_MS) }).then(async answer => {
    await answer.arrayBuffer()
    return answer.status
  }, () => 0)
}

/** An operator of the issuer of the session ends it, or its transmitter, whose clock is wrong. */
async function endSession (site: Site, { url }: Instance, session: string): Promise<void> {
  const { operations, random, sessions } = site
  const by = sessions.indexOf(session) % site.issuers.length
  const isOperator = random.below(2) === 0
  const start = nowSeconds()
  const status = isOperator
    ? await answerOf(`${url}/revocation/subjects`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${site.issuers[by]!.token({ sub: 'operator', scope: 'revoke', exp: Math.floor(start) + LIFE_SECONDS })}`
      },
      body: JSON.stringify({ sub_id: { format: 'opaque', id: session } })
    })
    : await push(
      url,
      site.transmitters[by]!.set({
        claims: { iat: Math.floor(start) + TRANSMITTER_CLOCKS[by]!, sub_id: { format: 'opaque', id: session } }
      })
    )
  operations.push({
    kind: 'ending',
    session,
    outcome: status === 204 || status === 202 ? 'acknowledged' : 'unknown',
    start,
    end: nowSeconds()
  })
}

async function push (url: string, set: string): Promise<number> {
  return answerOf(`${url}/revocation/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/secevent+jwt' },
    body: set
  })
}

/** Well signed, and about what is not its own. */
async function attack ({ hostile, issuers, random, sessions }: Site, { url }: Instance): Promise<void> {
  const session = random.among(sessions)
  const users = issuers.map(({ url }) => ({ format: 'iss_sub', iss: url, sub: 'user-1' }))
  const subjects = [{ format: 'opaque', id: session }, users[0], { format: 'aliases', identifiers: users }, {
    user: users[1],
    session: { format: 'opaque', id: session }
  }]
  await push(url, hostile.set({ claims: { sub_id: random.among(subjects) } }))
}

async function call ({ operations, tokens }: Site, { url }: Instance, session: string): Promise<void> {
  const start = nowSeconds()
  const status = await answerOf(`${url}/api/private`, { headers: { authorization: `Bearer ${tokens.get(session)!}` } })
  operations.push({
    kind: 'call',
    session,
    instance: url,
    outcome: status === 200 ? 'passed' : status === 401 ? 'revoked' : 'unknown',
    start,
    end: nowSeconds()
  })
}

function makeSession ({ issuers, sessions, tokens }: Site): string {
  const session = `session ${sessions.length}`
  const iat = Math.floor(nowSeconds()) - 60
  tokens.set(session, issuers[sessions.length % issuers.length]!.token({ sid: session, iat, exp: iat + LIFE_SECONDS }))
  sessions.push(session)
  return session
}

/** What can happen to instances and server, and how often it has. */
const TROUBLES: Readonly<Record<string, (site: Site) => Promise<void>>> = {
  async 'an instance is killed while it stores, and starts anew' (site) {
    const at = site.random.below(site.instances.length)
    const instance = site.instances[at]!
    const stored = endSession(site, instance, makeSession(site))
    await delay(site.random.below(6))
    instance.signal('SIGKILL')
    await Promise.all([stored, instance.ended])
    site.instances[at] = await site.start(at)
  },
  async 'the server is killed with its data' ({ server }) {
    await server.kill()
    await delay(100)
    await server.start()
  },
  async 'the server hangs' ({ server }) {
    server.signal('SIGSTOP')
    await delay(1800)
    server.signal('SIGCONT')
  },
  async 'the server is emptied' ({ server }) {
    await server.command('FLUSHALL')
  },
  async 'all connections are cut' ({ server }) {
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  },
  async 'an instance hangs' ({ instances, random }) {
    const instance = random.among(instances)
    instance.signal('SIGSTOP')
    await delay(1500)
    instance.signal('SIGCONT')
  },
  async 'the clock of an instance leaps, and is set right' (site) {
    const instance = site.random.among(site.instances)
    instance.signal('SIGUSR2')
    await endSession(site, instance, makeSession(site))
    await delay(1500)
    instance.signal('SIGUSR2')
  }
}

async function makeTrouble (site: Site, untilSeconds: number): Promise<Map<string, number>> {
  const happened = new Map<string, number>()
  for (let number = 0; nowSeconds() < untilSeconds - 2; number++) {
    await delay(500 + site.random.below(800))
    // Each kind once, then any.
    const names = Object.keys(TROUBLES)
    const name = number < names.length ? names[number]! : site.random.among(names)
    await TROUBLES[name]!(site)
    happened.set(name, (happened.get(name) ?? 0) + 1)
  }
  return happened
}

async function makeLoad (site: Site, untilSeconds: number): Promise<void> {
  const { random, sessions, instances } = site
  const pending: Array<Promise<void>> = []
  while (nowSeconds() < untilSeconds) {
    if (random.below(4) === 0) makeSession(site)
    if (random.below(6) === 0) {
      pending.push(endSession(site, random.among(instances), random.among(sessions.slice(-YOUNG))))
    }
    if (random.below(6) === 0) pending.push(attack(site, random.among(instances)))
    pending.push(
      call(site, random.among(instances), random.among(random.below(4) === 0 ? sessions : sessions.slice(-YOUNG)))
    )
    await delay(10 + random.below(10))
  }
  await Promise.all(pending)
}

/** Runs in each instance first: its clock is wrong by some seconds, and leaps and comes back by a signal. */
const CLOCK = `
const { now } = Date
const own = Number(process.env.CLOCK_SECONDS) * 1000
let leap = 0
Date.now = () => now() + own + leap
process.on('SIGUSR2', () => { leap = leap === 0 ? ${LEAP_SECONDS * 1000} : 0 })
`

async function startSite (t: Test): Promise<Site> {
  const server = await startRedis(t)
  const issuers = [await startIssuer(t), await startIssuer(t)]
  const transmitters = [await startTransmitter(t), await startTransmitter(t)]
  const hostile = await startTransmitter(t)
  const directory = buildService(t)
  writeFileSync(join(directory, 'clock.cjs'), CLOCK)
  writeFileSync(
    join(directory, 'revocation.json'),
    JSON.stringify({
      idp: { audience: AUDIENCE, issuers: issuers.map(({ url }) => ({ issuer: url })) },
      revocation: {
        operators: { scope: 'revoke' },
        transmitters: [...transmitters, hostile].map(({ url }, index) => ({
          issuer: url,
          audience: RECEIVER,
          delivery: 'push',
          ...issuers[index] && { tokenIssuers: [issuers[index].url] }
        })),
        store: `redis://127.0.0.1:${server.port}`,
        // An instance that has heard nothing for a second says that it does not know.
        staleSeconds: 1
      }
    })
  )
  const start = (at: number): Promise<Instance> =>
    startInstance(t, directory, issuers[0]!, {
      IDP_ISSUER: '',
      IDP_AUDIENCE: '',
      CONFIG_FILE: 'revocation.json',
      LOG_LEVEL: 'info',
      NODE_OPTIONS: `--require ${join(directory, 'clock.cjs')}`,
      CLOCK_SECONDS: String(INSTANCE_CLOCKS[at])
    })
  const instances = await Promise.all(INSTANCE_CLOCKS.map((_, at) => start(at)))
  await Promise.all(instances.map(({ untilReady }) => untilReady()))
  const site: Site = {
    issuers,
    transmitters,
    hostile,
    server,
    instances,
    start,
    operations: [],
    random: createRandom(SEED, 1),
    sessions: [],
    tokens: new Map()
  }
  makeSession(site)
  return site
}

t.test(
  'Whatever happens to instances, connections, clocks and server, and whatever a hostile transmitter says, no ' +
    'token passes later than a second after its session was ended, unless the instance says that it does not know.',
  { skip: skipRedis },
  async t => {
    const site = await startSite(t)
    const untilSeconds = nowSeconds() + SECONDS
    const [happened] = await Promise.all([
      makeTrouble(site, untilSeconds),
      makeLoad({ ...site, random: createRandom(SEED, 2) }, untilSeconds)
    ])
    // All that was acknowledged holds at each instance when all is calm again.
    await Promise.all(site.instances.map(({ untilReady }) => untilReady()))
    const { operations, instances } = site
    const acknowledged = new Set(
      operations.flatMap(operation =>
        operation.kind === 'ending' && operation.outcome === 'acknowledged' ? [operation.session] : []
      )
    )
    await delay(1100)
    for (const session of acknowledged) {
      await Promise.all(instances.map(instance => call(site, instance, session)))
    }

    const counted = (kind: string, outcome: string): number =>
      operations.filter(operation => operation.kind === kind && operation.outcome === outcome).length
    const counts = Object.fromEntries(
      [['ending', 'acknowledged'], ['ending', 'unknown'], ['call', 'passed'], ['call', 'revoked'], ['call', 'unknown']]
        .map(([kind, outcome]) => [`${kind} ${outcome}`, counted(kind!, outcome!)])
    )
    t.comment(`seed ${SEED}: ${JSON.stringify(counts)}; ${JSON.stringify(Object.fromEntries(happened))}`)
    t.strictSame(findWrongCalls(operations), [])
    t.strictSame([...happened.keys()], Object.keys(TROUBLES), 'there was trouble of each kind')
    for (const [name, count] of Object.entries(counts)) t.ok(count > 5, `${name}: ${count}`)
    const asIfLate = operations.map(operation =>
      operation.kind === 'ending'
        ? { ...operation, outcome: 'acknowledged' as const, end: operation.start - 2 }
        : operation
    )
    t.ok(findWrongCalls(asIfLate).length > 0, 'the twin: if sessions had ended earlier, the history would be wrong')
  }
)
