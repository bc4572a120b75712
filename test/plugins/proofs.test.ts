import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { Agent, request } from 'undici'
import { containing } from '../helpers/containing.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import type { Variables } from '../helpers/variables.ts'
import { isVerifiable } from '../../lib/guard/jose/public-key.ts'
import { JWS_ALGS } from '../../lib/guard/jose/signature.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, callDpop, dpopLines, expectRefusal, type Outcome } from '../helpers/call.ts'
import { advanceClock, atAnotherTime, untilNonceStays } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startFakeRedis } from '../helpers/fake-redis.ts'
import { startIssuer, type Issuer } from '../helpers/issuer.ts'
import { now, PROOF_ROWS, proofOf, type ProofBench } from '../helpers/proof-rows.ts'

/** ML-DSA-44 if this Node has it. */
const ALGS = JWS_ALGS.filter(isVerifiable)

interface Bench extends ProofBench {
  issuer: Issuer
  running: RunningApp
  send (proof: string, method?: string): Promise<Outcome>
}

async function prepare (t: Test, values: Variables = {}, alg = 'ES256'): Promise<Bench> {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { DPOP_ALGS: ALGS, ...values })
  const client = await createDpopClient(alg)
  const token = issuer.token({ cnf: client.cnf })
  const target = `${running.url}/api/private`
  return {
    issuer,
    running,
    client,
    token,
    target,
    proof: overrides => client.proof({ token, url: target, ...overrides }),
    send: (proof, method) => call(running, { lines: dpopLines(token, proof), ...(method && { method }) })
  }
}

/** The request of a client with a key and a token of its own. */
async function sendAsAnother ({ issuer, running, target }: Bench) {
  const client = await createDpopClient('ES256')
  const token = issuer.token({ cnf: client.cnf })
  return callDpop(running, token, client.proof({ token, url: target }))
}

t.test('Which proofs pass, by the rows of the table of checks', async t => {
  const bench = await prepare(t)
  for (const row of PROOF_ROWS) {
    const { check, title, expected } = row
    const outcome = await bench.send(proofOf(row, bench))
    if (expected === 'accepted') {
      t.strictSame(
        [outcome.status, outcome.reason, outcome.headers['www-authenticate']],
        [200, undefined, undefined],
        `${check}: ${title}`
      )
    } else expectRefusal(t, outcome, expected, 'DPoP', `${check}: ${title}`)
  }
  t.equal((await bench.send(bench.proof({ method: 'HEAD' }), 'HEAD')).status, 200, '5: HEAD with its own proof')
})

t.test('9: the proof is by the key that the token is bound to', async t => {
  const bench = await prepare(t)
  const other = await createDpopClient()
  expectRefusal(t, await bench.send(other.proof({ token: bench.token, url: bench.target })), 'jkt_mismatch', 'DPoP')
  const token = bench.issuer.token({ cnf: other.cnf })
  const twin = await callDpop(bench.running, token, other.proof({ token, url: bench.target }))
  t.equal(twin.status, 200, 'the same key with a token of its own')
})

t.test('10: every algorithm that may be configured, and none that is not', async t => {
  for (const alg of [...ALGS, 'Ed448']) {
    const bench = await prepare(t, {}, alg)
    t.equal((await bench.send(bench.proof())).status, 200, alg)
  }
  const bench = await prepare(t, { DPOP_ALGS: ['ES384', 'EdDSA'] })
  const outcome = await bench.send(bench.proof())
  expectRefusal(t, outcome, 'proof_algorithm', 'DPoP', 'ES256 if it is not configured')
  t.equal(outcome.challenges.find(({ scheme }) => scheme === 'DPoP')!.parameters.algs, 'ES384 EdDSA')
})

t.test('10: a point off its curve is refused like any other bad key', async t => {
  const bench = await prepare(t)
  const off = {
    ...bench.client.jwk,
    y: `${bench.client.jwk.y!.startsWith('A') ? 'B' : 'A'}${bench.client.jwk.y!.slice(1)}`
  }
  const { calculateJwkThumbprint } = await import('jose')
  const token = bench.issuer.token({ cnf: { jkt: await calculateJwkThumbprint(off) } })
  const proof = bench.client.proof({ token, url: bench.target, header: { jwk: off } })
  const outcome = await callDpop(bench.running, token, proof)
  expectRefusal(t, outcome, 'proof_key', 'DPoP')
})

t.test('12: a proof passes once', async t => {
  const bench = await prepare(t)
  const proof = bench.proof()
  t.equal((await bench.send(proof)).status, 200)
  expectRefusal(t, await bench.send(proof), 'proof_replayed', 'DPoP')
  const jti = randomUUID()
  t.equal((await bench.send(bench.proof({ claims: { jti } }))).status, 200)
  expectRefusal(
    t,
    await bench.send(bench.proof({ claims: { jti, iat: now() - 1 } })),
    'proof_replayed',
    'DPoP',
    'the same jti in another proof'
  )
  t.equal((await bench.send(bench.proof({ claims: { jti: `${jti}2` } }))).status, 200, 'another jti')

  const other = await createDpopClient()
  const token = bench.issuer.token({ cnf: other.cnf })
  t.equal(
    (await callDpop(bench.running, token, other.proof({ token, url: bench.target, claims: { jti } })))
      .status,
    200,
    'the same jti of another key'
  )

  const kept = randomUUID()
  expectRefusal(
    t,
    await bench.send(bench.proof({ claims: { jti: kept, htu: 'https://other.example/' } })),
    'htu_mismatch',
    'DPoP'
  )
  expectRefusal(
    t,
    await bench.send(bench.proof({ claims: { jti: kept } }).replace(/[^.]+$/, 'A'.repeat(86))),
    'proof_signature',
    'DPoP'
  )
  t.equal(
    (await bench.send(bench.proof({ claims: { jti: kept } }))).status,
    200,
    'a proof refused for another reason did not use up its jti'
  )
})

t.test('12: of 1,000 copies of a proof at once, one passes', async t => {
  const { token, proof, target } = await prepare(t, { LOG_LEVEL: 'silent' })
  const headers = { authorization: `DPoP ${token}`, dpop: proof() }
  // The system lets 511 connections wait for a process that is busy.
  const dispatcher = new Agent({ connections: 400 })
  t.teardown(() => dispatcher.close())
  const statuses = await Promise.all(Array.from({ length: 1000 }, async () => {
    const { statusCode, body } = await request(target, { headers, dispatcher })
    await body.dump()
    return statusCode
  }))
  t.equal(statuses.filter(status => status === 200).length, 1)
  t.equal(statuses.filter(status => status === 401).length, 999)
})

t.test('12: a jti passes once, whatever the URL of its proof', async t => {
  const bench = await prepare(t)
  const [one, other] = [randomUUID(), randomUUID()]
  const send = (path: string, jti: string) =>
    callDpop(bench.running, bench.token, bench.proof({ url: bench.running.url + path, claims: { jti } }), path)
  t.equal((await send('/api/private', one)).status, 200)
  expectRefusal(t, await send('/api/protected', one), 'proof_replayed', 'DPoP')
  t.equal((await send('/api/protected', other)).status, 200, 'the same request with a jti of its own')
})

t.test('7: iat may be 300 s old, and 30 s ahead, and no more', async t => {
  const bench = await prepare(t)
  const { now: clock } = Date
  t.teardown(() => {
    Date.now = clock
  })
  const second = Math.floor(clock() / 1000)
  for (const ms of [0, 999]) {
    Date.now = () => second * 1000 + ms
    const send = (iat: number) => bench.send(bench.proof({ claims: { iat } }))
    expectRefusal(t, await send(second - 301), 'iat_too_old', 'DPoP')
    t.equal((await send(second - 300)).status, 200, `${ms} ms into the last second`)
    t.equal((await send(second + 30 + ms / 1000)).status, 200, `${ms} ms after the second, and 30 s ahead`)
    expectRefusal(t, await send(second + 31), 'iat_in_future', 'DPoP')
  }
})

t.test('12: a full store refuses, and never forgets a proof that is still valid', async t => {
  const bench = await prepare(t, { DPOP_REPLAY_MAX: 2, IDP_DPOP_IAT_OFFSET_SECONDS: 5, IDP_DPOP_IAT_LEEWAY_SECONDS: 0 })
  const first = bench.proof({ claims: { iat: now() } })
  t.equal((await bench.send(first)).status, 200)
  t.equal((await sendAsAnother(bench)).status, 200)
  const refused = await sendAsAnother(bench)
  expectRefusal(t, refused, 'replay_full')
  t.match(refused.headers, { 'retry-after': /^\d+$/, 'www-authenticate': undefined })
  t.notOk((await bench.send(first)).status === 200, 'the first proof is still known')
  t.equal((await callBearer(bench.running, bench.issuer.token())).status, 200, 'Bearer is untouched')
  const statusOfAnother = async () => (await sendAsAnother(bench)).status
  advanceClock(t, 3_000)
  t.equal(await atAnotherTime(3, statusOfAnother), 503)
  advanceClock(t, 17_000)
  t.equal(await atAnotherTime(20, statusOfAnother), 200, 'room again once the proofs are too old to pass')
})

t.test('12: a client that would fill the store has a quarter of it, and others have theirs', async t => {
  const bench = await prepare(t, { DPOP_REPLAY_MAX: 8 })
  const first = bench.proof()
  t.strictSame([(await bench.send(first)).status, (await bench.send(bench.proof())).status], [200, 200])
  const refused = await bench.send(bench.proof())
  t.equal(refused.status, 429)
  expectRefusal(t, refused, 'replay_share_exceeded')
  t.match(refused.headers, { 'retry-after': /^\d+$/, 'www-authenticate': undefined })
  expectRefusal(t, await bench.send(first), 'proof_replayed', 'DPoP')
  t.equal((await callBearer(bench.running, bench.issuer.token())).status, 200, 'Bearer is untouched')
  t.equal((await sendAsAnother(bench)).status, 200)
})

t.test('12: with the replay store off a proof passes again', async t => {
  const bench = await prepare(t, { DPOP_REPLAY: 'off' })
  const proof = bench.proof()
  t.strictSame([(await bench.send(proof)).status, (await bench.send(proof)).status], [200, 200])
})

t.test('11: nonces', async t => {
  const bench = await prepare(t, { DPOP_NONCE: 'required' })
  await untilNonceStays()
  const expectNonce = (outcome: Outcome, reason: RefusalReason, title: string) => {
    expectRefusal(t, outcome, reason, 'DPoP', title)
    t.strictSame(outcome.challenges.map(({ scheme, parameters }) => [scheme, Object.keys(parameters)]), [['DPoP', [
      'error',
      'error_description',
      'algs'
    ]]], 'one challenge')
    t.match(outcome.headers['dpop-nonce'], /^[A-Za-z0-9_-]{26}$/)
    return outcome.headers['dpop-nonce']!
  }
  const nonce = expectNonce(await bench.send(bench.proof()), 'nonce_missing', 'no nonce')
  expectNonce(
    await bench.send(bench.proof({ claims: { nonce: 'made up' } })),
    'nonce_stale',
    'a nonce that is not ours'
  )
  expectNonce(await bench.send(bench.proof({ claims: { nonce: 7 } })), 'nonce_missing', 'a nonce that is no text')
  expectNonce(
    await bench.send(bench.proof({ claims: { iat: now() - 7200 } })),
    'nonce_missing',
    'no nonce and a clock two hours off'
  )
  const accepted = await bench.send(bench.proof({ claims: { nonce } }))
  t.strictSame([accepted.status, accepted.headers['dpop-nonce'], accepted.headers['www-authenticate']], [
    200,
    undefined,
    undefined
  ], 'with the newest nonce')
  t.equal(
    (await bench.send(bench.proof({ claims: { nonce, iat: now() - 7200 } }))).status,
    200,
    'the nonce and a clock two hours behind'
  )
  t.equal(
    (await bench.send(bench.proof({ claims: { nonce, iat: now() + 7200 } }))).status,
    200,
    'the nonce and a clock two hours ahead'
  )
  const proof = bench.proof({ claims: { nonce } })
  t.equal((await bench.send(proof)).status, 200)
  expectRefusal(t, await bench.send(proof), 'proof_replayed', 'DPoP', 'a proof with a nonce passes once as well')
  expectRefusal(
    t,
    await bench.send(bench.proof({ claims: { nonce, exp: now() - 60 } })),
    'proof_expired',
    'DPoP',
    'exp is honoured all the same'
  )
  t.equal(
    (await callBearer(bench.running, bench.issuer.token())).status,
    200,
    'Bearer needs no nonce'
  )

  const nonceOf = async (secondsAgo: number) =>
    (await atAnotherTime(-secondsAgo, () => bench.send(bench.proof()))).headers['dpop-nonce']
  // A nonce is made at the beginning of a minute, and lives for five.
  const older = await nonceOf(239)
  const renewed = await bench.send(bench.proof({ claims: { nonce: older } }))
  t.equal(renewed.status, 200, 'a nonce of four minutes ago')
  t.match(renewed.headers['dpop-nonce'], /^[A-Za-z0-9_-]{26}$/, 'and its answer brings the newest')
  expectNonce(
    await bench.send(bench.proof({ claims: { nonce: await nonceOf(300) } })),
    'nonce_stale',
    'a nonce of five minutes ago'
  )
})

t.test('11: with DPOP_NONCE_IAT=checked the age counts beside a nonce', async t => {
  const bench = await prepare(t, { DPOP_NONCE: 'required', DPOP_NONCE_IAT: 'checked', IDP_DPOP_IAT_OFFSET_SECONDS: 60 })
  const wrongClock = await bench.send(bench.proof({ claims: { iat: now() - 7200 } }))
  expectRefusal(t, wrongClock, 'nonce_missing', 'DPoP', 'a client whose clock is wrong first gets a nonce')
  const nonce = wrongClock.headers['dpop-nonce']
  t.equal((await bench.send(bench.proof({ claims: { nonce } }))).status, 200)
  t.equal((await bench.send(bench.proof({ claims: { nonce, iat: now() - 50 } }))).status, 200)
  expectRefusal(t, await bench.send(bench.proof({ claims: { nonce, iat: now() - 70 } })), 'iat_too_old', 'DPoP')
  expectRefusal(t, await bench.send(bench.proof({ claims: { nonce, iat: now() + 7200 } })), 'iat_in_future', 'DPoP')
  expectRefusal(
    t,
    await bench.send(bench.proof({ claims: { nonce: 'made up', iat: now() - 70 } })),
    'nonce_stale',
    'DPoP'
  )
  const proof = bench.proof({ claims: { nonce } })
  t.equal((await bench.send(proof)).status, 200)
  expectRefusal(t, await bench.send(proof), 'proof_replayed', 'DPoP')
})

t.test(
  'Beside the store in memory each process makes nonces of its own: a common secret is named in a warning and ' +
    'not used',
  async t => {
    const DPOP_NONCE_SECRET = [Buffer.alloc(32, 7).toString('base64url')]
    const client = await createDpopClient()
    const issuer = await startIssuer(t)
    const instances = await Promise.all(
      [1, 2].map(() =>
        startApp(t, issuer, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET, PUBLIC_URL: 'https://api.example' })
      )
    )
    const token = issuer.token({ cnf: client.cnf })
    const proof = (nonce?: string) =>
      client.proof({ url: 'https://api.example/api/private', token, claims: { nonce } })
    const [first, second] = instances as [RunningApp, RunningApp]
    const { headers } = await callDpop(first, token, proof())
    const good = proof(headers['dpop-nonce'])
    t.equal((await callDpop(first, token, good)).status, 200)
    expectRefusal(t, await callDpop(first, token, good), 'proof_replayed', 'DPoP')
    const elsewhere = await callDpop(second, token, good)
    expectRefusal(t, elsewhere, 'nonce_of_another_instance', 'DPoP', 'it passes at one instance')
    t.strictSame(second.log.filter(({ msg }) => msg === 'request refused').map(({ reason }) => reason), [
      'nonce_of_another_instance'
    ])
    t.match(
      await (await fetch(`${second.url}/metrics`)).text(),
      containing('\nholdfast_refusals_total{reason="nonce_of_another_instance"} 1\n')
    )
    t.equal(
      (await callDpop(second, token, proof(elsewhere.headers['dpop-nonce']))).status,
      200,
      'a client that moves pays once'
    )
    for (const { log } of instances) {
      t.strictSame(log.filter(({ msg }) => /DPOP_NONCE_SECRET/.test(msg)).map(({ level }) => level), [40])
      t.notMatch(JSON.stringify(log), DPOP_NONCE_SECRET[0])
      t.notOk(log.some(({ event }) => event === 'nonce_secret_random'))
    }
  }
)

t.test('Without a secret for nonces one is made, and the log says so if the store is a common one', async t => {
  const redis = await startFakeRedis()
  t.teardown(redis.stop)
  const DPOP_REPLAY = `redis://127.0.0.1:${redis.port}`
  for (
    const [values, warnings] of [[{}, []], [{ DPOP_REPLAY: 'off' }, []], [{ DPOP_REPLAY }, [40]], [{
      DPOP_REPLAY,
      DPOP_NONCE_SECRET: [Buffer.alloc(32, 7).toString('base64url')]
    }, []]] as const
  ) {
    const { log } = (await prepare(t, { DPOP_NONCE: 'required', ...values })).running
    t.strictSame(
      log.filter(line => line.event === 'nonce_secret_random').map(({ level }) => level),
      warnings,
      JSON.stringify(Object.keys(values))
    )
  }
  const bench = await prepare(t, { DPOP_NONCE: 'required' })
  const nonce = (await bench.send(bench.proof())).headers['dpop-nonce']
  t.equal((await bench.send(bench.proof({ claims: { nonce } }))).status, 200)
})

t.test('The log of a wrong htu shows both URLs', async t => {
  const bench = await prepare(t)
  await bench.send(bench.proof({ url: 'https://other.example/x' }))
  t.hasStrict(bench.running.log.find(line => line.reason === 'htu_mismatch'), {
    htu: 'https://other.example/x',
    url: bench.target
  })
})

t.test('A request whose URL cannot be determined is refused for a DPoP token, and served for any other', async t => {
  const bench = await prepare(t)
  const dotted = await callDpop(bench.running, bench.token, bench.proof(), '/api/users/../private')
  expectRefusal(t, dotted, 'target_path', 'DPoP')
  t.equal(
    (await call(bench.running, { lines: ['Host: other.example', ...bearerLines(bench.issuer.token())] })).status,
    200
  )
  expectRefusal(
    t,
    await call(bench.running, { lines: ['Host: other.example', ...dpopLines(bench.token, bench.proof())] }),
    'host_repeated',
    'DPoP'
  )
})
