import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import { parseChallenges, type Challenge } from '../helpers/challenges.ts'
import { createDpopClient, type DpopClient } from '../helpers/dpop-client.ts'
import { buildService, spawnInstance, startInstance, type Environment, type Instance } from '../helpers/instance.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { nginxProgram, startNginx } from '../helpers/nginx.ts'
import { skipRedis, startRedis, startTlsRedis } from '../helpers/redis.ts'
import { until } from '../helpers/until.ts'

/**
 * Where clients reach the instances: each is in a process of its own, with a real provider of keys, redis-server and
 * nginx.
 */
const API = 'https://api.test.example'
const PATH = '/api/private'

let directory = ''
let issuer: Issuer
let client: DpopClient
let token = ''

// Many processes start here, which takes its time on a small machine.
t.setTimeout(240_000)

t.before(async () => {
  directory = buildService(t)
  issuer = await startIssuer(t)
  client = await createDpopClient()
  token = issuer.token({ cnf: client.cnf })
})

interface Answer {
  status: number
  /** What a client uses: the error of the challenge, or the seconds to wait. */
  result: string | null
  nonce: string | null
}

async function send (base: string, headers: Record<string, string>, path = PATH) {
  const answer = await fetch(base + path, { headers })
  await answer.arrayBuffer()
  const error = /error="(\w+)"/.exec(answer.headers.get('www-authenticate') ?? '')?.[1]
  const retry = answer.headers.get('retry-after')
  return {
    status: answer.status,
    result: error ?? (retry === null ? null : `after ${retry}`),
    nonce: answer.headers.get('dpop-nonce')
  }
}

const makeProof = (nonce?: string, url = API + PATH) => client.proof({ token, url, claims: { nonce } })
const sendProof = (base: string, proof: string) =>
  send(base, { authorization: `DPoP ${token}`, dpop: proof })
const sendBearer = (base: string) => send(base, { authorization: `Bearer ${issuer.token()}` })

const start = (t: Test, env: Environment) =>
  startInstance(t, directory, issuer, { PUBLIC_URL: API, ...env })

const ACCEPTED = { status: 200, result: null }
const REPLAYED = { status: 401, result: 'invalid_dpop_proof' }
const UNDECIDED = { status: 503, result: 'after 1' }

/** What holds while the store is lost: every proof is refused with 503, at either instance, and all else is as ever. */
async function expectOutage (t: Test, instances: readonly Instance[], reason: string) {
  let slowestMs = 0
  const answers = await Promise.all(Array.from({ length: 10 }, async (_, n) => {
    const startMs = performance.now()
    const answer = await sendProof(instances[n % 2]!.url, makeProof())
    slowestMs = Math.max(slowestMs, performance.now() - startMs)
    return answer
  }))
  t.comment(`${reason}: the slowest of ten requests was answered after ${Math.ceil(slowestMs)} ms`)
  for (const answer of answers) t.hasStrict(answer, UNDECIDED, 'with DPoP')
  for (const instance of instances) {
    t.hasStrict(await sendBearer(instance.url), ACCEPTED, 'with Bearer')
    t.hasStrict(await send(instance.url, {}, '/api/public'), ACCEPTED, 'public')
    t.hasStrict(await instance.untilReplay(reason), { process: 'ok', keys: 'ok' }, `not ready: ${reason}`)
  }
}

/** Sends a proof again, as clients do, while the store has not decided: on a busy machine it may not answer in time. */
async function untilDecided (base: string, proof: string, undecided: Answer[] = []) {
  const answer = await sendProof(base, proof)
  if (answer.status !== UNDECIDED.status) return answer
  undecided.push(answer)
  await delay(100)
  return untilDecided(base, proof, undecided)
}

/**
 * Sends a fresh proof, and another one if the store has answered too late for it, as on a busy machine: a record waits
 * for a fifth of a second.
 */
async function sendFresh (instance: Instance, nonce?: string) {
  const [proof, startMs] = [makeProof(nonce), performance.now()]
  const answer = await sendProof(instance.url, proof)
  if (answer.status !== UNDECIDED.status || performance.now() - startMs < 200) return { answer, proof }
  await instance.untilReady()
  return sendFresh(instance, nonce)
}

/** Each instance takes the very first proof that it gets after it says that it is ready, and the other one knows it. */
async function expectRecovery (t: Test, instances: readonly Instance[]) {
  for (const [n, instance] of instances.entries()) {
    await instance.untilReady()
    const { answer, proof } = await sendFresh(instance)
    t.hasStrict(answer, ACCEPTED, 'the first proof after ready')
    t.hasStrict(await untilDecided(instances[1 - n]!.url, proof), REPLAYED)
  }
}

/** Clients that send requests without a pause, until they are stopped. */
function keepAsking (clients: number, ask: (client: number) => Promise<void>) {
  const end = new AbortController()
  const runs = Array.from({ length: clients }, async (_, n) => {
    while (!end.signal.aborted) {
      await ask(n)
      await delay(5)
    }
  })
  return {
    async stop () {
      end.abort()
      await Promise.all(runs)
    }
  }
}

/**
 * Sends fresh proofs to both instances until it is stopped; returns those that were accepted. Nothing but 503 refuses
 * any.
 */
function sendSteadily (t: Test, instances: readonly Instance[]) {
  const accepted: string[] = []
  const clients = keepAsking(4, async n => {
    const proof = makeProof()
    const { status, result } = await sendProof(instances[n % 2]!.url, proof)
    if (status === 200) accepted.push(proof)
    else if (status !== 503) t.fail(`${status} ${result}`)
  })
  return {
    async stop () {
      await clients.stop()
      return accepted
    }
  }
}

/** None of the accepted proofs passes again, anywhere. */
async function expectRecorded (t: Test, instances: readonly Instance[], proofs: readonly string[]) {
  t.ok(proofs.length > 1, `${proofs.length} were accepted`)
  const outcomes = await Promise.all(proofs.map((proof, n) => untilDecided(instances[n % 2]!.url, proof)))
  t.strictSame(outcomes.filter(({ result }) => result !== REPLAYED.result), [])
}

t.test('Two instances with one Redis', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const env = { DPOP_REPLAY: `redis://127.0.0.1:${server.port}/1` }
  const instances = await Promise.all([start(t, env), start(t, env)])
  for (const instance of instances) await instance.untilReady()

  await t.test('Of 500 copies of one proof, spread over both, exactly one passes.', async t => {
    const proof = makeProof()
    // Ten at any moment: more of them wait for each other, not for the store, and on a busy machine for too long.
    const [answers, undecided]: [Answer[], Answer[]] = [[], []]
    await Promise.all(Array.from({ length: 10 }, async (_, n) => {
      for (let turn = 0; turn < 50; turn++) {
        answers.push(await untilDecided(instances[(n + turn) % 2]!.url, proof, undecided))
      }
    }))
    const passed = answers.filter(({ status }) => status === 200).length
    // The one that the store took may be among those that heard of it too late, and then none passes.
    t.ok(passed === 1 || (passed === 0 && undecided.length > 0), `${passed} passed`)
    t.equal(
      answers.filter(({ status, result }) => status === 401 && result === 'invalid_dpop_proof').length,
      500 - passed
    )
    t.hasStrict((await sendFresh(instances[0]!)).answer, ACCEPTED, 'a proof of its own passes')
  })

  await t.test('A store that is killed is refused, and used again when it is back.', async t => {
    await server.kill()
    await expectOutage(t, instances, 'unreachable')
    await server.start()
    await expectRecovery(t, instances)
  })

  await t.test('A store that hangs is refused while it hangs, and nothing was accepted unrecorded.', async t => {
    const load = sendSteadily(t, instances)
    await delay(200)
    server.signal('SIGSTOP')
    // All of it is answered before the store goes on.
    await expectOutage(t, instances, 'timeout')
    server.signal('SIGCONT')
    await expectRecovery(t, instances)
    await expectRecorded(t, instances, await load.stop())
  })

  await t.test('A proof whose record was not confirmed may have been recorded: the client needs a new one.', async t => {
    const proof = makeProof()
    server.signal('SIGSTOP')
    t.hasStrict(await sendProof(instances[0]!.url, proof), UNDECIDED)
    server.signal('SIGCONT')
    await expectRecovery(t, instances)
    t.hasStrict(await untilDecided(instances[0]!.url, proof), REPLAYED, 'the store had received it')
    t.hasStrict((await sendFresh(instances[0]!)).answer, ACCEPTED)
  })

  await t.test('A store without room is refused until it has room, and nothing was accepted unrecorded.', async t => {
    const load = sendSteadily(t, instances)
    await delay(200)
    await server.command('CONFIG', 'SET', 'maxmemory', '1')
    t.equal(await server.command('SET', 'x', '1').catch((error: Error) => error.message.split(' ', 1)[0]), '-OOM')
    await expectOutage(t, instances, 'oom')
    await server.command('CONFIG', 'SET', 'maxmemory', '0')
    await expectRecovery(t, instances)
    await expectRecorded(t, instances, await load.stop())
  })
})

t.test('Nonces', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const [old, next] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')]
  const rollOut: ReadonlyArray<readonly [secrets: string, accepts: ReadonlyArray<'old' | 'next'>]> = [
    [old, ['old']],
    [`${old} ${next}`, ['old', 'next']],
    [`${next},${old}`, ['next', 'old']],
    [next, ['next']]
  ]
  const instances = await Promise.all(
    rollOut.map(([secrets]) =>
      start(t, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: secrets, DPOP_REPLAY: `redis://127.0.0.1:${server.port}` })
    )
  )
  for (const instance of instances) await instance.untilReady()
  const nonces: string[] = []
  for (const { url } of instances) {
    const { status, result, nonce } = await sendProof(url, makeProof())
    t.hasStrict({ status, result }, { status: 401, result: 'use_dpop_nonce' })
    nonces.push(nonce!)
  }
  for (const [by, nonce] of nonces.entries()) {
    const madeWith = rollOut[by]![1][0]!
    for (const [at, instance] of instances.entries()) {
      const isAccepted = rollOut[at]![1].includes(madeWith)
      t.hasStrict(
        (await sendFresh(instance, nonce)).answer,
        isAccepted ? ACCEPTED : { status: 401, result: 'use_dpop_nonce' },
        `step ${at + 1} of a rotation ${isAccepted ? 'takes' : 'refuses'} the nonces of step ${by + 1}`
      )
    }
  }
  for (const { output } of instances) t.notOk(output().includes(old) || output().includes(next), 'no secret is written')
})

t.test('A store that cannot be used from the start', { skip: skipRedis }, async t => {
  const { server, tlsPort } = await startTlsRedis(t, ['--requirepass', 'right'])

  await t.test('An invalid address stops the start with a reason.', async t => {
    const addresses = ['http://:s3cret@127.0.0.1', 'redis://:s3cret%@127.0.0.1?retries=1']
    const starts = addresses.map(DPOP_REPLAY =>
      spawnInstance(t, directory, { IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, DPOP_REPLAY })
    )
    for (const [n, { ended, output }] of starts.entries()) {
      t.equal(await ended, 1, addresses[n]!)
      t.match(output(), /^The settings are not usable:\n {2}- DPOP_REPLAY \(dpop\.replay\) .*\n$/)
      t.notMatch(output(), /s3cret/)
    }
  })

  await t.test('A wrong address keeps readiness at 503 with the reason, and all but DPoP is served.', async t => {
    const rows: ReadonlyArray<readonly [address: string, reason: string]> = [
      [`redis://:s3cret@127.0.0.1:${server.port}`, 'auth'],
      [`redis://:s3cret@${new URL(issuer.url).host}`, 'not_redis'],
      [`rediss://:s3cret@127.0.0.1:${tlsPort}`, 'tls']
    ]
    const twin = start(t, { DPOP_REPLAY: `redis://:right@127.0.0.1:${server.port}` })
    const instances = await Promise.all(rows.map(([DPOP_REPLAY]) => start(t, { DPOP_REPLAY })))
    for (const [n, instance] of instances.entries()) {
      const [address, reason] = rows[n]!
      await instance.untilReplay(reason)
      t.hasStrict(await sendProof(instance.url, makeProof()), UNDECIDED, address)
      t.hasStrict(await sendBearer(instance.url), ACCEPTED)
      t.hasStrict(await send(instance.url, {}, '/api/public'), ACCEPTED)
      t.match(instance.output(), new RegExp(`"event":"replay_unavailable","reason":"${reason}"`))
      t.notMatch(instance.output(), /s3cret/)
    }
    // It differs from the first one only in the password.
    const good = await twin
    await good.untilReady()
    t.hasStrict((await sendFresh(good)).answer, ACCEPTED)
  })
})

const skipNginx = skipRedis || (nginxProgram === undefined && 'nginx is not installed')

t.test('Instances that are replaced one by one behind nginx lose no request.', { skip: skipNginx }, async t => {
  const server = await startRedis(t)
  const site = await freePort()
  const origin = `http://localhost:${site}`
  const launch = (port: number) =>
    start(t, { PUBLIC_URL: origin, DPOP_REPLAY: `redis://127.0.0.1:${server.port}`, PORT: String(port) })

  const running = await Promise.all([launch(await freePort()), launch(await freePort())])
  for (const instance of running) await instance.untilReady()
  await startNginx(t, {
    file: 'instances.conf',
    port: site,
    replacements: {
      'listen 80 ': `listen 127.0.0.1:${site} `,
      'localhost:8000 localhost:8000;': `localhost:${site} localhost:${site};`,
      '127.0.0.1:8001': `127.0.0.1:${running[0]!.port}`,
      '127.0.0.1:8002': `127.0.0.1:${running[1]!.port}`
    }
  })

  const challenged = await fetch(origin + PATH)
  await challenged.arrayBuffer()
  const [{ parameters }] = parseChallenges(challenged.headers.get('www-authenticate')!) as [Challenge]
  t.hasStrict(
    await (await fetch(parameters.resource_metadata!)).json(),
    { resource: AUDIENCE },
    'the metadata is where a challenge points to'
  )

  const failures: string[] = []
  let sent = 0
  // nginx chooses by the token or the key: with a few of them, one instance may get none.
  const tokens = Array.from({ length: 32 }, (_, n) => issuer.token({ sub: `user ${n}` }))
  const asks = [
    () => send(origin, { authorization: `Bearer ${tokens[sent % tokens.length]!}` }),
    () => send(origin, {}, '/api/public'),
    () => sendProof(origin, makeProof(undefined, origin + PATH)),
    () => sendProof(origin, makeProof(undefined, origin + PATH))
  ]
  const clients = keepAsking(8, async n => {
    const { status, result } = await asks[n % 4]!().catch((error: Error) => ({
      status: 0,
      result: String(error.cause ?? error)
    }))
    if (status !== 200) failures.push(`${status} ${result}`)
    sent++
  })

  const everyone = [...running]
  for (const [n, instance] of running.entries()) {
    await delay(200)
    instance.terminate()
    t.equal(await instance.ended, 0, 'it ends by itself')
    const before = sent
    const next = await launch(instance.port)
    await next.untilReady()
    t.ok(sent > before, 'the other one serves meanwhile')
    running[n] = next
    everyone.push(next)
    await until('the new one has its share', () => next.answered(PATH) > 0)
  }
  await clients.stop()

  // On a busy machine Redis may take longer than a record waits for it. The log says so.
  const isSlow = everyone.some(instance =>
    instance.output().includes('"event":"replay_unavailable","reason":"timeout"')
  )
  t.strictSame(failures.filter(failure => !isSlow || failure !== '503 after 1'), [], `${sent} requests`)
  for (const instance of everyone) t.ok(instance.answered(PATH) > 0, 'each has had its share')
})
