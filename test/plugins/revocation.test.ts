import t from 'tap'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { skipRedis, startRedis } from '../helpers/redis.ts'
import { RECEIVER, startRevocation as start, startTransmitter } from '../helpers/revocation-site.ts'
import { until } from '../helpers/until.ts'

t.test('A token of a revoked user is refused from the moment of the answer on, and a newer one passes', async t => {
  const { issuer, transmitter, ask, push, reasons } = await start(t)
  const now = nowSeconds()
  const old = issuer.token({ iat: now - 5, sub: 'user-1' })
  t.equal(await ask(old), 200)
  const answer = await push(
    transmitter.set({
      event: { event_timestamp: now },
      claims: { sub_id: { format: 'iss_sub', iss: transmitter.url, sub: 'user-1' } }
    })
  )
  t.equal(answer.status, 202)
  t.equal(await answer.text(), '')
  t.equal(await ask(old), 401)
  t.strictSame(reasons(), ['token_revoked'])
  // The transmitter is not the issuer of the token: their clocks may differ by the tolerance.
  t.strictSame(
    await atAnotherTime(
      1,
      () => Promise.all([5, 6].map(later => ask(issuer.token({ iat: now + later, sub: 'user-1' }))))
    ),
    [401, 200]
  )
  t.equal(await ask(issuer.token({ iat: now - 5, sub: 'user-2' })), 200)
})

t.test('An answer that still streams ends when its token is revoked', async t => {
  const { issuer, transmitter, push, url, log } = await start(t, {
    prepare: app =>
      app.get('/stream', { onRequest: app.authenticate() }, (request, reply) => {
        reply.hijack()
        reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
        const timer = setInterval(() => reply.raw.write('data: x\n\n'), 50)
        request.auth!.signal.addEventListener('abort', () => clearInterval(timer))
      })
  })
  const token = issuer.token({ iat: nowSeconds() - 5, sid: 's1' })
  const answer = await fetch(`${url}/stream`, { headers: { authorization: `Bearer ${token}` } })
  const reader = answer.body!.getReader()
  await reader.read()
  const pushed = await push(
    transmitter.set({ claims: { sub_id: { format: 'complex', session: { format: 'opaque', id: 's1' } } } })
  )
  t.equal(pushed.status, 202)
  await t.rejects(async () => {
    while (!(await reader.read()).done);
  }, 'the stream is cut off')
  t.strictSame(log.filter(({ msg }) => msg === 'open answer ended').map(({ reason }) => reason), ['token_revoked'])
})

t.test('Two transmitters that name sessions otherwise each have their own events', async t => {
  const [a, b] = [await startTransmitter(t), await startTransmitter(t)]
  const common = { audience: RECEIVER, delivery: 'push' }
  const { issuer, push, ask } = await start(t, {
    revocation: (_, { url }) => ({
      transmitters: [{ ...common, issuer: a.url, tokenIssuers: [url] }, {
        ...common,
        issuer: b.url,
        tokenIssuers: [url],
        sessionClaim: 'session_id',
        subjectClaims: { group: 'groups' }
      }]
    })
  })
  const session = (id: string) => ({ claims: { sub_id: { format: 'opaque', id } } })
  t.strictSame([(await push(a.set(session('s1')))).status, (await push(b.set(session('s2')))).status], [202, 202])
  t.strictSame(
    await Promise.all(
      [{ sid: 's1' }, { session_id: 's1' }, { sid: 's2' }, { session_id: 's2' }, { sid: 's3' }].map(claims =>
        ask(issuer.token(claims))
      )
    ),
    [401, 200, 200, 401, 200]
  )
})

t.test('An address of an event is found without case in the claim that the settings name, and an id is not', async t => {
  for (const claim of ['upn', 'sub', 'user.mail', 'email']) {
    const { issuer, transmitter, push, ask } = await start(t, {
      revocation: (transmitter, { url }) => ({
        transmitters: [{
          issuer: transmitter.url,
          audience: RECEIVER,
          delivery: 'push',
          tokenIssuers: [url],
          subjectClaims: { email: claim, opaque: 'device' }
        }]
      })
    })
    const token = (name: string, address: string) => issuer.token({ iat: nowSeconds() - 5, [name]: address })
    const asked = () =>
      Promise.all(
        [token(claim, 'Ann@A.example'), token(claim, 'ann@a.example'), token(claim, 'bob@a.example')].map(ask)
      )
    t.strictSame(await asked(), [200, 200, 200], claim)
    const sets = [{ format: 'email', email: 'ANN@a.Example' }, { format: 'opaque', id: 'ab' }]
    for (const subject of sets) await push(transmitter.set({ claims: { sub_id: subject } }))
    t.strictSame(await asked(), [401, 401, 200], claim)
    t.strictSame([await ask(token('device', 'ab')), await ask(token('device', 'AB'))], [401, 200], claim)
  }
})

t.test('A user whose number has lost digits passes for nobody, and one whose number has not is named by its text', async t => {
  const { issuer, transmitter, push, ask } = await start(t, {
    revocation: (transmitter, { url }) => ({
      transmitters: [{
        issuer: transmitter.url,
        audience: RECEIVER,
        delivery: 'push',
        tokenIssuers: [url],
        subjectClaims: { iss_sub: 'uid' }
      }]
    })
  })
  const claims = JSON.stringify(issuer.claims({ iat: nowSeconds() - 5 })).slice(1)
  const tokenOf = (uid: string) => issuer.rawToken('{"alg":"RS256"}', `{"uid":${uid},${claims}`)
  const uids = ['9007199254740991', '9007199254740992', '-9007199254740993', '1234567890123456789', '[7,1e300]', '[7,1.5]']
  const tokens = uids.map(tokenOf)
  t.strictSame(await Promise.all(tokens.map(ask)), [200, 401, 401, 401, 401, 200])
  for (const sub of ['9007199254740991', '1.5']) {
    await push(transmitter.set({ claims: { sub_id: { format: 'iss_sub', iss: transmitter.url, sub } } }))
  }
  t.strictSame(await Promise.all(tokens.map(ask)), Array(6).fill(401))
})

t.test("An event about a user's 21st group, or 25th sid, is obeyed", async t => {
  const { issuer, transmitter, push, ask } = await start(t, {
    revocation: (transmitter, { url }) => ({
      transmitters: [{
        issuer: transmitter.url,
        audience: RECEIVER,
        delivery: 'push',
        tokenIssuers: [url],
        subjectClaims: { group: 'groups' }
      }]
    })
  })
  const iat = nowSeconds() - 5
  const many = (name: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${name}${index + 1}`)
  const groups = issuer.token({ iat, groups: many('g', 21) })
  const sids = issuer.token({ iat, sid: many('s', 25) })
  t.strictSame([await ask(groups), await ask(sids)], [200, 200])
  await push(transmitter.set({ claims: { sub_id: { group: { format: 'opaque', id: 'g21' } } } }))
  await push(transmitter.set({ claims: { sub_id: { format: 'opaque', id: 's25' } } }))
  t.strictSame([
    await ask(groups),
    await ask(sids),
    await ask(issuer.token({ iat, groups: many('g', 20), sid: many('s', 24) }))
  ], [401, 401, 200])
})

t.test('A log of the version before that was taken over is logged, once', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const store = `redis://127.0.0.1:${server.port}`
  await server.command('XADD', '{holdfast:revocation}:log', '*', 'e', '{}')
  const startOne = async () => {
    const { log, url } = await start(t, { revocation: () => ({ operators: { scope: 'revoke' }, store }) })
    await until('it is ready', async () => (await fetch(`${url}/health/ready`)).status === 200)
    return log.filter(({ event }) => event === 'revocation_taken_over').map(({ level, hosts }) => [level, hosts])
  }
  t.strictSame(await startOne(), [[40, [`127.0.0.1:${server.port}`]]])
  t.strictSame(await startOne(), [])
})
