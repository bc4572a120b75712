import { readFileSync } from 'node:fs'
import t from 'tap'
import { clientKey, createRateLimit } from '../../lib/guard/rate-limit.ts'
import type { VerifiedToken } from '../../lib/guard/token/verified-tokens.ts'
import auth from '../../plugins/auth.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, callDpop, dpopLines, expectRefusal } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { makeIssuerKey, startIssuer } from '../helpers/issuer.ts'

const MAX_CLIENTS = 50_000
const WINDOW_MS = 60_000

t.test(
  'A client may send as many requests a minute as the setting allows, over all guarded routes and methods, and ' +
    'no more',
  async t => {
    const issuer = await startIssuer(t)
    const running = await startApp(t, issuer, { RATE_LIMIT: '3' })
    const lines = bearerLines(issuer.token())
    const began = performance.now()
    t.equal((await call(running, { lines })).status, 200)
    t.equal((await call(running, { lines, path: '/api/profile' })).status, 200)
    t.equal((await call(running, { lines, method: 'HEAD' })).status, 200)

    const answer = await call(running, { lines, path: '/api/protected' })
    expectRefusal(t, answer, 'rate_limited')
    t.strictSame(answer.body, {
      statusCode: 429,
      error: 'Too Many Requests',
      message: 'This client has sent too many requests. It may continue after the time in Retry-After.'
    })
    const seconds = Number(answer.headers['retry-after'])
    const leftSeconds = (WINDOW_MS - (performance.now() - began)) / 1000
    t.ok(
      Number.isInteger(seconds) && seconds >= Math.max(1, leftSeconds) && seconds <= WINDOW_MS / 1000,
      `Retry-After: ${seconds}`
    )
    t.equal(answer.headers['cache-control'], 'no-store')
    t.equal(answer.headers['www-authenticate'], undefined, 'there is nothing wrong with the credentials')
    const { body } = await running.app.inject('/metrics')
    t.match(body, /^holdfast_refusals_total\{reason="rate_limited"\} 1$/m)
    t.match(body, /route="\/api\/protected",status="429",scheme="bearer",/)

    t.equal((await call(running, { lines, path: '/api/public' })).status, 200, 'what is open is not limited')
    t.equal(
      (await callBearer(running, issuer.token({ jti: 'another' }))).reason,
      'rate_limited',
      'a new token is no new client'
    )
    t.equal(
      (await callBearer(running, issuer.token({ sub: 'user-2' }))).status,
      200,
      'another subject has its own allowance'
    )
  }
)

t.test('A bound token is counted by its key, whatever its subject', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '1', ERROR_BODY: 'detailed' })
  const [one, two] = [await createDpopClient(), await createDpopClient()]
  const send = (client: typeof one, claims = {}) => {
    const token = issuer.token({ cnf: client.cnf, ...claims })
    return call(running, {
      lines: [`Authorization: DPoP ${token}`, `DPoP: ${client.proof({ token, url: `${running.url}/api/private` })}`]
    })
  }
  t.equal((await send(one)).status, 200)
  const refused = await send(one, { sub: 'user-2' })
  t.equal(refused.reason, 'rate_limited')
  t.strictSame(refused.body, {
    detail: 'This client has sent too many requests. It may continue after the time in Retry-After.'
  }, 'the body has the configured form')
  t.equal((await send(two)).status, 200, 'the same subject with another key')
  t.equal((await callBearer(running, issuer.token())).status, 200, 'and without a key')
  t.equal(
    (await callBearer(running, issuer.token({ sub: one.jkt }))).status,
    200,
    'a subject that is spelt like a key is not that key'
  )
})

t.test('A client cannot use up the allowance of another: only a request whose token and proof pass is counted', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '1' })
  const client = await createDpopClient()
  const bound = issuer.token({ cnf: client.cnf })
  const proof = client.proof({ token: bound, url: `${running.url}/api/private` })
  const strangers: ReadonlyArray<readonly [lines: string[]]> = [
    [[]],
    [bearerLines(issuer.token({}, { kid: 'k1' }, makeIssuerKey('other')))],
    [bearerLines(bound)],
    [[
      `Authorization: DPoP ${bound}`,
      `DPoP: ${(await createDpopClient()).proof({ token: bound, url: `${running.url}/api/private` })}`
    ]]
  ]
  for (const [lines] of strangers) {
    for (let i = 0; i < 2; i++) t.equal((await call(running, { lines })).status, 401)
  }
  const lines = [`Authorization: DPoP ${bound}`, `DPoP: ${proof}`]
  t.equal((await call(running, { lines })).status, 200, 'the client itself has all of its own')
  t.equal((await callBearer(running, issuer.token(), '/api/private-scoped')).status, 403)
  t.equal(
    (await callBearer(running, issuer.token())).reason,
    'rate_limited',
    "a request that lacks a scope is the client's own, and counts"
  )
})

t.test('A replayed request uses up none of the allowance of its client', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '2' })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const fresh = () => dpopLines(token, client.proof({ token, url: `${running.url}/api/private` }))
  const caught = fresh()
  t.equal((await call(running, { lines: caught })).status, 200)
  for (let i = 0; i < 5; i++) t.equal((await call(running, { lines: caught })).reason, 'proof_replayed')
  t.equal((await call(running, { lines: fresh() })).status, 200)
  t.equal((await call(running, { lines: fresh() })).reason, 'rate_limited')
})

t.test('A request that is refused for its rate leaves no record: a limited client cannot fill the replay store', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '2', DPOP_REPLAY_MAX: '40' })
  const [greedy, other] = [await createDpopClient(), await createDpopClient()]
  const send = (client: typeof greedy) => {
    const token = issuer.token({ cnf: client.cnf })
    return callDpop(running, token, client.proof({ token, url: `${running.url}/api/private` }))
  }
  const recorded = () => running.app.holdfastGuard.parts.replay.state().entries
  t.strictSame([(await send(greedy)).status, (await send(greedy)).status, recorded()], [200, 200, 2])
  for (let i = 0; i < 50; i++) t.equal((await send(greedy)).reason, 'rate_limited')
  t.equal(recorded(), 2)
  t.equal((await send(other)).status, 200)
  t.equal(recorded(), 3)
})

t.test('By default there is no rate limit, and the API description mentions none', async t => {
  const issuer = await startIssuer(t)
  for (const [RATE_LIMIT, status] of [['1', '429'], ['off', undefined], [undefined, undefined]] as const) {
    const { app } = await startApp(t, issuer, { ...(RATE_LIMIT && { RATE_LIMIT }), METRICS: 'off', DPOP_REPLAY: 'off' })
    const { paths, components } = (await app.inject('/docs/json')).json()
    t.equal(
      Object.keys(paths['/api/private'].get.responses).find(each => each === '429'),
      status,
      `${RATE_LIMIT}: a guarded route`
    )
    t.equal('TooManyRequests' in components.responses, status !== undefined)
    t.notOk('429' in paths['/api/public'].get.responses, `${RATE_LIMIT}: an open one`)
    const headers = { authorization: `Bearer ${issuer.token()}` }
    const statuses = [
      await app.inject({ url: '/api/private', headers }),
      await app.inject({ url: '/api/private', headers })
    ].map(answer => answer.statusCode)
    t.strictSame(statuses, [200, status === undefined ? 200 : 429], 'with metrics off as well')
  }
})

t.test('The limit holds for every guard: in another app too, and for one that a handler calls', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  await app.register(auth, { idp: { issuer: issuer.url, audience: issuer.audience }, server: { rateLimit: 1 } })
  app.get('/', async request => {
    await request.authenticate()
    await request.requireScope('a')
    return 'in'
  })
  const statusFor = async (sub: string) =>
    (await app.inject({ url: '/', headers: { authorization: `Bearer ${issuer.token({ sub, scope: 'a' })}` } }))
      .statusCode
  t.strictSame([await statusFor('one'), await statusFor('one'), await statusFor('two')], [200, 429, 200])
})

t.test('A flood of clients takes limited memory: the client that was silent for longest starts anew', async t => {
  let nowMs = 0
  const limit = createRateLimit({ max: 1, nowMs: () => nowMs, maxClients: 100 })
  t.equal(limit.take('first'), undefined)
  t.equal(limit.take('first'), WINDOW_MS / 1000)
  for (let i = 0; i < 99; i++) limit.take(`other-${i}`)
  nowMs = 1500
  t.equal(limit.take('first'), WINDOW_MS / 1000 - 1.5, 'as many as there is room for are all remembered')
  for (let i = 100; i < 200; i++) limit.take(`other-${i}`)
  t.equal(limit.take('first'), undefined, 'one more, and the oldest is not')
  t.equal(limit.take('first'), WINDOW_MS / 1000)
  nowMs += WINDOW_MS - 1
  t.equal(limit.take('first'), 0.001)
  nowMs++
  t.equal(limit.take('first'), undefined, 'and after a minute everybody may go on')
})

t.test('A request that is given back can be taken again, once, and never more than was taken', async t => {
  const limit = createRateLimit({ max: 2, nowMs: () => 0 })
  limit.giveBack('unknown')
  t.strictSame([limit.take('a'), limit.take('a'), limit.take('a')], [undefined, undefined, 60])
  limit.giveBack('a')
  t.strictSame([limit.take('a'), limit.take('a')], [undefined, 60])
  for (let i = 0; i < 5; i++) limit.giveBack('a')
  t.strictSame([limit.take('a'), limit.take('a'), limit.take('a')], [undefined, undefined, 60])
})

t.test('docs/reference/monitoring.md states what is counted', async t => {
  const text = readFileSync(new URL('../../docs/reference/monitoring.md', import.meta.url), 'utf8')
  t.ok(text.includes(`the ${MAX_CLIENTS.toLocaleString('en').replace(',', ' ')} clients`))
})

t.test('The name of a client is bounded, however long its subject', async t => {
  const nameOf = (binding: object, issuer: string, sub: string) =>
    clientKey({ binding, issuer, claims: { sub } } as VerifiedToken)
  t.equal(nameOf({ jkt: undefined }, 'https://a/', 'user-1'), 'sub:https://a/ user-1')
  t.equal(nameOf({ jkt: 'thumbprint' }, 'https://a/', 'user-1'), 'jkt:https://a/ thumbprint')
  t.equal(nameOf({ jkt: undefined }, 'https://a/', 's'.repeat(113)).length, 128, 'kept as it is up to 128 characters')
  const names = [
    nameOf({ jkt: undefined }, 'https://a/', 's'.repeat(114)),
    nameOf({ jkt: undefined }, 'https://a/', 's'.repeat(10_000)),
    nameOf({ jkt: 's'.repeat(10_000) }, 'https://a/', '')
  ]
  t.not(
    nameOf({ jkt: undefined }, 'https://b/', 'user-1'),
    nameOf({ jkt: undefined }, 'https://a/', 'user-1'),
    'an issuer cannot use up what belongs to the users of another one'
  )
  t.strictSame(names.map(name => name.length), [43, 43, 43])
  t.equal(new Set(names).size, 3)
})
