import { readFileSync } from 'node:fs'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import t, { type Test } from 'tap'
import holdfast from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { isUserOfPassport } from '../../plugins/auth/request-user.ts'
import { createApp } from '../helpers/app.ts'

type Prepare = (app: FastifyInstance) => unknown

/** An app that has made something of `request.user` before the guard came. */
async function start (t: Test, prepare: Prepare, more: object = {}) {
  const idp = await createTestIssuer()
  const app = createApp(t)
  await prepare(app)
  await app.register(holdfast, { ...idp.options, ...more })
  const bearer = async (url: string, claims: object) =>
    (await app.inject({ url, headers: { authorization: `Bearer ${await idp.token({ ...claims })}` } })).json()
  return { app, bearer }
}

const setUser = async (request: FastifyRequest) => {
  ;(request as { user: unknown }).user = { sub: 'ben' }
}
const seen = ({ user, auth }: FastifyRequest) => ({
  sub: (user as { sub: string } | null)?.sub ?? null,
  scopes: auth?.scopes ?? null
})

/** What @fastify/passport does to an app: two decorators, and the user of the session before each handler. */
const passport = fp(async (app: FastifyInstance) => {
  app.decorateRequest('passport', null)
  app.decorateRequest('user', null as never)
  app.addHook('preValidation', setUser)
}, { name: '@fastify/passport' })

t.test('A getter named user stops the start with a sentence.', async t => {
  const getter = { getter: () => ({ sub: 'app' }) }
  const sentence = /^request\.user is declared by the app as a getter/
  await t.rejects(
    start(t, app => {
      app.decorateRequest('user', getter as never)
    }),
    { message: sentence }
  )
  const inChild = async (prepare: Prepare) => {
    const app = createApp(t)
    prepare(app)
    const { options } = await createTestIssuer()
    app.register(async scope => {
      await scope.register(holdfast, options)
    })
    await app.ready()
  }
  await t.rejects(
    inChild(app => {
      app.decorateRequest('user', getter as never)
    }),
    { message: sentence },
    'of a scope around it, too'
  )
  await t.resolves(
    inChild(app => {
      app.decorateRequest('user', null as never)
    }),
    'the twin: a plain decorator'
  )
  const { app, bearer } = await start(t, app => {
    app.decorateRequest('user', {
      getter (this: { held?: unknown }) {
        return this.held ?? null
      },
      setter (this: { held?: unknown }, held: unknown) {
        this.held = held
      }
    } as never)
  })
  app.get('/', { onRequest: app.requireScope('a') }, seen)
  t.strictSame(
    await bearer('/', { sub: 'ann', scope: 'a' }),
    { sub: 'ann', scopes: ['a'] },
    'the twin: a getter that can be set'
  )
})

t.test('An app that has no @fastify/passport may change the user for its handler.', async t => {
  const { app, bearer } = await start(t, () => {})
  app.get('/', { onRequest: app.requireScope('a'), preHandler: setUser }, seen)
  t.strictSame(await bearer('/', { sub: 'ann', scope: 'a' }), { sub: 'ben', scopes: ['a'] })
})

t.test('Beside @fastify/passport, scopes and user are of one person.', async t => {
  const { app, bearer } = await start(t, app => app.register(passport))
  app.get('/token', { onRequest: app.requireScope('a') }, seen)
  let runs = 0
  app.get('/route', {
    onRequest: app.requireScope('a'),
    preHandler: [setUser, async () => {
      runs++
    }]
  }, seen)
  app.get('/inside', async request => {
    await request.requireScope('a')
    return seen(request)
  })
  app.get('/session', seen)
  app.get('/either', { onRequest: app.require({ optional: true }) }, seen)
  await app.ready()
  for (const url of ['/token', '/route', '/inside', '/either']) {
    t.strictSame(await bearer(url, { sub: 'ann', scope: 'a' }), { sub: 'ann', scopes: ['a'] }, url)
  }
  t.equal(runs, 1, 'a hook of the route has run')
  for (const url of ['/session', '/either']) {
    t.strictSame(
      (await app.inject(url)).json(),
      { sub: 'ben', scopes: null },
      `the twin: ${url} without a token is for the user of the session`
    )
  }
})

t.test('Beside @fastify/passport too, who would be refused is nobody.', async t => {
  const observe = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)
  const { app, bearer } = await start(t, app => app.register(passport), { server: { observe } })
  app.get('/', { onRequest: app.requireScope('a') }, seen)
  t.strictSame(await bearer('/', { sub: 'ann' }), { sub: null, scopes: null })
  t.strictSame(await bearer('/', { sub: 'ann', scope: 'a' }), { sub: 'ann', scopes: ['a'] }, 'the twin')
})

t.test('@fastify/passport is registered first: afterwards its decorator stops the start.', async t => {
  const { app } = await start(t, () => {})
  await t.rejects(Promise.resolve(app.register(passport)), {
    code: 'FST_ERR_DEC_ALREADY_PRESENT',
    message: "The decorator 'user' has already been added!"
  })
  t.match(readFileSync('docs/reference/plugin.md', 'utf8'), /^\| @fastify\/passport \| register it first;/m)
})

t.test('An app may put an object of its own in the place of request.auth: then its user stands too.', async t => {
  const { app, bearer } = await start(t, app => app.register(passport))
  const setAuth = async (request: FastifyRequest) => {
    ;(request as { auth: unknown }).auth = { scopes: ['own'] }
  }
  app.get('/auth', { onRequest: [app.requireScope('a'), setAuth] }, seen)
  app.get('/user', { onRequest: app.requireScope('a') }, seen)
  await app.ready()
  t.strictSame(await bearer('/auth', { sub: 'ann', scope: 'a' }), { sub: 'ben', scopes: ['own'] })
  t.strictSame(
    await bearer('/user', { sub: 'ann', scope: 'a' }),
    { sub: 'ann', scopes: ['a'] },
    'the twin: as the guard leaves it'
  )
})

t.test('Where Fastify keeps its requests elsewhere, nothing is said of the getter.', async t => {
  t.equal(isUserOfPassport({ hasRequestDecorator: name => name === 'user' }), false)
})

t.test('The guard leaves the names of plugins to the app.', async t => {
  const { app } = await start(t, () => {})
  for (const name of ['auth', 'audit', 'revocation']) t.notOk(app.hasPlugin(name), name)
  t.ok(app.hasPlugin('holdfast-guard'))
})

t.test('A token of a cookie is read from the raw line that a hook adds, and a changed header is warned of once.', async t => {
  const idp = await createTestIssuer()
  const cookie = `Bearer ${await idp.token({ sub: 'ann' })}`
  const old = `DPoP ${await idp.expiredToken()}`
  for (const isRaw of [true, false]) {
    const warnings: string[] = []
    const app = createApp(t, {
      logger: {
        level: 'warn',
        stream: { write: (line: string) => warnings.push((JSON.parse(line) as { msg: string }).msg) }
      }
    })
    app.addHook('onRequest', async request => {
      if (request.url === '/old') request.raw.rawHeaders.push('Authorization', old)
      else if (isRaw) request.raw.rawHeaders.push('Authorization', cookie)
      else request.headers.authorization = cookie
    })
    await app.register(holdfast, idp.options)
    app.get('/me', { onRequest: app.authenticate() }, seen)
    app.get('/guest', { onRequest: app.require({ optional: true }) }, seen)
    app.get('/old', { onRequest: app.authenticate() }, seen)
    warnings.length = 0
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const { status, headers } = await fetch(`${url}/old`)
    t.equal(status, 401)
    t.match(headers.get('www-authenticate'), /^Bearer, DPoP error="invalid_token"/, 'on the scheme of the line')
    const answers = []
    for (const path of ['/me', '/guest', '/me']) answers.push(await fetch(url + path))
    t.strictSame(answers.map(({ status }) => status), isRaw ? [200, 200, 200] : [401, 200, 401])
    const guest = await answers[1]!.json() as { sub: string | null }
    t.equal(guest.sub, isRaw ? 'ann' : null)
    const twice = await fetch(`${url}/me`, { headers: { authorization: cookie } })
    t.equal(twice.status, isRaw ? 401 : 200, 'two lines are refused')
    t.strictSame(
      warnings.map(text => text.split(',')[0]),
      isRaw ? [] : ['A hook has changed request.headers.authorization']
    )
  }
})
