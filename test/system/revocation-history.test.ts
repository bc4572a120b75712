import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { createRandom } from '../fuzz/random.ts'
import type { Random } from '../fuzz/random.ts'
import { buildService, startInstance } from '../helpers/instance.ts'
import type { Instance } from '../helpers/instance.ts'
import { startIssuer } from '../helpers/issuer.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { skipRedis, startRedis } from '../helpers/redis.ts'
import type { RedisServer } from '../helpers/redis.ts'
import { nowSeconds } from '../history/recorder.ts'
import { findWrongCalls } from '../history/revocation-model.ts'
import type { SessionOperation } from '../history/revocation-model.ts'

/** `npm run test:history` takes longer than the other tests do. */
const SECONDS = Math.max(Number(process.env.HISTORY_SECONDS ?? 0), 24)
const SEED = Number(process.env.HISTORY_SEED ?? 31)
const INSTANCES = 3
const ANSWER_MS = 3000

t.setTimeout(SECONDS * 5000 + 60_000)

/** Tokens of the sessions of the last seconds are tried, and some of all. */
const YOUNG = 60

interface Site {
  readonly issuer: Issuer
  readonly server: RedisServer
  readonly instances: Instance[]
  readonly operations: SessionOperation[]
  readonly random: Random
  readonly sessions: string[]
  readonly tokens: Map<string, string>
  start (): Promise<Instance>
}

async function answerOf (url: string, init: RequestInit): Promise<number> {
  return fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_MS) }).then(async answer => {
    await answer.arrayBuffer()
    return answer.status
  }, () => 0)
}

async function endSession ({ issuer, operations }: Site, { url }: Instance, session: string): Promise<void> {
  const start = nowSeconds()
  const status = await answerOf(`${url}/revocation/subjects`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${issuer.token({ sub: 'operator', scope: 'revoke' })}` },
    body: JSON.stringify({ sub_id: { format: 'opaque', id: session } })
  })
  operations.push({ kind: 'ending', session, outcome: status === 204 ? 'acknowledged' : 'unknown', start, end: nowSeconds() })
}

async function call ({ operations, tokens }: Site, { url }: Instance, session: string): Promise<void> {
  const start = nowSeconds()
  const status = await answerOf(`${url}/api/private`, { headers: { authorization: `Bearer ${tokens.get(session)!}` } })
  operations.push({ kind: 'call', session, instance: url, outcome: status === 200 ? 'passed' : status === 401 ? 'revoked' : 'unknown', start, end: nowSeconds() })
}

function makeSession ({ issuer, sessions, tokens }: Site): string {
  const session = `session ${sessions.length}`
  tokens.set(session, issuer.token({ sid: session, iat: Math.floor(nowSeconds()) - 60 }))
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
    site.instances[at] = await site.start()
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
    if (random.below(6) === 0) pending.push(endSession(site, random.among(instances), random.among(sessions.slice(-YOUNG))))
    pending.push(call(site, random.among(instances), random.among(random.below(4) === 0 ? sessions : sessions.slice(-YOUNG))))
    await delay(10 + random.below(10))
  }
  await Promise.all(pending)
}

async function startSite (t: Test): Promise<Site> {
  const server = await startRedis(t)
  const issuer = await startIssuer(t)
  const directory = buildService(t)
  // An instance that has heard nothing for a second says that it does not know.
  writeFileSync(join(directory, 'revocation.json'), JSON.stringify({ revocation: { operators: { scope: 'revoke' }, store: `redis://127.0.0.1:${server.port}`, staleSeconds: 1 } }))
  const start = (): Promise<Instance> => startInstance(t, directory, issuer, { CONFIG_FILE: 'revocation.json', LOG_LEVEL: 'info' })
  const instances = await Promise.all(Array.from({ length: INSTANCES }, start))
  await Promise.all(instances.map(({ untilReady }) => untilReady()))
  const site: Site = { issuer, server, instances, start, operations: [], random: createRandom(SEED, 1), sessions: [], tokens: new Map() }
  makeSession(site)
  return site
}

t.test('Whatever happens to instances, connections and server, no token passes later than a second after its session was ended, unless the instance says that it does not know.', { skip: skipRedis }, async t => {
  const site = await startSite(t)
  const untilSeconds = nowSeconds() + SECONDS
  const [happened] = await Promise.all([makeTrouble(site, untilSeconds), makeLoad({ ...site, random: createRandom(SEED, 2) }, untilSeconds)])
  // All that was acknowledged holds at each instance when all is calm again.
  await Promise.all(site.instances.map(({ untilReady }) => untilReady()))
  const { operations, instances } = site
  const acknowledged = new Set(operations.flatMap(operation => operation.kind === 'ending' && operation.outcome === 'acknowledged' ? [operation.session] : []))
  await delay(1100)
  for (const session of acknowledged) await Promise.all(instances.map(instance => call(site, instance, session)))

  const counted = (kind: string, outcome: string): number => operations.filter(operation => operation.kind === kind && operation.outcome === outcome).length
  const counts = Object.fromEntries([['ending', 'acknowledged'], ['ending', 'unknown'], ['call', 'passed'], ['call', 'revoked'], ['call', 'unknown']].map(([kind, outcome]) => [`${kind} ${outcome}`, counted(kind!, outcome!)]))
  t.comment(`seed ${SEED}: ${JSON.stringify(counts)}; ${JSON.stringify(Object.fromEntries(happened))}`)
  t.strictSame(findWrongCalls(operations), [])
  t.strictSame([...happened.keys()], Object.keys(TROUBLES), 'there was trouble of each kind')
  for (const [name, count] of Object.entries(counts)) t.ok(count > 5, `${name}: ${count}`)
  const asIfLate = operations.map(operation => operation.kind === 'ending' ? { ...operation, outcome: 'acknowledged' as const, end: operation.start - 2 } : operation)
  t.ok(findWrongCalls(asIfLate).length > 0, 'the twin: if sessions had ended earlier, the history would be wrong')
})
