import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import t from 'tap'
import { clientKey } from '../../lib/client-key.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import rateLimit, { MAX_CLIENTS, WINDOW_MS } from '../../plugins/rate-limit.ts'
import routeGuard from '../../plugins/route-guard.ts'
import { startApp } from '../helpers/app.ts'
import { bearerLines, call, expectRefusal } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { makeIssuerKey, startIssuer } from '../helpers/issuer.ts'

t.test('A client may send as many requests a minute as the setting says, over all guarded routes and methods, and no more', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '3' })
  const lines = bearerLines(issuer.token())
  t.equal((await call(running, { lines })).status, 200)
  t.equal((await call(running, { lines, path: '/api/profile' })).status, 200)
  t.equal((await call(running, { lines, method: 'HEAD' })).status, 200)

  const answer = await call(running, { lines, path: '/api/protected' })
  expectRefusal(t, answer, 'rate_limited')
  t.same(answer.body, { statusCode: 429, error: 'Too Many Requests', message: 'This client has sent too many requests; it may go on after the time in Retry-After.' })
  const seconds = Number(answer.headers['retry-after'])
  t.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= WINDOW_MS / 1000, `Retry-After: ${seconds}`)
  t.equal(answer.headers['cache-control'], 'no-store')
  t.equal(answer.headers['www-authenticate'], undefined, 'there is nothing wrong with the credentials')
  t.same(Object.keys(answer.headers).filter(name => name.includes('ratelimit')), [], 'and no other header tells of it')
  t.match((await running.app.inject('/metrics')).body, /^holdfast_refusals_total\{reason="rate_limited"\} 1$/m)

  t.equal((await call(running, { lines, path: '/api/public' })).status, 200, 'what is open is not limited')
  t.equal((await call(running, { lines: bearerLines(issuer.token({ jti: 'another' })) })).reason, 'rate_limited', 'a new token is no new client')
  t.equal((await call(running, { lines: bearerLines(issuer.token({ sub: 'user-2' })) })).status, 200, 'another subject has its own allowance')
})

t.test('A bound token is counted by its key, whatever its subject', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '1', ERROR_BODY: 'detailed' })
  const [one, two] = [await createDpopClient(), await createDpopClient()]
  const send = (client: typeof one, claims = {}) => {
    const token = issuer.token({ cnf: { jkt: client.jkt }, ...claims })
    return call(running, { lines: [`Authorization: DPoP ${token}`, `DPoP: ${client.proof({ token, url: `${running.url}/api/private` })}`] })
  }
  t.equal((await send(one)).status, 200)
  const refused = await send(one, { sub: 'user-2' })
  t.equal(refused.reason, 'rate_limited')
  t.same(refused.body, { detail: 'This client has sent too many requests; it may go on after the time in Retry-After.' }, 'the body has the configured form')
  t.equal((await send(two)).status, 200, 'the same subject with another key')
  t.equal((await call(running, { lines: bearerLines(issuer.token()) })).status, 200, 'and without a key')
  t.equal((await call(running, { lines: bearerLines(issuer.token({ sub: one.jkt })) })).status, 200, 'a subject that is spelt like a key is not that key')
})

t.test('Nobody uses up the allowance of another: only a request that passes the guard is counted', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { RATE_LIMIT: '1' })
  const client = await createDpopClient()
  const bound = issuer.token({ cnf: { jkt: client.jkt } })
  const proof = client.proof({ token: bound, url: `${running.url}/api/private` })
  const strangers: ReadonlyArray<readonly [lines: string[], path?: string]> = [
    [[]],
    [bearerLines(issuer.token({}, { kid: 'k1' }, makeIssuerKey('other')))],
    [bearerLines(bound)],
    [[`Authorization: DPoP ${bound}`, `DPoP: ${(await createDpopClient()).proof({ token: bound, url: `${running.url}/api/private` })}`]],
    [bearerLines(issuer.token()), '/api/private-scoped']
  ]
  for (const [lines, path = '/api/private'] of strangers) {
    for (let i = 0; i < 2; i++) t.ok([401, 403].includes((await call(running, { lines, path })).status))
  }
  const lines = [`Authorization: DPoP ${bound}`, `DPoP: ${proof}`]
  t.equal((await call(running, { lines })).status, 200, 'the client itself has all of its own')
  t.equal((await call(running, { lines })).reason, 'proof_replayed', 'a replay is refused as one')
  t.equal((await call(running, { lines: bearerLines(issuer.token()) })).status, 200)
})

t.test('By default nothing is limited, and nothing of it is on the way of a request or in the description', async t => {
  const issuer = await startIssuer(t)
  const hooks = async (settings: object): Promise<[number, boolean]> => {
    let count = 0
    const { app } = await startApp(t, issuer, settings, undefined, app => {
      app.addHook('onRoute', ({ url, preHandler }) => { if (url === '/api/private') count += [preHandler ?? []].flat().length })
    })
    return [count, app.hasDecorator('rateLimit')]
  }
  t.same(await hooks({}), [0, false])
  t.same(await hooks({ RATE_LIMIT: 'off' }), [0, false])
  t.equal((await hooks({ RATE_LIMIT: '1' }))[1], true)

  for (const [RATE_LIMIT, status] of [['1', '429'], ['off', undefined]] as const) {
    const { app } = await startApp(t, issuer, { RATE_LIMIT, METRICS: 'off' })
    const { paths, components } = (await app.inject('/docs/json')).json()
    t.equal(Object.keys(paths['/api/private'].get.responses).find(each => each === '429'), status, `${RATE_LIMIT}: a guarded route`)
    t.equal('TooManyRequests' in components.responses, status !== undefined)
    t.notOk('429' in paths['/api/public'].get.responses, `${RATE_LIMIT}: an open one`)
    const headers = { authorization: `Bearer ${issuer.token()}` }
    const statuses = [await app.inject({ url: '/api/private', headers }), await app.inject({ url: '/api/private', headers })].map(answer => answer.statusCode)
    t.same(statuses, [200, status === undefined ? 200 : 429], 'with metrics off as well')
  }
})

t.test('A flood of clients takes no more memory than is set aside: the one that was silent for longest starts anew', async t => {
  const app = Fastify()
  app.decorate('settings', { rateLimit: 1 } as Settings)
  app.decorate('guardParts', { challenges: () => ({}), tally: undefined } as never)
  app.decorateRequest('auth', null)
  app.decorateRequest('user')
  const guard: onRequestHookHandler = (request, _reply, done) => {
    request.auth = { scheme: 'Bearer', scopes: [], jkt: undefined }
    request.user = { sub: request.headers['x-sub'] } as never
    done()
  }
  // The limit asks for the real plugin by name.
  await app.register(fp(async () => {}, { name: 'auth' }))
  await app.register(routeGuard)
  await app.register(rateLimit, { maxClients: 100 })
  app.get('/guarded', { onRequest: Object.assign(guard, { requirement: null }) }, () => 'done')
  const statusFor = async (sub: string): Promise<number> => (await app.inject({ url: '/guarded', headers: { 'x-sub': sub } })).statusCode

  t.equal(await statusFor('first'), 200)
  t.equal(await statusFor('first'), 429)
  for (let i = 0; i < 99; i++) await statusFor(`other-${i}`)
  t.equal(await statusFor('first'), 429, 'as many as there is room for are all remembered')
  for (let i = 100; i < 200; i++) await statusFor(`other-${i}`)
  t.equal(await statusFor('first'), 200, 'one more, and the oldest is not')
  t.equal(await statusFor('first'), 429)

  const { now } = Date
  t.teardown(() => { Date.now = now })
  Date.now = () => now() + WINDOW_MS
  t.equal(await statusFor('first'), 200, 'and after a minute everybody may go on')
})

t.test('docs/operating.md states what is counted', async t => {
  const text = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8')
  t.ok(text.includes(`the ${MAX_CLIENTS.toLocaleString('en').replace(',', ' ')} clients`))
})

t.test('The name of a client is bounded, however long its subject', async t => {
  t.equal(clientKey(undefined, 'user-1'), 'sub:user-1')
  t.equal(clientKey('thumbprint', 'user-1'), 'jkt:thumbprint')
  t.equal(clientKey(undefined, 's'.repeat(124)).length, 128, 'kept as it is up to 128 characters')
  const names = [clientKey(undefined, 's'.repeat(125)), clientKey(undefined, 's'.repeat(10_000)), clientKey('s'.repeat(10_000), '')]
  t.same(names.map(name => name.length), [43, 43, 43])
  t.equal(new Set(names).size, 3)
})
