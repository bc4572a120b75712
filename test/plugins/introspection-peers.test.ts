import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { arrivedRequest } from '../../lib/guard/guard.ts'
import type { Refusal } from '../../lib/refusal.ts'
import { ANY_TOKEN } from '../../lib/guard/requirement/requirement.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, call, dpopLines, expectRefusal } from '../helpers/call.ts'
import { advanceClock, stopClock, stopTimers } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import {
  cutShort,
  endless,
  gzipBomb,
  html,
  json,
  redirect,
  reset,
  text,
  type Behaviour
} from '../helpers/hostile-provider.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { startOpaqueTenant, type OpaqueTenant } from '../helpers/opaque-tenant.ts'

const tenant = await startOpaqueTenant(t)

const startFor = (t: Test, client: string, values: Variables): Promise<RunningApp> =>
  startApp(t, { url: tenant.issuer } as Issuer, {
    IDP_CLIENT_ID: client,
    IDP_CLIENT_SECRET: tenant.clientSecret,
    ...values
  })

/** Each way in which the service may prove itself, with plain or signed answers. */
function clientsOf (t: Test, { clientKey }: OpaqueTenant): ReadonlyArray<{ client: string, values: Variables }> {
  const directory = t.testdir({ 'key.pem': clientKey.export({ type: 'pkcs8', format: 'pem' }) as string })
  return [
    { client: 'client_secret_basic', values: {} },
    { client: 'client_secret_post', values: { IDP_CLIENT_AUTH: 'client_secret_post' } },
    {
      client: 'private_key_jwt',
      values: {
        IDP_CLIENT_AUTH: 'private_key_jwt',
        IDP_CLIENT_SECRET: undefined,
        IDP_CLIENT_KEY_FILE: join(directory, 'key.pem')
      }
    },
    { client: 'signed', values: { IDP_INTROSPECTION_SIGNED: true } }
  ]
}

const KINDS = [
  { covers: 'opaque', formats: ['opaque'] },
  { covers: 'jwt', formats: ['jwt'] },
  { covers: 'all', formats: ['opaque', 'jwt'] }
] as const

t.test('A provider introspects its tokens, by each way in which the service authenticates', async t => {
  for (const { client, values } of clientsOf(t, tenant)) {
    for (const { covers, formats } of KINDS) {
      const running = await startFor(t, client, { ...values, IDP_INTROSPECTION: covers })
      for (const format of formats) {
        const title = `${format} by ${covers} and ${client}`
        const token = await tenant.token(format)
        t.hasStrict(await call(running, { path: '/api/private-scoped', lines: bearerLines(token) }), {
          status: 200,
          body: { user_id: format }
        }, title)
        t.equal(tenant.asked.at(-1), token, title)
        expectRefusal(
          t,
          await call(running, {
            lines: bearerLines(await tenant.token(format, { resource: 'https://other.example' }))
          }),
          'token_audience',
          'Bearer',
          `${title}, for another API`
        )
      }
      if (covers !== 'jwt') {
        expectRefusal(t, await call(running, { lines: bearerLines('made-up') }), 'token_inactive', 'Bearer', client)
      }
    }
  }
})

t.test('A token that was revoked is refused once the answer about it is too old', async t => {
  for (const { covers, formats } of KINDS) {
    const running = await startFor(t, 'client_secret_basic', { IDP_INTROSPECTION: covers })
    for (const format of formats) {
      const [token, twin] = [await tenant.token(format), await tenant.token(format)]
      for (const each of [token, twin]) {
        t.equal((await call(running, { lines: bearerLines(each) })).status, 200, `${format} by ${covers}`)
      }
      await tenant.revoke(token)
      t.equal((await call(running, { lines: bearerLines(token) })).status, 200, 'the answer still holds')
      advanceClock(t, 10_000)
      expectRefusal(
        t,
        await call(running, { lines: bearerLines(token) }),
        'token_inactive',
        'Bearer',
        `${format} by ${covers}`
      )
      t.equal((await call(running, { lines: bearerLines(twin) })).status, 200, 'and the other one passes')
    }
  }
})

t.test('A token that the provider has bound to a key passes only with its proof', async t => {
  const client = await createDpopClient()
  for (const { covers, formats } of KINDS) {
    const running = await startFor(t, 'signed', { IDP_INTROSPECTION: covers, IDP_INTROSPECTION_SIGNED: true })
    const url = `${running.url}/api/private`
    for (const format of formats) {
      const token = await tenant.token(format, {
        headers: {
          dpop: client.proof({ token: '', url: `${tenant.issuer}/token`, method: 'POST', claims: { ath: undefined } })
        }
      })
      t.equal(
        (await call(running, { lines: dpopLines(token, client.proof({ token, url })) })).status,
        200,
        `${format} by ${covers}`
      )
      expectRefusal(t, await call(running, { lines: bearerLines(token) }), 'token_bound', 'Bearer')
      expectRefusal(
        t,
        await call(running, { lines: dpopLines(token, (await createDpopClient()).proof({ token, url })) }),
        'jkt_mismatch',
        'DPoP'
      )
    }
  }
})

t.test('A refresh token of the provider is not an access token, even if an answer may leave out the audience', async t => {
  for (const IDP_INTROSPECTION_AUDIENCE_OPTIONAL of [true, false]) {
    const running = await startFor(t, 'client_secret_basic', {
      IDP_INTROSPECTION: 'opaque',
      IDP_INTROSPECTION_AUDIENCE_OPTIONAL
    })
    t.equal((await call(running, { lines: bearerLines(await tenant.token('opaque')) })).status, 200)
    const refused = await call(running, { lines: bearerLines(await tenant.refreshToken()) })
    expectRefusal(t, refused, IDP_INTROSPECTION_AUDIENCE_OPTIONAL ? 'token_kind' : 'token_claim_invalid', 'Bearer')
  }
})

interface Hostile extends RunningApp {
  readonly issuer: Issuer
  /** Tokens that were introspected, in order. */
  readonly asked: string[]
  behaviour: Behaviour
}

/** The service with an endpoint that answers as the test says. */
async function startHostile (t: Test, values: Variables): Promise<Hostile> {
  // No call meets its deadline on a busy machine.
  stopTimers(t, 5000)
  const issuer = await startIssuer(t)
  const asked: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    asked.push(new URLSearchParams(body).get('token')!)
    hostile.behaviour(request, response)
  })
  // A call after a long stall must not meet a connection that is just being closed.
  server.keepAliveTimeout = 0
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/introspect`
  const running = await startApp(t, issuer, {
    IDP_CLIENT_ID: 'api',
    IDP_CLIENT_SECRET: 'secret',
    IDP_INTROSPECTION_ENDPOINT: endpoint,
    ...values
  })
  const hostile: Hostile = { ...running, issuer, asked, behaviour: json({}) }
  return hostile
}

const active = { active: true, sub: 'user-1', aud: AUDIENCE }

t.test('No token passes if the endpoint lies, floods, redirects or compresses, and one passes with a good answer', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  const rows: ReadonlyArray<{ title: string, behaviour: Behaviour, failure?: string }> = [
    { title: 'a good answer', behaviour: json(active) },
    { title: 'no end', behaviour: endless(), failure: 'too_large' },
    { title: 'a length of a gigabyte', behaviour: endless(2 ** 30), failure: 'too_large' },
    { title: 'a bomb of gzip', behaviour: gzipBomb(), failure: 'content_encoding' },
    { title: 'a redirect to a good answer', behaviour: redirect('/good'), failure: 'redirect' },
    { title: 'a redirect that keeps the method', behaviour: redirect('/good', 307), failure: 'redirect' },
    { title: 'a reset connection', behaviour: reset(), failure: 'unreachable' },
    { title: 'a connection that breaks', behaviour: cutShort(), failure: 'unreachable' },
    { title: 'a page', behaviour: html(), failure: 'not_json' },
    { title: 'a good answer with 201', behaviour: json(active, 201), failure: 'status' },
    { title: 'nothing', behaviour: text(''), failure: 'not_json' },
    { title: 'a number', behaviour: text('1'), failure: 'introspection_malformed' },
    { title: 'null', behaviour: text('null'), failure: 'introspection_malformed' },
    { title: 'a text', behaviour: text('"active"'), failure: 'introspection_malformed' },
    ...[{ active: 'true' }, { active: 1 }, { active: null }, { active: [true] }, { active: {} }, {}].map(answer => (
      {
        title: JSON.stringify(answer),
        behaviour: json({ ...active, active: undefined, ...answer }),
        failure: 'introspection_malformed'
      }
    )),
    { title: 'a good answer after all', behaviour: json(active) }
  ]
  for (const [index, { title, behaviour, failure }] of rows.entries()) {
    hostile.behaviour = behaviour
    const outcome = await call(hostile, { lines: bearerLines(`opaque-${index}`) })
    if (failure === undefined) t.equal(outcome.status, 200, title)
    else {
      expectRefusal(t, outcome, 'introspection_unavailable', 'Bearer', title)
      t.hasStrict(hostile.log.filter(({ reason }) => reason).at(-1), { failure }, title)
      t.match(outcome.headers['retry-after'], /^\d+$/, title)
    }
  }
  t.notMatch(JSON.stringify(hostile.log), /opaque-\d|secret/)
})

t.test('A member of a wrong type is a refusal, and never a fault', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_CACHE_SECONDS: 0 })
  const wrong = [null, true, 7, '', [], {}, [7], ['x', null], { x: 1 }]
  const members = ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'cnf', 'client_id', 'token_type', 'token_use', 'typ']
  const fits: Readonly<Record<string, readonly unknown[]>> = {
    exp: [],
    nbf: [7],
    iat: [7],
    client_id: wrong,
    token_use: wrong,
    typ: wrong
  }
  let serial = 0
  for (const member of members) {
    for (const value of wrong) {
      const title = `${member} is ${JSON.stringify(value)}`
      hostile.behaviour = json({ ...active, [member]: value })
      const outcome = await call(hostile, { lines: bearerLines(`opaque-${serial++}`) })
      t.equal(outcome.status, fits[member]?.includes(value) ? 200 : 401, title)
    }
  }
  // These grant nothing, and are no faults either.
  for (const member of ['scope', 'username', 'jti', '__proto__', 'toString']) {
    for (const value of wrong) {
      hostile.behaviour = text(
        `{"active":true,"sub":"user-1","aud":"${AUDIENCE}","${member}":${JSON.stringify(value)}}`
      )
      const lines = bearerLines(`opaque-${serial++}`)
      t.equal((await call(hostile, { lines })).status, 200, member)
      t.equal((await call(hostile, { lines, path: '/api/private-scoped' })).status, 403, member)
    }
  }
})

async function reasonOf ({ app }: RunningApp, token: string): Promise<string | undefined> {
  const headers = { host: 'localhost', authorization: `Bearer ${token}` }
  const arrived = arrivedRequest({
    method: 'GET',
    url: '/',
    headers,
    rawHeaders: Object.entries(headers).flat(),
    socket: {}
  })
  const parts = { headers, raw: { headers }, routeOptions: { config: {} }, log: { info () {} } }
  const request = parts as unknown as FastifyRequest
  return app.holdfastGuard.admissionOf(() => arrived, undefined).identify(request, () => ANY_TOKEN).then(
    () => undefined,
    ({ reason }: Refusal) => reason
  )
}

const FLOOD = 2000

t.test('A flood of made-up tokens costs few calls, and good tokens go on being answered', async t => {
  // So many refusals may take longer than an answer is kept.
  const advance = stopClock(t)
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'all' })
  const held: Array<() => void> = []
  let isHeld = false
  hostile.behaviour = (request, response) => {
    const token = hostile.asked.at(-1)!
    const answer = (): void =>
      json(token.startsWith('good') || token.includes('.') ? active : { active: false })(request, response)
    if (isHeld) held.push(answer)
    else answer()
  }
  const statusOf = async (token: string): Promise<number> => {
    const answer = await fetch(`${hostile.url}/api/private`, { headers: { authorization: `Bearer ${token}` } })
    await answer.arrayBuffer()
    return answer.status
  }
  const introspection = () => hostile.app.holdfastGuard.parts.issuers!.all()[0]!.introspection!.inquiry.state()
  const good = ['good-1', 'good-2']
  for (const token of good) t.equal(await statusOf(token), 200)
  isHeld = true
  // So many requests over sockets would take longer than the deadline of a call, so the guard gets these by itself.
  const ended: unknown[] = []
  const flood = Array.from({ length: FLOOD }, async (_, index) => {
    const reason = await reasonOf(hostile, `made-up-${index}`)
    ended.push(reason)
    return reason
  })
  // If one of the calls fails, fewer than 64 are left that can be held.
  while (held.length < 64 && ended.length <= FLOOD - 64) await delay(5)
  t.equal(held.length, 64)
  for (const token of good) t.equal(await statusOf(token), 200, 'from the answers that are kept')
  t.hasStrict(introspection(), { inFlight: 64 })

  // The answers about the good tokens are too old now, and all 64 calls are under way.
  advance(10_000)
  const signed = hostile.issuer.token()
  const renewed = Promise.all([...good, signed].map(statusOf))
  // All three wait for their turn, however long they took to come.
  while (introspection().cache.misses < 2 + FLOOD + 3) await delay(5)
  isHeld = false
  for (const answer of held.splice(0)) answer()
  t.strictSame(
    await renewed,
    [200, 200, 200],
    'tokens that were good before, and a JWT that is signed, have the next turn'
  )
  const reasons = await Promise.all(flood)
  t.strictSame([...new Set(reasons)].sort(), ['introspection_unavailable', 'token_inactive'])
  t.equal(reasons.filter(reason => reason === 'token_inactive').length, 64)
  t.hasStrict(introspection(), {
    active: 5,
    inactive: 64,
    turnedAway: FLOOD - 64,
    inFlight: 0,
    cache: { entries: 64 }
  })
  t.equal(hostile.asked.length, 2 + 64 + 3)
  t.equal(await statusOf('good-new'), 200, 'and afterwards there is room')

  for (let round = 0; round < 5; round++) {
    t.strictSame(await Promise.all([0, 1, 63].map(index => statusOf(`made-up-${index}`))), [401, 401, 401])
  }
  t.equal(hostile.asked.length, 2 + 64 + 3 + 1, 'a refusal is kept')
})

t.test('Requests that wait for one answer each have a log line and an answer of their own', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque', ERROR_BODY: 'detailed' })
  hostile.behaviour = (request, response) => {
    setTimeout(() => json({}, 500)(request, response), 300)
  }
  const answers = await Promise.all(
    Array.from(
      { length: 5 },
      () => fetch(`${hostile.url}/api/private`, { headers: { authorization: 'Bearer opaque' } })
    )
  )
  t.strictSame(answers.map(({ status }) => status), Array(5).fill(503))
  t.equal(hostile.asked.length, 1)
  t.match(
    hostile.log.filter(({ reason }) => reason),
    Array(5).fill({ reason: 'introspection_unavailable', issuer: hostile.issuer.url, failure: 'status' })
  )
})

t.test('A token that was active stays cached while the endpoint is down, and is forgotten when it is refused', async t => {
  const hostile = await startHostile(t, { IDP_INTROSPECTION: 'opaque' })
  const { verified } = hostile.app.holdfastGuard.parts
  hostile.behaviour = json(active)
  t.equal((await call(hostile, { lines: bearerLines('good') })).status, 200)
  advanceClock(t, 10_000)
  hostile.behaviour = json({}, 500)
  expectRefusal(t, await call(hostile, { lines: bearerLines('good') }), 'introspection_unavailable', 'Bearer')
  t.equal(verified.state().entries, 1)
  hostile.behaviour = json({ active: false })
  expectRefusal(t, await call(hostile, { lines: bearerLines('good') }), 'token_inactive', 'Bearer')
  t.equal(verified.state().entries, 0)
})
