import Fastify, { type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import holdfast from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { dayIn } from '../helpers/clock.ts'

async function startApp (t: Test) {
  const issuer = await createTestIssuer()
  const log: any[] = []
  const stream = { write: (line: string) => log.push(JSON.parse(line)) }
  const app = Fastify({ logger: { level: 'info', stream } })
  const revocation = { operators: { scope: 'revoke' } }
  await app.register(holdfast, { ...issuer.options, revocation, server: { observe: dayIn(1), rateLimit: 3 } } as object)
  const show = ({ user, auth, observed }: FastifyRequest) =>
    ({ user: user?.sub ?? null, auth: auth && true, observed })
  app.get('/me', { onRequest: app.authenticate() }, show)
  app.get('/admin', { onRequest: app.requireScope('admin') }, show)
  app.get('/twice', { onRequest: [app.requireScope('admin'), app.authenticate()] }, async request => {
    await Promise.all([request.authenticate(), request.requireScope('admin')])
    return show(request)
  })
  app.get('/inside', async request => {
    await Promise.all([request.requireScope('admin'), request.authenticate()])
    return show(request)
  })
  const fails = () => {
    throw new Error('mine')
  }
  app.get('/fault', { onRequest: app.require({ claims: { sub: fails } }) }, show)
  const held = new Set<() => void>()
  const hold = async () => {
    await new Promise<void>(resolve => held.add(resolve))
    return {}
  }
  app.get('/held', { onRequest: app.authenticate() }, hold)
  app.get('/held-admin', { onRequest: app.requireScope('admin') }, hold)
  t.teardown(() => app.close())
  const get = async (url: string, sub?: string): Promise<any> => {
    const headers = sub === undefined ? {} : { authorization: `Bearer ${sub === 'x' ? sub : await issuer.token({ sub })}` }
    const answer = await app.inject({ url, headers })
    return { status: answer.statusCode, challenge: answer.headers['www-authenticate'], ...answer.json() }
  }
  const observed = (): string[] => log.filter(({ enforced }) => enforced === false).map(({ reason }) => reason)
  return { issuer, get, observed, log, held }
}

const NOBODY = { status: 200, challenge: undefined, user: null, auth: null }

t.test('In an app, who would be refused is nobody, and is told about once', async t => {
  const { issuer, get, observed, log } = await startApp(t)
  t.ok(log.some(({ level, msg }) => level === 40 && msg.startsWith(`Nothing is guarded until the end of ${dayIn(1)}`)))
  t.strictSame(await get('/me'), { ...NOBODY, observed: { status: 401, reason: 'credentials_missing' } })
  t.strictSame(await get('/me', 'x'), { ...NOBODY, observed: { status: 401, reason: 'token_inactive' } })
  t.strictSame(await get('/me', 'user-1'), { ...NOBODY, user: 'user-1', auth: true, observed: null }, 'who is admitted')
  const forbidden = { ...NOBODY, observed: { status: 403, reason: 'scope_missing' } }
  t.strictSame(await get('/admin', 'user-1'), forbidden)
  t.strictSame(observed(), ['credentials_missing', 'token_inactive', 'scope_missing'])
  t.strictSame(await get('/twice', 'user-2'), forbidden, 'other guards find nobody, and say nothing')
  t.equal(observed().length, 4)
  t.strictSame(await get('/inside', 'user-2'), forbidden, 'a guard in the handler')
  t.equal((await get('/fault', 'user-3')).status, 500, 'a fault of the app is no refusal')
  await get('/me', 'user-1')
  t.strictSame((await get('/me', 'user-1')).observed, { status: 429, reason: 'rate_limited' }, 'limits are counted')
  issuer.clock.advance(2 * 86_400)
  t.equal((await get('/me')).status, 401, 'afterwards everything is enforced')
  t.equal((await get('/me', 'user-1')).status, 200)
})

t.test('An answer to nobody outlives its token and the last day, and an answer to a caller ends', async t => {
  const { issuer, get, held } = await startApp(t)
  const [caller, nobody] = [get('/held', 'user-1'), get('/held-admin', 'user-1')]
  while (held.size < 2) await new Promise(resolve => setTimeout(resolve, 5))
  issuer.clock.advance(2 * 86_400)
  // The timers of the guard keep no process alive.
  const alive = setInterval(() => {}, 1000)
  await t.rejects(caller)
  clearInterval(alive)
  for (const release of held) release()
  t.equal((await nobody).status, 200)
})

t.test('Each hour, one warning says that nothing is guarded, until something is.', async t => {
  const { setInterval: set } = globalThis
  const hourly: Array<() => void> = []
  const put = (run: () => void, ms?: number) => {
    if (ms === 3_600_000) hourly.push(run)
    return set(run, ms)
  }
  globalThis.setInterval = Object.assign(put, set) as typeof set
  t.teardown(() => {
    globalThis.setInterval = set
  })
  const { issuer, log } = await startApp(t)
  const warnings = () => log.filter(({ msg }) => msg.startsWith('Nothing is guarded')).length
  t.equal(hourly.length, 1)
  hourly[0]!()
  t.equal(warnings(), 2)
  issuer.clock.advance(2 * 86_400)
  hourly[0]!()
  t.equal(warnings(), 2)
})

t.test('The name of another stays', async t => {
  const issuer = await createTestIssuer()
  const app = Fastify()
  app.decorateRequest('observed', null)
  await app.register(holdfast, issuer.options as object)
  t.teardown(() => app.close())
  t.ok(await app.ready())
})
