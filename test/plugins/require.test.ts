import Fastify, { type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import type { RequirementOptions } from '../../lib/guard/requirement/requirement.ts'
import auth from '../../plugins/auth.ts'
import type { FileOptions, HoldfastOptions } from '../../lib/settings/option-types.ts'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'
import { nowSeconds } from '../helpers/clock.ts'
import { createLoggedApp } from '../helpers/app.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, startIssuer, type Overrides } from '../helpers/issuer.ts'
import { rowsOf } from '../helpers/rows.ts'

/** An app with the auth plugin. `ask` sends a Bearer token with these claims, or the headers that are given. */
async function start (t: Test, options: FileOptions = {}) {
  const issuer = await startIssuer(t)
  const { app, log } = createLoggedApp(t)
  await app.register(auth, { ...options, idp: { issuer: issuer.url, audience: AUDIENCE, ...options.idp } })
  const send = async (url: string, headers: Record<string, string> = {}) => {
    log.length = 0
    const answer = await app.inject({ url, headers: { host: 'api.example', ...headers } })
    const challenges = parseChallenges(String(answer.headers['www-authenticate'] ?? ''))
    const refusals = log.filter(({ msg }) => msg === 'request refused')
    t.ok(refusals.length <= 1, 'a refusal is logged once')
    return {
      status: answer.statusCode,
      reason: refusals[0]?.reason as RefusalReason | undefined,
      body: answer.body,
      challenges: Object.fromEntries(challenges.map(({ scheme, parameters }) => [scheme, parameters]))
    }
  }
  const bearer = (claims: Overrides = {}) => ({
    authorization: `Bearer ${issuer.token(claims)}`
  })
  return { app, issuer, log, send, ask: (url: string, claims?: Overrides) => send(url, bearer(claims)) }
}

/** What a handler knows of its caller. */
const caller = ({ user, auth }: FastifyRequest) => ({ user: user?.sub ?? null, auth: auth?.scheme ?? null })

interface Row {
  requirement: RequirementOptions
  passes: readonly Overrides[]
  fails: readonly Overrides[]
}

/**
 * Each requirement with tokens that meet it and tokens that do not. Within a row they differ in what the row is about.
 */
const ROWS: Partial<Record<RefusalReason, Record<string, Row>>> = {
  scope_missing: {
    'one scope': {
      requirement: { scope: 'a' },
      passes: [{ scope: 'a' }, { scope: 'b a' }],
      fails: [{}, { scope: 'A' }, { scope: 'ab' }, { scope: 5 }]
    },
    'a scope by its whole name': {
      requirement: { scope: 'ab' },
      passes: [{ scope: 'ab' }],
      fails: [{ scope: 'a' }, { scope: 'b' }, { scope: 'a b' }, { scope: 'abc' }, { scope: 'cab' }]
    },
    'all scopes': {
      requirement: { scope: ['a', 'b'] },
      passes: [{ scope: 'b a' }, { scope: ['a', 'b'] }],
      fails: [{ scope: 'a' }]
    },
    'any scope': {
      requirement: { anyScope: ['a', 'b'] },
      passes: [{ scope: 'a' }, { scope: 'b' }],
      fails: [{ scope: 'c' }]
    },
    'a scope and any of others': {
      requirement: { scope: 'a', anyScope: 'b' },
      passes: [{ scope: 'a b' }],
      fails: [{ scope: 'a' }, { scope: 'b' }]
    }
  },
  claim_mismatch: {
    'a claim with a value': {
      requirement: { claims: { tenant: 'blue' } },
      passes: [{ tenant: 'blue' }, { tenant: ['red', 'blue'] }],
      fails: [
        {},
        { tenant: 'red' },
        { tenant: 'Blue' },
        { tenant: 'blues' },
        { tenant: 'sky-blue' },
        { tenant: 'blu' },
        { tenant: 'lue' },
        { tenant: ['red'] },
        { tenant: [] },
        { tenant: [['blue']] },
        { tenant: null },
        { tenant: 5 },
        { tenant: true },
        { tenant: { blue: 'blue' } }
      ]
    },
    'a claim with a number': {
      requirement: { claims: { level: 2 } },
      passes: [{ level: 2 }, { level: [1, 2] }],
      fails: [{ level: '2' }, { level: 3 }, { level: true }, { level: null }]
    },
    'a claim with false': {
      requirement: { claims: { guest: false } },
      passes: [{ guest: false }],
      fails: [{}, { guest: 'false' }, { guest: 0 }, { guest: null }, { guest: '' }]
    },
    'a claim with one of several values': {
      requirement: { claims: { group: ['x', 1] } },
      passes: [{ group: 'x' }, { group: 1 }, { group: ['y', 1] }],
      fails: [{ group: 'y' }, { group: '1' }, { group: ['y'] }, { group: {} }]
    },
    'two claims': {
      requirement: { claims: { tenant: 'blue', level: 2 } },
      passes: [{ tenant: 'blue', level: 2 }],
      fails: [{ tenant: 'blue' }, { level: 2 }]
    },
    'a claim with an inherited name': {
      requirement: { claims: { constructor: 'x' } },
      passes: [{ constructor: 'x' }],
      fails: [{}, { constructor: 'y' }]
    },
    'a predicate for an inherited name': {
      requirement: { claims: { toString: () => true } },
      passes: [{ toString: 1 }],
      fails: [{}]
    },
    'a predicate': {
      requirement: { claims: { age: age => typeof age === 'number' && age >= 18 } },
      passes: [{ age: 18 }],
      fails: [{}, { age: 17 }, { age: '18' }]
    },
    'a predicate that promises': {
      requirement: { claims: { age: async age => age === 18 } },
      passes: [{ age: 18 }],
      fails: [{}, { age: 17 }]
    },
    'a value and a predicate': {
      requirement: { claims: { tenant: 'blue', age: age => age === 18 } },
      passes: [{ tenant: 'blue', age: 18 }],
      fails: [{ tenant: 'red', age: 18 }, { tenant: 'blue', age: 1 }]
    },
    'a claim inside an object': {
      requirement: { claims: { 'realm_access.roles': 'admin' } },
      passes: [{ realm_access: { roles: ['user', 'admin'] } }, { realm_access: { roles: 'admin' } }, {
        'realm_access.roles': ['admin']
      }],
      fails: [
        {},
        { realm_access: null },
        { realm_access: 'roles' },
        { realm_access: {} },
        { realm_access: { roles: ['user'] } },
        { realm_access: { roles: { admin: true } } },
        { realm_access: [{ roles: ['admin'] }] },
        { realm_access: { roles: ['user'] }, roles: ['admin'] },
        { 'realm_access.roles': ['user'], realm_access: { roles: ['admin'] } }
      ]
    },
    'a claim inside two objects': {
      requirement: { claims: { 'resource_access.api.roles': 'admin' } },
      passes: [{ resource_access: { api: { roles: ['admin'] } } }, { resource_access: { 'api.roles': ['admin'] } }],
      fails: [{ resource_access: { 'api.roles': ['user'], api: { roles: ['admin'] } } }, {
        resource_access: { api: [{ roles: ['admin'] }] }
      }]
    },
    'a list inside an object, by position': {
      requirement: { claims: { 'a.0': 'x' } },
      passes: [{ a: { 0: 'x' } }],
      fails: [{ a: ['x'] }, { a: 'x' }]
    },
    'inherited members of an object': {
      requirement: { claims: { 'a.constructor.name': 'Object' } },
      passes: [{ a: { constructor: { name: 'Object' } } }],
      fails: [{ a: {} }, { a: 'x' }]
    },
    'a predicate for a member that is inherited': {
      requirement: { claims: { 'a.length': () => true } },
      passes: [{ a: { length: 1 } }],
      fails: [{ a: [1] }, { a: 'x' }, { a: {} }]
    },
    'a predicate for a claim inside an object': {
      requirement: { claims: { 'a.b': value => value === 7 } },
      passes: [{ a: { b: 7 } }, { 'a.b': 7, a: { b: 8 } }],
      fails: [{}, { a: { b: 8 } }, { 'a.b': 8, a: { b: 7 } }]
    },
    'a name that ends with a dot': {
      requirement: { claims: { 'a.': 'x' } },
      passes: [{ 'a.': 'x' }, { a: { '': 'x' } }],
      fails: [{ a: 'x' }]
    },
    'a name that begins with another': {
      requirement: { claims: { ab: 'x' } },
      passes: [{ ab: 'x' }],
      fails: [{ a: { '': 'x' } }, { a: 'x' }]
    }
  },
  acr_missing: {
    'an acr': {
      requirement: { acr: 'urn:mfa' },
      passes: [{ acr: 'urn:mfa' }],
      fails: [
        {},
        { acr: 'urn:pwd' },
        { acr: 'urn:mfa2' },
        { acr: 'xurn:mfa' },
        { acr: 'urn:mf' },
        { acr: 'mfa' },
        { acr: 5 },
        { acr: ['urn:mfa'] },
        { acr: null }
      ]
    },
    'one of several acr values': {
      requirement: { acr: ['urn:mfa', '2'] },
      passes: [{ acr: 'urn:mfa' }, { acr: '2' }],
      fails: [{ acr: 'urn:pwd' }, { acr: 2 }]
    }
  },
  authentication_too_old: {
    'a recent login': {
      requirement: { maxAgeSeconds: 600 },
      passes: [{ auth_time: nowSeconds() }, { auth_time: nowSeconds() - 20 }, { auth_time: nowSeconds() + 3 }],
      fails: [
        {},
        { auth_time: nowSeconds() - 602 },
        { auth_time: nowSeconds() + 3600 },
        { auth_time: -1 },
        { auth_time: 0 },
        { auth_time: String(nowSeconds()) },
        { auth_time: null },
        { auth_time: [nowSeconds()] }
      ]
    },
    'a login of any age': {
      requirement: { maxAgeSeconds: Number.MAX_SAFE_INTEGER },
      passes: [{ auth_time: 0 }],
      fails: [{}, { auth_time: -1 }, { auth_time: nowSeconds() + 3600 }]
    }
  },
  authorization_details_missing: {
    'an authorization detail': {
      requirement: { authorizationDetails: { type: 'payment' } },
      passes: [{ authorization_details: [{ type: 'payment' }] }, {
        authorization_details: [null, 'x', { type: 'account' }, { type: 'payment', amount: 1 }]
      }],
      fails: [
        {},
        { authorization_details: [] },
        { authorization_details: [{ type: 'account' }] },
        { authorization_details: { type: 'payment' } },
        { authorization_details: 'payment' },
        { authorization_details: ['payment'] },
        { authorization_details: [{ type: ['payment'] }] }
      ]
    },
    'an authorization detail that passes a check': {
      requirement: { authorizationDetails: { type: 'payment', check: ({ amount }) => amount === 1 } },
      passes: [{ authorization_details: [{ type: 'payment', amount: 1 }] }, {
        authorization_details: [{ type: 'payment', amount: 2 }, { type: 'payment', amount: 1 }]
      }],
      fails: [{}, { authorization_details: [{ type: 'payment', amount: 2 }] }, {
        authorization_details: [{ type: 'account', amount: 1 }]
      }]
    },
    'two authorization details': {
      requirement: {
        authorizationDetails: [{ type: 'payment', check: async ({ amount }) => amount === 1 }, { type: 'account' }]
      },
      passes: [{ authorization_details: [{ type: 'payment', amount: 1 }, { type: 'account' }] }],
      fails: [{ authorization_details: [{ type: 'payment', amount: 1 }] }, {
        authorization_details: [{ type: 'account' }]
      }, { authorization_details: [{ type: 'payment' }, { type: 'account' }] }]
    }
  }
}

t.test('The plugin alone takes the section revocation: a good token passes', async t => {
  const { app, ask } = await start(t, { revocation: { logout: { clientId: 'app' } } })
  app.get('/me', { onRequest: app.authenticate() }, ({ user }) => user.sub)
  t.equal((await ask('/me')).status, 200)
})

t.test('Each requirement admits the tokens that meet it, and no others', async t => {
  const { app, ask } = await start(t)
  const rows = rowsOf<RefusalReason, Row>(ROWS)
  for (const [at, { value: { requirement } }] of rows.entries()) {
    app.get(`/hook/${at}`, { onRequest: app.require(requirement) }, caller)
    app.get(`/inside/${at}`, async request => request.require(requirement).then(() => caller(request)))
  }
  for (const [at, { title, value: { passes, fails }, outcome: reason }] of rows.entries()) {
    for (const path of [`/hook/${at}`, `/inside/${at}`]) {
      for (const claims of passes) {
        t.equal((await ask(path, claims)).status, 200, `${path} ${title}: ${JSON.stringify(claims)}`)
      }
      for (const claims of fails) {
        const { status, error } = REFUSALS[reason]
        const refused = await ask(path, claims)
        t.hasStrict(
          refused,
          { status, reason, challenges: { Bearer: { error } } },
          `${path} ${title}: not ${JSON.stringify(claims)}`
        )
        t.notOk(refused.challenges.DPoP?.error, 'the error is on the scheme that was used')
      }
    }
  }
})

t.test('A claim named __proto__ is a claim like any other', async t => {
  const { app, issuer, send } = await start(t)
  app.get('/', { onRequest: app.require({ claims: JSON.parse('{"__proto__":"x"}') }) }, caller)
  app.get('/inside', { onRequest: app.require({ claims: { 'a.__proto__.b': 'x' } }) }, caller)
  const sendWith = (url: string, member: string) => {
    const token = issuer.rawToken(
      `{"alg":"RS256","kid":"${issuer.keys[0]!.kid}"}`,
      JSON.stringify(issuer.claims()).replace(/}$/, `${member}}`)
    )
    return send(url, { authorization: `Bearer ${token}` })
  }
  t.equal((await sendWith('/', ',"__proto__":"x"')).status, 200)
  for (const member of [',"__proto__":"y"', '']) t.equal((await sendWith('/', member)).reason, 'claim_mismatch')
  t.equal((await sendWith('/inside', ',"a":{"__proto__":{"b":"x"}}')).status, 200)
  for (const member of [',"a":{"__proto__":{"b":"y"}}', ',"a":{}']) {
    t.equal((await sendWith('/inside', member)).reason, 'claim_mismatch')
  }
})

t.test('Only `true` from a predicate passes, and a predicate that fails is a fault', async t => {
  const { app, log, ask } = await start(t)
  const answers: ReadonlyArray<readonly [title: string, predicate: unknown, status: number]> = [
    ['true', () => true, 200],
    ['a promise of true', async () => true, 200],
    ['a thenable of true', () => ({ then: (resolve: (value: boolean) => void) => resolve(true) }), 200],
    ['false', () => false, 403],
    ['nothing', () => {}, 403],
    ['1', () => 1, 403],
    ['a text', () => 'true', 403],
    ['an object', () => ({}), 403],
    ['a boxed true', () => Object(true), 403],
    ['a promise of 1', async () => 1, 403],
    ['a throw', () => {
      throw new Error('broken')
    }, 500],
    ['a rejection', async () => {
      throw new Error('broken')
    }, 500],
    ['a throw of nothing', () => {
      // eslint-disable-next-line no-throw-literal
      throw undefined
    }, 500],
    ['a rejection with nothing', () => Promise.reject(undefined), 500], // eslint-disable-line prefer-promise-reject-errors
    ['a throw with a status', () => {
      throw Object.assign(new Error('forbidden'), { statusCode: 403 })
    }, 500]
  ]
  for (const [at, [, predicate]] of answers.entries()) {
    app.get(`/claim/${at}`, { onRequest: app.require({ claims: { sub: predicate as () => boolean } }) }, caller)
    app.get(`/detail/${at}`, {
      onRequest: app.require({ authorizationDetails: { type: 'x', check: predicate as () => boolean } })
    }, caller)
    app.get(`/inside/${at}`, async request => request.require({ claims: { sub: predicate as () => boolean } }))
  }
  for (const [at, [title, , status]] of answers.entries()) {
    for (const path of ['claim', 'detail', 'inside']) {
      const answer = await ask(`/${path}/${at}`, { authorization_details: [{ type: 'x' }] })
      t.equal(answer.status, status, `${path}: ${title}`)
      t.equal(Object.keys(answer.challenges).length > 0, status === 403, 'a fault has no challenge')
    }
  }
  t.match(
    log.at(-2),
    { level: 50, err: { message: /^The predicate for the claim sub failed/ } },
    'the log says which predicate failed'
  )
  await ask('/detail/10', { authorization_details: [{ type: 'x' }] })
  t.match(log.find(({ level }) => level === 50), {
    err: { message: /^The predicate for the authorization detail x failed/ }
  })
})

t.test('The log says which claim or detail was missing', async t => {
  const { app, ask, log } = await start(t)
  const requirements: Record<string, RequirementOptions> = {
    value: { claims: { tenant: 'blue' } },
    predicate: { claims: { tenant: 'blue', team: () => false } },
    detail: { authorizationDetails: { type: 'account' } },
    check: { authorizationDetails: { type: 'payment', check: () => false } }
  }
  for (const [name, requirement] of Object.entries(requirements)) {
    app.get(`/${name}`, { onRequest: app.require(requirement) }, caller)
  }
  const refusal = async (path: string, claims: Overrides) => {
    await ask(path, claims)
    return log.find(({ msg }) => msg === 'request refused')
  }
  t.hasStrict(await refusal('/value', { tenant: 'red' }), { reason: 'claim_mismatch', claim: 'tenant' })
  t.hasStrict(await refusal('/predicate', { tenant: 'blue', team: 1 }), { reason: 'claim_mismatch', claim: 'team' })
  t.hasStrict(await refusal('/detail', { authorization_details: [{ type: 'payment' }] }), {
    reason: 'authorization_details_missing',
    type: 'account'
  })
  t.hasStrict(await refusal('/check', { authorization_details: [{ type: 'payment' }] }), {
    reason: 'authorization_details_missing',
    type: 'payment'
  })
})

t.test('A predicate is not called unless all the rest holds', async t => {
  const { app, ask } = await start(t)
  const asked: unknown[] = []
  const note = (value: unknown) => asked.push(value) > 0
  app.get('/', { onRequest: app.require({ scope: 'a', claims: { team: note, tenant: 'blue' } }) }, caller)
  t.equal((await ask('/', { scope: 'a', tenant: 'blue' })).reason, 'claim_mismatch', 'the claim is missing')
  t.equal((await ask('/', { scope: 'a', tenant: 'red', team: 1 })).reason, 'claim_mismatch')
  t.equal((await ask('/', { scope: 'b', tenant: 'blue', team: 1 })).reason, 'scope_missing')
  t.strictSame(asked, [])
  t.equal((await ask('/', { scope: 'a', tenant: 'blue', team: 1 })).status, 200)
  t.strictSame(asked, [1])
})

t.test('A step-up challenge comes before a 403, with all that the route requires of a login', async t => {
  const { app, issuer, ask, send } = await start(t)
  const client = await createDpopClient()
  app.get('/pay', {
    onRequest: app.require({ acr: ['urn:mfa', 'urn:key'], maxAgeSeconds: 60, scope: 'pay', claims: { tenant: 'blue' } })
  }, caller)
  app.get('/acr', { onRequest: app.require({ acr: 'urn:mfa' }) }, caller)
  app.get('/age', { onRequest: app.require({ maxAgeSeconds: 0 }) }, caller)
  const met = { acr: 'urn:key', auth_time: nowSeconds(), scope: 'pay', tenant: 'blue' }
  t.equal((await ask('/pay', met)).status, 200)
  const challenge = { error: 'insufficient_user_authentication', acr_values: 'urn:mfa urn:key', max_age: '60' }
  for (
    const [lack, reason] of [[{ acr: 'urn:pwd' }, 'acr_missing'], [{ auth_time: 1 }, 'authentication_too_old'], [{
      acr: undefined,
      scope: undefined,
      tenant: undefined
    }, 'acr_missing']] as const
  ) {
    const refused = await ask('/pay', { ...met, ...lack })
    t.hasStrict(refused, {
      status: 401,
      reason,
      challenges: { Bearer: { ...challenge, error_description: REFUSALS[reason].description } }
    })
    t.strictSame(
      Object.keys(refused.challenges.Bearer!),
      ['error', 'error_description', 'acr_values', 'max_age'],
      'and no scope'
    )
    t.strictSame(Object.keys(refused.challenges.DPoP!), ['algs'])
  }
  const token = issuer.token({ ...met, acr: undefined, cnf: client.cnf })
  const bound = await send('/pay', {
    authorization: `DPoP ${token}`,
    dpop: client.proof({ token, url: 'http://api.example/pay' })
  })
  t.match(bound, { status: 401, challenges: { DPoP: { ...challenge, algs: /ES256/ } } })
  t.notOk(bound.challenges.Bearer!.error)

  t.hasStrict(await ask('/pay', { ...met, scope: 'x', tenant: undefined }), {
    status: 403,
    reason: 'scope_missing',
    challenges: { Bearer: { scope: 'pay' } }
  })
  const other = await ask('/pay', { ...met, tenant: 'red' })
  t.hasStrict(other, { status: 403, reason: 'claim_mismatch', challenges: { Bearer: { error: 'insufficient_scope' } } })
  t.equal(other.challenges.Bearer!.scope, undefined, 'no scope would help')
  t.hasStrict(
    (await send('/pay')).challenges,
    { Bearer: { scope: 'pay' }, DPoP: { scope: 'pay' } },
    'a client without a token gets the scope'
  )
  t.strictSame(Object.keys((await ask('/acr')).challenges.Bearer!), ['error', 'error_description', 'acr_values'])
  t.strictSame((await ask('/age')).challenges.Bearer!.max_age, '0')
  const expired = await ask('/acr', { exp: 1 })
  t.strictSame(Object.keys(expired.challenges.Bearer!), ['error', 'error_description'], 'another login would not help')
})

t.test('An optional route serves a guest, and checks any credentials in full', async t => {
  const { app, issuer, ask, send } = await start(t)
  const client = await createDpopClient()
  app.get('/', { onRequest: app.require({ optional: true }) }, caller)
  app.get('/scoped', { onRequest: app.require({ optional: true, scope: 'a' }) }, caller)
  app.get('/inside', async request => request.require({ optional: true }).then(() => caller(request)))
  app.get('/both', { onRequest: [app.require({ optional: true }), app.require({ scope: 'a' })] }, caller)
  app.get(
    '/later',
    { onRequest: app.require({ optional: true }) },
    async request => request.requireScope('a').then(() => caller(request))
  )
  app.get('/never', { onRequest: app.require({ optional: false }) }, caller)

  const [guest, user] = [{ user: null, auth: null }, { user: 'user-1', auth: 'Bearer' }]
  for (const path of ['/', '/scoped', '/inside']) {
    const answer = await send(path)
    t.strictSame([answer.status, JSON.parse(answer.body), answer.reason], [200, guest, undefined], path)
    t.strictSame(JSON.parse((await ask(path, { scope: 'a' })).body), user, path)
    const token = issuer.token({ scope: 'a', cnf: client.cnf })
    const proof = client.proof({ token, url: `http://api.example${path}` })
    t.equal((await send(path, { authorization: `DPoP ${token}`, dpop: proof })).status, 200)
    const sent: ReadonlyArray<readonly [headers: Record<string, string>, reason: RefusalReason]> = [
      [{ authorization: `Bearer ${issuer.token({ exp: 1 })}` }, 'token_expired'],
      [{ authorization: 'Bearer x' }, 'token_malformed'],
      [{ authorization: 'Bearer' }, 'credentials_missing'],
      [{ authorization: '' }, 'credentials_missing'],
      [{ authorization: 'Basic eDp5' }, 'scheme_not_offered'],
      [{ dpop: proof }, 'credentials_missing'],
      [{ dpop: '' }, 'credentials_missing'],
      [{ authorization: `DPoP ${token}` }, 'proof_missing'],
      [{ authorization: `DPoP ${token}`, dpop: proof }, 'proof_replayed']
    ]
    for (const [headers, reason] of sent) {
      t.hasStrict(
        await send(path, headers),
        { status: 401, reason },
        `${path}: ${Object.keys(headers).join()} ${reason}`
      )
    }
  }
  t.hasStrict(await ask('/scoped', { scope: 'b' }), { status: 403, reason: 'scope_missing' })
  for (const path of ['/both', '/later', '/never']) {
    t.hasStrict(await send(path), { status: 401, reason: 'credentials_missing' }, path)
    t.equal((await ask(path, { scope: 'a' })).status, 200, path)
  }
})

t.test('Calls of one handler share one check, though one of them accepts a guest', async t => {
  const { app, issuer, ask, send } = await start(t)
  const client = await createDpopClient()
  app.get('/', async request => {
    const [guest, ...others] = await Promise.allSettled([
      request.require({ optional: true }),
      request.authenticate(),
      request.require({ scope: 'a' })
    ])
    return [guest.status, ...others.map(({ status }) => status), caller(request)]
  })
  t.strictSame(JSON.parse((await send('/')).body), ['fulfilled', 'rejected', 'rejected', { user: null, auth: null }])
  t.strictSame(JSON.parse((await ask('/', { scope: 'b' })).body), ['fulfilled', 'fulfilled', 'rejected', {
    user: 'user-1',
    auth: 'Bearer'
  }])
  const token = issuer.token({ scope: 'a', cnf: client.cnf })
  const bound = await send('/', {
    authorization: `DPoP ${token}`,
    dpop: client.proof({ token, url: 'http://api.example/' })
  })
  t.strictSame(
    JSON.parse(bound.body).slice(0, 3),
    ['fulfilled', 'fulfilled', 'fulfilled'],
    'the proof passes once for all'
  )
})

t.test('Requirements add up along encapsulated hooks, and one proof is enough for all of them', async t => {
  const { app, issuer, ask, send } = await start(t)
  const client = await createDpopClient()
  await app.register(async scope => {
    scope.addHook('onRequest', scope.require({ claims: { tenant: 'blue' } }))
    await scope.register(async inner => {
      inner.addHook('onRequest', inner.requireScope('a'))
      inner.get('/inner', { preHandler: inner.require({ acr: 'urn:mfa' }) }, caller)
    })
    scope.get('/outer', caller)
  })
  const met = { tenant: 'blue', scope: 'a', acr: 'urn:mfa' }
  t.equal((await ask('/inner', met)).status, 200)
  t.equal((await ask('/outer', { tenant: 'blue' })).status, 200)
  t.equal((await ask('/outer', { ...met, tenant: 'red' })).reason, 'claim_mismatch')
  t.equal((await ask('/inner', { ...met, tenant: 'red' })).reason, 'claim_mismatch')
  t.equal((await ask('/inner', { ...met, scope: 'b' })).reason, 'scope_missing')
  t.equal((await ask('/inner', { ...met, acr: 'urn:pwd' })).reason, 'acr_missing')
  const token = issuer.token({ ...met, cnf: client.cnf })
  t.equal(
    (await send('/inner', {
      authorization: `DPoP ${token}`,
      dpop: client.proof({ token, url: 'http://api.example/inner' })
    })).status,
    200
  )
})

t.test('A hook around all routes guards unknown paths too', async t => {
  const { app, ask, send } = await start(t)
  app.addHook('onRequest', app.require({ scope: 'a' }))
  app.setNotFoundHandler(
    { preHandler: app.require({ acr: 'urn:mfa' }) },
    (_request, reply) => reply.code(404).send('nothing')
  )
  t.hasStrict(await send('/nowhere'), {
    status: 401,
    reason: 'credentials_missing',
    challenges: { Bearer: { scope: 'a' } }
  })
  t.hasStrict(await ask('/nowhere'), { status: 403, reason: 'scope_missing' })
  t.hasStrict(await ask('/nowhere', { scope: 'a' }), { status: 401, reason: 'acr_missing' })
  t.equal((await ask('/nowhere', { scope: 'a', acr: 'urn:mfa' })).status, 404)
})

t.test('What a route keeps in its own config under the name `guard` is ignored', async t => {
  const { app, ask, send } = await start(t)
  app.get(
    '/own',
    { onRequest: app.requireScope('a'), config: { guard: 'mine' } as object },
    async ({ routeOptions }) => routeOptions.config
  )
  const { status, reason, challenges } = await send('/own')
  t.strictSame({ status, reason, scope: challenges['DPoP']?.['scope'] }, {
    status: 401,
    reason: 'credentials_missing',
    scope: 'a'
  })
  const passed = await ask('/own', { scope: 'a' })
  t.equal(passed.status, 200)
  t.hasStrict(JSON.parse(passed.body), { guard: 'mine' })
})

t.test('After a requirement that is not met the caller is still known', async t => {
  const { app, ask, send } = await start(t)
  const known: object[] = []
  app.addHook('onResponse', async request => {
    known.push(caller(request))
  })
  app.get('/', { onRequest: app.require({ acr: 'urn:mfa' }) }, caller)
  app.get('/claim', { onRequest: app.require({ claims: { tenant: async () => false } }) }, caller)
  await ask('/')
  await ask('/claim', { tenant: 1 })
  await send('/', { authorization: 'Bearer x' })
  t.strictSame(known, [{ user: 'user-1', auth: 'Bearer' }, { user: 'user-1', auth: 'Bearer' }, {
    user: null,
    auth: null
  }])
})

t.test('A scope implies others when it is judged, and nowhere else', async t => {
  const { app, ask } = await start(t, {
    idp: { scopeImplies: { root: ['admin', 'log'], admin: ['read', 'write'], write: 'read, list', log: ['read'] } }
  })
  app.get('/read', { onRequest: app.requireScope('read') }, request => request.auth!.scopes)
  app.get('/any', { onRequest: app.require({ anyScope: ['list', 'other'] }) }, caller)
  app.get('/admin', { onRequest: app.requireScope('admin', 'write') }, caller)
  const table = [
    { scope: 'read', granted: ['/read'] },
    { scope: 'write', granted: ['/read', '/any'] },
    { scope: 'log', granted: ['/read'] },
    { scope: 'admin', granted: ['/read', '/any', '/admin'] },
    { scope: 'root', granted: ['/read', '/any', '/admin'] },
    { scope: 'Root', granted: [] },
    { scope: 'other', granted: ['/any'] }
  ]
  for (const { scope, granted } of table) {
    for (const path of ['/read', '/any', '/admin']) {
      t.equal((await ask(path, { scope })).status, granted.includes(path) ? 200 : 403, `${scope} for ${path}`)
    }
  }
  t.strictSame(JSON.parse((await ask('/read', { scope: 'root' })).body), ['root'], "the token's own scopes are shown")
  t.equal((await ask('/admin', { scope: 'read' })).challenges.Bearer!.scope, 'admin write')
})

t.test('Scopes that imply each other in a circle stop the start', async t => {
  const idp = { domain: 'tenant.example', audience: AUDIENCE }
  const register = (scopeImplies: unknown) => async () => {
    await Fastify().register(auth, { idp: { ...idp, scopeImplies } } as HoldfastOptions)
  }
  await t.resolves(register({ a: ['b', 'c'], b: ['d'], c: ['d'] }), 'two ways to one scope are no circle')
  await t.resolves(register({ ['__proto__' as string]: ['a'] }))
  await t.rejects(register({ a: ['a'] }), /idp\.scopeImplies has a circle: a implies a/)
  await t.rejects(
    register({ x: ['a'], a: ['b'], b: ['c'], c: ['a'] }),
    /idp\.scopeImplies has a circle: a implies b implies c implies a/
  )
  for (
    const bad of ['admin', ['admin'], { a: [] }, { a: {} }, { a: [['b']] }, { a: ['b"'] }, { 'a b': ['c'] }, {
      a: [null]
    }]
  ) {
    await t.rejects(
      register(bad),
      /idp\.scopeImplies is .*; allowed: map from a scope to a list of scopes/,
      JSON.stringify(bad)
    )
  }
})

t.test('The requirement of a route is checked when the route is made', async t => {
  const { app } = await start(t)
  const bad: Record<string, unknown[]> = {
    'takes one plain object': [undefined, null, 'a', ['a'], () => true, new Date()],
    'no member "scopes"; the members are scope, anyScope': [{ scopes: 'a' }],
    'no member "__proto__"': [JSON.parse('{"__proto__":1}')],
    'no member "constructor"': [{ constructor: 'a' }],
    'scope takes a word': [
      { scope: undefined },
      { scope: [] },
      { scope: '' },
      { scope: ['a', 1] },
      { scope: { any: ['a'] } },
      ...['a b', '\u007f', '\u0080', 'a\n', '\na'].map(scope => ({ scope }))
    ],
    'anyScope takes a word': [{ anyScope: [] }, { anyScope: ['a"'] }],
    'acr takes a word': [{ acr: 'a\\' }, { acr: [] }, { acr: 2 }, { acr: ['urn:ü'] }],
    'maxAgeSeconds takes': [
      { maxAgeSeconds: -1 },
      { maxAgeSeconds: 1.5 },
      { maxAgeSeconds: '60' },
      { maxAgeSeconds: NaN },
      { maxAgeSeconds: Infinity },
      { maxAgeSeconds: undefined }
    ],
    'claims takes an object': [
      { claims: {} },
      { claims: [] },
      { claims: 'a' },
      { claims: new Map() },
      { claims: undefined },
      { claims: null }
    ],
    'the claim "a" takes': [
      { claims: { a: undefined } },
      { claims: { a: null } },
      { claims: { a: [] } },
      { claims: { a: {} } },
      { claims: { a: NaN } },
      { claims: { a: ['x', [1]] } },
      { claims: { a: ['x', () => true] } }
    ],
    'authorizationDetails takes': [
      { authorizationDetails: [] },
      { authorizationDetails: 'payment' },
      { authorizationDetails: {} },
      { authorizationDetails: { type: '' } },
      { authorizationDetails: { type: 'a', check: true } },
      { authorizationDetails: { type: 'a', check: undefined } },
      { authorizationDetails: { type: 'a', amount: 1 } },
      { authorizationDetails: [{ type: 'a' }, null] }
    ],
    'optional takes true or false': [{ optional: 'yes' }, { optional: undefined }, { optional: 1 }]
  }
  for (const [says, all] of Object.entries(bad)) {
    for (const given of all) {
      t.throws(
        () => app.require(given as RequirementOptions),
        { name: 'TypeError', message: new RegExp(says) },
        `${typeof given === 'object' ? JSON.stringify(given) : String(given)}`
      )
    }
  }
  // @ts-expect-error the types say so too
  t.throws(() => app.require(), { name: 'TypeError', message: /takes one plain object/ })
  t.equal(app.require({}).requirement, app.authenticate().requirement, 'nothing is required')
  t.equal(app.require({ optional: false }).requirement, app.authenticate().requirement)
  t.strictSame(app.requireScope('a', 'b').requirement, app.require({ scope: ['a', 'b'] }).requirement)
  t.strictSame(app.requireScope({ any: ['a'] }).requirement, app.require({ anyScope: 'a' }).requirement)
  t.ok(Object.isFrozen(app.require({ scope: 'a' }).requirement))
  const list = ['a']
  const { requirement } = app.require({ scope: list, claims: { x: list } })
  list.push('b')
  t.hasStrict(requirement, { scope: ['a'], claims: [{ allowed: ['a'] }] })
  t.equal(requirement.scope!.length, 1, 'what is changed afterwards changes nothing')
  const early = Fastify().require
  t.equal(early, undefined, 'before the plugin has loaded there is nothing to call')
})

t.test('A requirement with inherited, hidden or missing parts throws when the route is made, at any depth', async t => {
  const { app } = await start(t)
  const good: Record<string, unknown> = { scope: 'a' }
  class Asked {
    scope = 'a'
  }
  const objects: Record<string, unknown> = {
    'an instance of a class': new Asked(),
    'an inherited member': Object.create(good),
    'a hidden member': Object.defineProperty({ acr: 'x' }, 'scope', { value: 'a', enumerable: false }),
    'a member under a symbol': { ...good, [Symbol('scope')]: 'a' },
    'an inherited member beside an own one': Object.assign(Object.create(good), { acr: 'x' }),
    'a list': Object.assign([], { scope: 'b' }),
    'a map': new Map([['scope', 'a']])
  }
  for (const [name, given] of Object.entries(objects)) {
    t.throws(
      () => app.require(given as RequirementOptions),
      { name: 'TypeError', message: /takes one plain object/ },
      name
    )
    t.throws(
      () => app.require({ claims: given as never }),
      { name: 'TypeError', message: /claims takes an object/ },
      `${name} for claims`
    )
    t.throws(() => app.require({ authorizationDetails: given as never }), {
      name: 'TypeError',
      message: /authorizationDetails takes/
    }, `${name} for a detail`)
    t.throws(
      () => app.requireScope(given as never),
      { name: 'TypeError', message: /requireScope takes/ },
      `${name} for scopes`
    )
  }
  t.equal(app.require(good).requirement.scope?.join(), 'a', 'the twin: the same member in plain sight')
  t.equal(
    app.require(Object.assign(Object.create(null), good)).requirement.scope?.join(),
    'a',
    'and without a prototype'
  )
  t.equal(app.requireScope({ any: ['a'] }).requirement.anyScope?.join(), 'a')

  const gap = ['a']
  gap.length = 2
  const lists: Record<string, unknown> = {
    'a gap': gap,
    'something like a list': { 0: 'a', length: 1 }
  }
  for (const [name, given] of Object.entries(lists)) {
    for (const member of ['scope', 'anyScope', 'acr', 'authorizationDetails']) {
      t.throws(
        () => app.require({ [member]: given }),
        { name: 'TypeError', message: new RegExp(`${member} takes`) },
        `${name} for ${member}`
      )
    }
    t.throws(() => app.require({ claims: { team: given as never } }), {
      name: 'TypeError',
      message: /the claim "team" takes/
    }, `${name} for a claim`)
    t.throws(
      () => app.requireScope({ any: given as string[] }),
      { name: 'TypeError', message: /requireScope takes/ },
      `${name} for any`
    )
  }
  t.strictSame(app.require({ scope: ['a'], anyScope: ['a'], acr: ['a'], claims: { team: ['a'] } }).requirement.claims, [
    { name: 'team', allowed: ['a'] }
  ], 'the twin: plain lists')
})

t.test('In a handler a bad requirement is a fault, not a pass', async t => {
  const { app, ask } = await start(t)
  app.get('/', async request => request.require({ scope: [] }))
  type Careless = { authenticate: (options?: object) => Promise<void> }
  for (const [path, ...args] of [['/ignored', { scope: 'admin' }], ['/twin']] as const) {
    app.get(path, async request => {
      await (request as Careless).authenticate(...args)
      return 'in'
    })
  }
  for (const [path, status] of [['/', 500], ['/ignored', 500], ['/twin', 200]] as const) {
    t.equal((await ask(path)).status, status, path)
  }
})
