import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import t, { type Test } from 'tap'
import { createClientKeys } from '../../lib/guard/dpop/client-keys.ts'
import { verifyProof, type ProofPolicy } from '../../lib/guard/dpop/proof.ts'
import { createAdmission, createPrivateNote, type AdmissibleRequest } from '../../lib/guard/admission.ts'
import {
  arrivedRequest,
  createGuard,
  type GuardDone,
  type Identity
} from '../../lib/guard/guard.ts'
import { ANY_TOKEN } from '../../lib/guard/requirement/requirement.ts'
import { Refusal, REFUSALS } from '../../lib/refusal.ts'
import { createMemoryStore } from '../../lib/guard/replay/memory-store.ts'
import type { TokenIssuer } from '../../lib/guard/token/issuer-table.ts'
import { createVerifiedToken } from '../../lib/guard/token/verified-tokens.ts'
import auth from '../../plugins/auth.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { bearerLines, call, dpopLines, expectRefusal } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'

async function startOther (t: Test, issuer: Issuer, more: { dpop?: object } = {}) {
  const app = createApp(t)
  await app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE }, ...more })
  return app
}

t.test('A refused token sets no user: not in a handler that catches, nor in an error handler, nor after the answer', async t => {
  const issuer = await startIssuer(t)
  const [victim, thief] = [await createDpopClient(), await createDpopClient()]
  const url = 'http://api.example/greeting'
  const bound = (jti: string) => issuer.token({ jti, cnf: victim.cnf })
  const attacks: Record<string, (token: string) => Record<string, string>> = {
    'a bound token as Bearer': token => ({ authorization: `Bearer ${token}` }),
    'a bound token without a proof': token => ({ authorization: `DPoP ${token}` }),
    'a proof of another key': token => ({ authorization: `DPoP ${token}`, dpop: thief.proof({ token, url }) }),
    'a proof for another URL': token => ({
      authorization: `DPoP ${token}`,
      dpop: victim.proof({ token, url: 'http://api.example/other' })
    })
  }
  for (const [name, attack] of Object.entries(attacks)) {
    const app = await startOther(t, issuer)
    const seen: unknown[] = []
    const look = ({ user, auth }: FastifyRequest) => {
      seen.push([user, auth])
    }
    app.addHook('onError', async request => look(request))
    app.addHook('onResponse', async request => look(request))
    app.setErrorHandler((error: Error, request: FastifyRequest, reply: FastifyReply) => {
      look(request)
      reply.code(401).send(error.message)
    })
    app.get('/greeting', async request => {
      try {
        await request.authenticate()
      } catch {
        look(request)
      }
      return `hello ${request.user?.sub ?? 'guest'}`
    })
    app.get('/guarded', { onRequest: app.authenticate() }, () => 'in')

    const token = bound(name)
    for (const sight of ['first', 'second', 'third']) {
      t.equal(
        (await app.inject({ url: '/greeting', headers: { host: 'api.example', ...attack(token) } })).body,
        'hello guest',
        `${name}, ${sight} sight`
      )
    }
    t.equal(
      (await app.inject({ url: '/guarded', headers: { host: 'api.example', ...attack(bound(`${name} once more`)) } }))
        .statusCode,
      401
    )
    t.ok(seen.length >= 9)
    t.strictSame(seen.filter(([user, auth]: any) => user !== null || auth !== null), [], name)

    const accepted = { host: 'api.example', authorization: `DPoP ${token}`, dpop: victim.proof({ token, url }) }
    t.equal(
      (await app.inject({ url: '/greeting', headers: accepted })).body,
      'hello user-1',
      `${name}: the client itself`
    )
    t.equal(
      (await app.inject({ url: '/greeting', headers: accepted })).body,
      'hello guest',
      'but not a replay of its request'
    )
  }
})

t.test('A caller that lacks a scope is still known: the handler can read its claims', async t => {
  const issuer = await startIssuer(t)
  const app = await startOther(t, issuer)
  app.get('/', async request => {
    const refusal: unknown = await request.requireScope('b').catch(error => error)
    return { reason: refusal instanceof Refusal && refusal.reason, sub: request.user.sub, auth: request.auth }
  })
  const claims = issuer.claims({ scope: 'a' })
  t.strictSame((await app.inject({ url: '/', headers: { authorization: `Bearer ${issuer.token(claims)}` } })).json(), {
    reason: 'scope_missing',
    sub: 'user-1',
    auth: { scheme: 'Bearer', scopes: ['a'], issuer: issuer.url, expiresAt: claims.exp }
  })
})

t.test('An error thrown after an admission is not taken for a refusal: the guard answers once', async t => {
  const client = await createDpopClient()
  const claims = { iss: 'https://tenant.example/', sub: 'user-1', aud: AUDIENCE, exp: 2e9 }
  const verified = (cnf: object) =>
    createVerifiedToken({
      text: 't',
      claims: { ...claims, ...cnf },
      isTrusted: () => true,
      issuer: { issuer: claims.iss, dpopMode: 'ALLOWED', scopeClaims: [] }
    })
  const policy: ProofPolicy = {
    iatOffsetSeconds: 300,
    iatLeewaySeconds: 30,
    keys: createClientKeys(['ES256'], { nowMs: () => 0 }),
    nonces: undefined,
    replay: createMemoryStore({ max: 100, now: () => 1e9, steadyMs: () => 0, randomBytes })
  }
  const guardOf = (token: ReturnType<typeof verified>) =>
    createGuard({
      mode: 'ALLOWED',
      tokens: { known: () => token, verify: (_text, _scheme, known) => known! },
      proofs: policy,
      // A real signature is verified in another thread, and answers in another turn: this one answers at once.
      verifyProof: (attempt, _policy, done) => {
        Object.assign(attempt, { header: { jkt: client.jkt }, claims: { jti: 'one' }, expiresAt: 1e9 + 300 })
        done(null)
      },
      rateLimit: undefined,
      readCertificate: () => {
        throw new Error('no token here is bound to one')
      },
      resolveUrl: () => {
        throw new Error('not called')
      },
      now: () => 1e9
    })
  const message = (...rawHeaders: string[]) =>
    arrivedRequest({ method: 'GET', url: '/', headers: {}, rawHeaders: ['Host', 'h', ...rawHeaders], socket: {} })
  const cases = [
    { name: 'Bearer', guard: guardOf(verified({})), request: message('Authorization', 'Bearer t'), reason: null },
    {
      name: 'DPoP',
      guard: guardOf(verified({ cnf: client.cnf })),
      request: message('Authorization', 'DPoP t', 'DPoP', 'p'),
      reason: null
    },
    {
      name: 'a replay',
      guard: guardOf(verified({ cnf: client.cnf })),
      request: message('Authorization', 'DPoP t', 'DPoP', 'p'),
      reason: 'proof_replayed'
    },
    { name: 'a refusal', guard: guardOf(verified({})), request: message(), reason: 'credentials_missing' }
  ] as const
  for (const { name, guard, request, reason } of cases) {
    const answers: unknown[] = []
    t.throws(
      () =>
        guard(request, error => {
          answers.push(error && (error as Refusal).reason)
          throw new Error('a fault behind the guard')
        }),
      /a fault behind the guard/,
      name
    )
    t.strictSame(answers, [reason], `${name}: one answer`)
  }

  const attempt = (proof: string) => ({
    proof,
    method: 'GET',
    tokenHash: '',
    tokenJkt: '',
    requestUrl: () => {
      throw new Error('not called')
    },
    now: 1e9
  })
  const answers: unknown[] = []
  t.throws(() =>
    verifyProof(attempt('no proof'), policy, error => {
      answers.push((error as Refusal).reason)
      throw new Error('a fault behind the proof')
    }), /a fault behind the proof/)
  t.strictSame(answers, ['proof_malformed'])
})

t.test('A guard that is made before its plugin has loaded throws, so no route is left without a hook', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE } })
  t.throws(() => app.get('/early', { onRequest: app.authenticate() }, () => 'in'), TypeError)
  await app
  app.get('/called', { onRequest: app.authenticate() }, request => request.user.sub)
  app.get('/bare', { onRequest: app.authenticate }, request => request.user.sub)
  app.get('/both', { onRequest: [app.authenticate, app.authenticate()] }, request => request.user.sub)
  const headers = { authorization: `Bearer ${issuer.token()}` }
  for (const url of ['/called', '/bare', '/both']) {
    t.equal((await app.inject(url)).statusCode, 401, url)
    t.equal((await app.inject({ url, headers })).body, 'user-1', url)
  }
})

t.test('A guard may be a hook for each phase before the handler', async t => {
  const issuer = await startIssuer(t)
  const app = await startOther(t, issuer)
  const guards = { called: app.authenticate(), bare: app.authenticate, scoped: app.requireScope('a') }
  const headers = { authorization: `Bearer ${issuer.token({ scope: 'a' })}` }
  const urls = ['onRequest', 'preParsing', 'preValidation', 'preHandler'].flatMap(phase =>
    Object.entries(guards).map(([name, guard]) => {
      const url = `/${phase}/${name}`
      app.post(url, { [phase]: guard }, ({ user, body }) => ({ sub: user.sub, body }))
      return url
    })
  )
  const post = { method: 'POST', payload: { item: 7 } } as const
  for (const url of urls) {
    t.equal((await app.inject({ ...post, url })).statusCode, 401, url)
    t.strictSame((await app.inject({ ...post, url, headers })).json(), { sub: 'user-1', body: { item: 7 } }, url)
  }
})

t.test('A challenge names the scopes of all guards of the route, in another app too', async t => {
  const issuer = await startIssuer(t)
  const app = await startOther(t, issuer)
  await app.register(async scope => {
    scope.addHook('onRequest', scope.requireScope('outer'))
    scope.get('/', { onRequest: scope.requireScope('inner') }, () => ({}))
  })
  const challengeOf = async (headers: Record<string, string>) =>
    (await app.inject({ url: '/', headers })).headers['www-authenticate']
  t.match(await challengeOf({}), /^Bearer scope="outer inner", DPoP scope="outer inner", algs/)
  for (const scope of ['outer', 'inner']) {
    t.match(await challengeOf({ authorization: `Bearer ${issuer.token({ scope })}` }), / scope="outer inner",/, scope)
  }
})

t.test('A guard as a hook after the handler stops the start: its route would be open', async t => {
  const issuer = await startIssuer(t)
  for (const phase of ['preSerialization', 'onSend', 'onResponse', 'onError', 'onTimeout', 'onRequestAbort']) {
    const app = await startOther(t, issuer)
    const refused = new RegExp(`A guard is no hook for ${phase}, but for onRequest`)
    for (const guard of [app.authenticate(), app.authenticate, app.requireScope('a')]) {
      t.throws(() => app.get('/', { [phase]: [() => {}, guard] }, () => ({})), refused, phase)
    }
    await app.register(async scope => {
      scope.get('/in-scope', () => ({}))
      scope.addHook(phase as 'onResponse', scope.authenticate())
    })
    await t.rejects(async () => app.ready(), refused, `${phase} of a scope`)
  }
  const app = await startOther(t, issuer)
  app.get('/', { guard: app.authenticate(), onResponse: () => {} } as object, () => ({}))
  await t.resolves(async () => app.ready(), 'the twin: an option of the app, which is no hook')
})

t.test('Invalid arguments throw when the route is made', async t => {
  const app = await startOther(t, await startIssuer(t))
  const requireScope = app.requireScope as unknown as (...args: unknown[]) => unknown
  const bad: unknown[][] = [
    [],
    [''],
    ['a b'],
    ['a"b'],
    ['a', ''],
    [undefined],
    [null],
    [1],
    [['a', 'b']],
    [{}],
    [{ any: 'admin' }],
    [{ any: [] }],
    [{ any: ['a', ''] }],
    [{ any: ['a'] }, 'b'],
    ['b', { any: ['a'] }],
    [{ any: ['a'], all: ['b'] }],
    [{ scope: ['a'] }]
  ]
  for (const args of bad) {
    t.throws(() => requireScope(...args), /^requireScope takes one or more scopes/, JSON.stringify(args))
  }
  for (const args of [['a'], ['a', 'b'], [{ any: ['a'] }], [{ any: ['a', 'b'] }]]) {
    t.type(requireScope(...args), 'function', JSON.stringify(args))
  }

  const authenticate = app.authenticate as (...args: unknown[]) => unknown
  for (const args of [['read:messages'], [{}], [undefined], [{}, {}], [{}, {}, 'done'], [() => {}]]) {
    t.throws(() => authenticate(...args), /^authenticate takes no arguments/, JSON.stringify(args))
  }
})

t.test('The types refuse arguments that would require less than they say', async t => {
  const app = await startOther(t, await startIssuer(t))
  // @ts-expect-error a text is not a list of scopes
  t.throws(() => app.requireScope({ any: 'admin' }))
  // @ts-expect-error what is beside `any` would be dropped
  t.throws(() => app.requireScope({ any: ['a'] }, 'b'))
  // @ts-expect-error no scope at all
  t.throws(() => app.requireScope())
})

t.test(
  'A plugin that brings a guarded route stops the start: the plugins that count and describe routes may not know ' +
    'it',
  async t => {
    const issuer = await startIssuer(t)
    const early = (guarded: boolean) =>
      startApp(t, issuer, {}, undefined, app => {
        // As a file among plugins/ would: after auth, before the others.
        const decorate = app.decorate.bind(app)
        app.decorate = ((name: string, value: unknown) => {
          decorate(name as never, value as never)
          if (name === 'requireScope') {
            app.get('/early', { onRequest: guarded ? app.requireScope('a') : [] }, () => 'in')
          }
          return app
        }) as typeof app.decorate
      })
    await t.rejects(
      early(true),
      /^GET \/early has a guard, but plugins are still being loaded: .* Move the route to routes\/api\/\.$/
    )
    t.equal((await (await early(false)).app.inject('/early')).statusCode, 200)
  }
)

t.test('A request without credentials gets the scopes of the route in the challenge, on each scheme that is offered', async t => {
  const running = await startApp(t, await startIssuer(t))
  const scopes = async (path: string, lines: string[] = []) => {
    const outcome = await call(running, { path, lines })
    t.equal(outcome.status, 401)
    return outcome.challenges.map(({ scheme, parameters }) => [scheme, parameters.scope, parameters.error])
  }
  t.strictSame(await scopes('/api/private-scoped'), [['Bearer', 'read:messages', undefined], [
    'DPoP',
    'read:messages',
    undefined
  ]])
  t.strictSame(await scopes('/api/users', ['Authorization: Basic dTpw']), [[
    'Bearer',
    'read:users write:users',
    undefined
  ], ['DPoP', 'read:users write:users', undefined]])
  t.strictSame(await scopes('/api/private'), [['Bearer', undefined, undefined], ['DPoP', undefined, undefined]])
  t.strictSame(await scopes('/api/private-scoped', ['Authorization: Bearer x']), [[
    'Bearer',
    undefined,
    'invalid_token'
  ], ['DPoP', undefined, undefined]], 'not beside another error')
})

t.test('A token that is bound to a certificate as well is refused in every mode', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const x5t = { 'x5t#S256': 'A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0' }
  for (const IDP_DPOP_MODE of ['DISABLED', 'ALLOWED', 'REQUIRED'] as const) {
    const running = await startApp(t, issuer, { IDP_DPOP_MODE })
    const url = `${running.url}/api/private`
    const send = (cnf: object) => {
      const token = issuer.token({ cnf })
      return call(running, {
        lines: IDP_DPOP_MODE === 'DISABLED' ? bearerLines(token) : dpopLines(token, client.proof({ token, url }))
      })
    }
    const scheme = IDP_DPOP_MODE === 'DISABLED' ? 'Bearer' : 'DPoP'
    expectRefusal(
      t,
      await send({ jkt: client.jkt, ...x5t }),
      'token_binding_unusable',
      scheme,
      `${IDP_DPOP_MODE}: both`
    )
    expectRefusal(t, await send(x5t), 'token_binding_unusable', scheme, `${IDP_DPOP_MODE}: certificate`)
    t.equal((await send({ jkt: client.jkt })).status, 200, `${IDP_DPOP_MODE}: key`)
    t.equal(
      (await send({ jkt: client.jkt, kid: 'of the client' })).status,
      200,
      `${IDP_DPOP_MODE}: a hint beside the key`
    )
  }
})

t.test('An app may have a decorator called user of its own kind', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  await app.register(fp(async app => {
    app.decorateRequest('user', null as never)
  }))
  await app.register(auth, { idp: { issuer: issuer.url, audience: AUDIENCE } })
  app.get('/', { onRequest: app.authenticate() }, request => request.user.sub)
  t.equal((await app.inject({ url: '/', headers: { authorization: `Bearer ${issuer.token()}` } })).body, 'user-1')
})

t.test('A handler that calls the guard again after a refusal gets a new check; calls during a check share it', async t => {
  const answers: Array<(done: GuardDone) => void> = []
  let asked = 0
  const { admitOnce } = createAdmission({
    guard: (_received, done) => setImmediate(() => answers[asked++]!(done)),
    judge: () => undefined,
    signals: { signalFor: () => AbortSignal.abort(), close () {} },
    decisions: { admitted () {} },
    refuse: (_request, error) => error
  })
  const reasonOf = (request: AdmissibleRequest) =>
    admitOnce(request, ANY_TOKEN).then(() => 'in', ({ reason }) => reason)
  const refused = (done: GuardDone) => done(new Refusal('replay_unavailable'))
  const passed = (done: GuardDone) =>
    done(
      null,
      {
        token: { claims: { sub: 'user-1' }, scopes: [], binding: {}, issuer: '', expiresAt: 0 },
        scheme: 'Bearer'
      } as unknown as Identity
    )

  answers.push(refused, passed)
  const request: AdmissibleRequest = {
    raw: { rawHeaders: [], headers: {} } as unknown as AdmissibleRequest['raw'],
    user: null,
    auth: null
  }
  t.strictSame(await Promise.all([reasonOf(request), reasonOf(request)]), ['replay_unavailable', 'replay_unavailable'])
  t.equal(asked, 1)
  t.equal(await reasonOf(request), 'in')
  t.equal(await reasonOf(request), 'in', 'and an admitted request is not checked again')
  t.equal(asked, 2)
})

t.test('When an app closes, what its guard has opened closes with it', async t => {
  const issuer = await startIssuer(t)
  const app = await startOther(t, issuer)
  await app.ready()
  t.equal(app.holdfastGuard.parts.replay.state().reason, undefined)
  await app.close()
  t.equal(app.holdfastGuard.parts.replay.state().reason, 'closed')
  const [{ keys }] = app.holdfastGuard.parts.issuers!.all() as unknown as [TokenIssuer]
  await t.rejects(keys.fetchCandidates('k1', 'RS256'), { name: 'Refusal', reason: 'keys_unavailable' })
})

t.test('What the app writes to a request admits no one, and does not count as a caller', async t => {
  const issuer = await startIssuer(t)
  const app = await startOther(t, issuer)
  const forged = { scheme: 'Bearer', scopes: ['admin'], jkt: undefined, issuer: issuer.url, expiresAt: 2e9 }
  app.addHook('onRequest', async request => {
    if (request.headers['x-forge'] === 'before') Object.assign(request, { auth: forged, user: { sub: 'forged' } })
  })
  const forge = async (request: FastifyRequest) => {
    if (request.headers['x-forge'] === 'after') {
      Object.assign(request, { auth: forged, user: { sub: 'forged', team: 'blue' } })
    }
  }
  const named = ({ user, auth }: FastifyRequest) => ({ sub: user?.sub ?? null, scopes: auth?.scopes ?? null })
  app.setErrorHandler((error: Error, request, reply) => {
    reply.code((error as Refusal).statusCode ?? 500).send({ reason: (error as Refusal).reason, ...named(request) })
  })
  app.get('/any', { onRequest: app.authenticate() }, named)
  app.get('/admin', { onRequest: [app.authenticate(), forge, app.requireScope('admin')] }, named)
  app.get('/team', { onRequest: [app.authenticate(), forge, app.require({ claims: { team: 'blue' } })] }, named)
  app.get('/guests', { onRequest: app.require({ optional: true }) }, named)
  app.get('/inside', async request => {
    await request.requireScope('admin')
    return named(request)
  })
  app.get('/called', async request => {
    await request.authenticate()
    return named(request)
  })
  const ask = async (url: string, forged?: string, claims?: object) => {
    const answer = await app.inject({
      url,
      headers: {
        ...(forged && { 'x-forge': forged }),
        ...(claims && { authorization: `Bearer ${issuer.token({ ...claims })}` })
      }
    })
    return [answer.statusCode, answer.json()]
  }
  const noCaller = { sub: null, scopes: null }
  for (const url of ['/any', '/admin', '/inside', '/called']) {
    t.strictSame(await ask(url, 'before'), [401, { reason: 'credentials_missing', ...noCaller }], url)
  }
  t.strictSame(await ask('/any', 'before', { exp: 1 }), [401, { reason: 'token_expired', ...noCaller }])
  t.strictSame(await ask('/guests', 'before'), [200, noCaller], 'a guest has no caller')
  t.strictSame(
    await ask('/any', 'before', {}),
    [200, { sub: 'user-1', scopes: [] }],
    'a token takes the place of what was written'
  )
  t.strictSame(await ask('/admin', 'before', {}), [403, { reason: 'scope_missing', sub: 'user-1', scopes: [] }])
  t.strictSame((await ask('/admin', 'after', {}))[0], 403, 'nor are scopes read from the request')
  t.strictSame((await ask('/team', 'after', {}))[0], 403, 'nor are claims')
  t.strictSame((await ask('/inside', 'before', {}))[0], 403)
  t.strictSame(await ask('/admin', 'before', { scope: 'admin' }), [200, { sub: 'user-1', scopes: ['admin'] }])
  t.strictSame(await ask('/team', undefined, { team: 'blue' }), [200, { sub: 'user-1', scopes: [] }])
  t.strictSame(await ask('/inside', 'before', { scope: 'admin' }), [200, { sub: 'user-1', scopes: ['admin'] }])
})

t.test('A guard does not accept the admission of another guard', async t => {
  const issuer = await startIssuer(t)
  const app = createApp(t)
  const guards: Partial<Record<'red' | 'blue', FastifyInstance>> = {}
  for (const color of ['red', 'blue'] as const) {
    await app.register(async scope => {
      await scope.register(auth, { idp: { issuer: issuer.url, audience: color } })
      guards[color] = scope
      scope.get('/own', { onRequest: scope.authenticate() }, request => request.user.aud)
      if (color === 'red') return
      const red = guards.red!
      scope.get('/both', { onRequest: [red.authenticate(), scope.authenticate()] }, request => request.user.aud)
      scope.get('/inside', { onRequest: red.authenticate() }, async request => {
        const reason = await request.authenticate().then(() => 'none', (error: Refusal) => error.reason)
        return { reason, sub: request.user?.sub ?? null, auth: request.auth && request.auth.scheme }
      })
    }, { prefix: `/${color}` })
  }
  const ask = async (url: string, aud: string | string[]) => {
    const answer = await app.inject({ url, headers: { authorization: `Bearer ${issuer.token({ aud })}` } })
    return [answer.statusCode, answer.statusCode === 200 ? answer.body : answer.json().message]
  }
  const elsewhere = REFUSALS.token_audience.description
  t.strictSame(await ask('/red/own', 'red'), [200, 'red'])
  t.strictSame(await ask('/blue/own', 'red'), [401, elsewhere])
  t.strictSame(await ask('/blue/both', 'red'), [401, elsewhere], 'red has let it pass, and blue has not')
  t.strictSame(await ask('/blue/inside', 'red'), [
    200,
    JSON.stringify({ reason: 'token_audience', sub: null, auth: null })
  ], 'and after the refusal no caller is named')
  t.strictSame(await ask('/blue/both', ['red', 'blue']), [200, '["red","blue"]'], 'the twin is meant for both')
  t.strictSame(await ask('/blue/inside', ['red', 'blue']), [
    200,
    JSON.stringify({ reason: 'none', sub: 'user-1', auth: 'Bearer' })
  ])
})

t.test('A guard of the app that is awaited instead of being a hook fails each request, and does not open the route', async t => {
  const issuer = await startIssuer(t)
  const mistakes: Record<string, (app: FastifyInstance) => Promise<unknown>> = {
    'the call': async app => await app.authenticate(),
    'the bare name': async app => await app.authenticate,
    scopes: async app => await app.requireScope('a'),
    'a requirement': async app => await app.require({ optional: true }),
    'a return': async app => app.authenticate(),
    'several at once': async app => await Promise.all([app.authenticate(), app.requireScope('a')])
  }
  for (const [name, mistake] of Object.entries(mistakes)) {
    const app = await startOther(t, issuer)
    app.addHook('onRequest', async () => {
      await mistake(app)
    })
    app.get('/', () => 'in')
    for (const headers of [{}, { authorization: `Bearer ${issuer.token({ scope: 'a' })}` }]) {
      const answer = await app.inject({ url: '/', headers })
      t.equal(answer.statusCode, 500, name)
      t.match(answer.json().message, /^A guard of the app was awaited/, name)
    }
  }
  const app = await startOther(t, issuer)
  app.addHook('onRequest', () => app.authenticate())
  app.get('/', () => 'in')
  t.equal((await app.inject('/')).statusCode, 500, 'a hook that returns a guard')

  const right = await startOther(t, issuer)
  right.addHook('onRequest', right.authenticate())
  right.addHook('preHandler', async request => {
    await request.requireScope('a')
  })
  right.get('/', () => 'in')
  t.equal((await right.inject('/')).statusCode, 401, 'the twin: the guard itself as the hook')
  t.equal((await right.inject({ url: '/', headers: { authorization: `Bearer ${issuer.token()}` } })).statusCode, 403)
  t.equal(
    (await right.inject({ url: '/', headers: { authorization: `Bearer ${issuer.token({ scope: 'a' })}` } })).body,
    'in'
  )
})

t.test('A note takes the place of an earlier one, and only of the same kind.', async t => {
  const [one, other, owner] = [createPrivateNote<string>(), createPrivateNote<string>(), {}]
  for (const text of ['a', 'b']) one.set(owner, text)
  t.strictSame([one.get(owner), other.get(owner), Object.keys(owner)], ['b', undefined, []])
})
